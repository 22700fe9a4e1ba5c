"""A TCP proxy before a broker, with which a test breaks the connection in the ways in which networks do."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit, urlunsplit


class Proxy:
    """Forwards to the broker of `target_url`; `url` is its own address, with the same account and path."""

    def __init__(self, target_url: str) -> None:
        parts = urlsplit(target_url)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 5672)
        self._listener = socket.create_server(("127.0.0.1", 0))
        account = f"{parts.username}:{parts.password}@" if parts.username else ""
        netloc = f"{account}127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = urlunsplit((parts.scheme, netloc, parts.path, parts.query, ""))
        self.connections = 0
        self.recorded: list[bytearray] = []  # what each connection's client said
        self._answers_pass = threading.Event()
        self._answers_pass.set()
        self._is_refusing = False
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.sent = 0  # bytes that the broker got
        self._changed = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def hold_answers(self) -> None:
        """What the broker says is kept back from now on."""
        self._answers_pass.clear()

    def release_answers(self) -> None:
        self._answers_pass.set()

    def wait_until_sent(self, total: int, *, timeout_s: float = 10) -> None:
        """Wait until the broker got `total` bytes, of all connections together."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.sent >= total, timeout_s), f"{self.sent} of {total} bytes"

    def inject(self, data: bytes) -> None:
        """Say something to the client in the broker's name; only between two frames, so when all is quiet."""
        for client, _ in self._pairs:
            client.sendall(data)

    def cut(self, *, refuse: bool = False) -> None:
        """End all connections, both ways; with `refuse`, new ones end at once as well."""
        self._is_refusing = refuse
        for pair in self._pairs:
            for end in pair:
                _shut(end)
        self._pairs.clear()
        self._answers_pass.set()

    def accept_again(self) -> None:
        self._is_refusing = False

    def close(self) -> None:
        _shut(self._listener)
        self._listener.close()
        self.cut(refuse=True)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_refusing:
                client.close()
                continue
            self.connections += 1
            self.recorded.append(bytearray())
            broker = socket.create_connection(self._target)
            self._pairs.append((client, broker))
            threading.Thread(target=self._forward, args=(client, broker, self.recorded[-1]), daemon=True).start()
            threading.Thread(target=self._answer, args=(broker, client), daemon=True).start()

    def _forward(self, client: socket.socket, broker: socket.socket, record: bytearray) -> None:
        while data := _read(client):
            record += data
            if not _write(broker, data):
                break
            with self._changed:
                self.sent += len(data)
                self._changed.notify_all()
        _shut(broker)

    def _answer(self, broker: socket.socket, client: socket.socket) -> None:
        while data := _read(broker):
            self._answers_pass.wait()
            if not _write(client, data):
                break
        _shut(client)


def _read(end: socket.socket) -> bytes:
    try:
        return end.recv(65536)
    except OSError:
        return b""


def _write(end: socket.socket, data: bytes) -> bool:
    try:
        end.sendall(data)
    except OSError:
        return False
    return True


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
