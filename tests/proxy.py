"""A byte-level TCP proxy before a service, with which a test breaks a connection in the ways in which networks do.

::

    client ──forth──▶ proxy ──forth──▶ service
           ◀──back───       ◀──back───

What is held is delivered on release, as a network does that was cut for less time than TCP tries again. A way that is
held holds the end of the connection, too.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

Address = tuple[str, int] | Path  # a path is a Unix socket's
COMMIT_S = 0.05  # what a service takes, at most, to do what it was told to, before its connection is cut


class Way(Enum):
    FORTH = auto()  # what the client says
    BACK = auto()  # what the service answers


class Proxy:
    """Forwards to ``target``, which need not listen yet; the proxy itself listens on a loopback port."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self._passes = {way: threading.Event() for way in Way}
        self.release()
        self._is_refusing = False
        self._loses: Callable[[bytes], bool] | None = None
        self._pairs: set[Pair] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def through(self, url: str) -> str:
        """The URL of the service with the proxy's address in place of its own."""
        parts = urlsplit(url)
        account, at, _ = parts.netloc.rpartition("@")
        return urlunsplit((parts.scheme, f"{account}{at}127.0.0.1:{self.port}", parts.path, parts.query, ""))

    def hold(self, *ways: Way) -> None:
        """What goes this way is kept back from now on."""
        for way in ways:
            self._passes[way].clear()

    def release(self) -> None:
        """Both ways are open again, and what was held goes on."""
        for passes in self._passes.values():
            passes.set()

    def lose_replies(self, loses: Callable[[bytes], bool] | None) -> None:
        """Where ``loses`` says so of what a client has just said, the service gets it, and its answer does not arrive:
        the connection ends. None: lose nothing more.
        """
        self._loses = loses

    def cut(self, *, refuse: bool = False) -> None:
        """End all connections, both ways; with ``refuse``, new ones end at once as well. Nothing is held any more."""
        self._is_refusing = refuse
        for pair in list(self._pairs):
            pair.end()
        self.release()

    def half_open(self) -> None:
        """The service sees all connections end. Until release their clients hear nothing of that, nor anything else."""
        self.hold(*Way)
        for pair in list(self._pairs):
            _shut(pair.service)

    def accept_again(self) -> None:
        self._is_refusing = False

    def close(self) -> None:
        _shut(self._listener)
        self._listener.close()
        self.cut(refuse=True)

    def heard(self, pair: Pair, data: bytes) -> None:
        """For those who keep a record: the service got this; nothing yet, where the connection was only just made."""

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_refusing:
                client.close()
                continue
            try:
                service = _connected(self._target)
            except OSError:  # it is down; the client finds out as it would without us
                client.close()
                continue
            self.connections += 1
            pair = Pair(client, service)
            self._pairs.add(pair)
            self.heard(pair, b"")
            for work in (self._forth, self._back):
                threading.Thread(target=work, args=(pair,), daemon=True).start()

    def _forth(self, pair: Pair) -> None:
        while data := _read(pair.client):
            self._passes[Way.FORTH].wait()
            if self._loses is not None and self._loses(data):
                pair.loses_reply = True
            if not _write(pair.service, data):
                break
            self.heard(pair, data)
        self._passes[Way.FORTH].wait()
        _shut(pair.service)

    def _back(self, pair: Pair) -> None:
        while data := _read(pair.service):
            self._passes[Way.BACK].wait()
            if pair.loses_reply:
                time.sleep(COMMIT_S)
                break
            if not _write(pair.client, data):
                break
        self._passes[Way.BACK].wait()
        pair.end()
        self._pairs.discard(pair)


class Pair:
    """The two ends of one connection."""

    def __init__(self, client: socket.socket, service: socket.socket) -> None:
        self.client, self.service = client, service
        self.loses_reply = False

    def end(self) -> None:
        _shut(self.client)
        _shut(self.service)


def _connected(target: Address) -> socket.socket:
    if isinstance(target, tuple):
        return socket.create_connection(target)
    service = socket.socket(socket.AF_UNIX)
    try:
        service.connect(str(target))
    except OSError:
        service.close()
        raise
    return service


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
