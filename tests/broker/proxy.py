"""The proxy before a broker, which keeps what each connection's client said."""

from __future__ import annotations

import threading
from urllib.parse import urlsplit

from tests import proxy
from tests.processes import PATIENCE_S


class Proxy(proxy.Proxy):
    """Forwards to the broker of ``target_url``; ``url`` is its own address, with the same account and path."""

    def __init__(self, target_url: str) -> None:
        parts = urlsplit(target_url)
        self.sent = 0  # bytes that the broker got, of all connections together
        self._said: dict[proxy.Pair, bytearray] = {}
        self._changed = threading.Condition()
        super().__init__((parts.hostname or "127.0.0.1", parts.port or 5672))
        self.url = self.through(target_url)

    @property
    def recorded(self) -> list[bytearray]:
        """What each connection's client said."""
        return list(self._said.values())

    def hold_answers(self) -> None:
        """What the broker says is kept back from now on."""
        self.hold(proxy.Way.BACK)

    def wait_until_sent(self, total: int, *, timeout_s: float = PATIENCE_S) -> None:
        """Wait until the broker got ``total`` bytes."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.sent >= total, timeout_s), f"{self.sent} of {total} bytes"

    def inject(self, data: bytes) -> None:
        """Say something to the clients in the broker's name; only between two frames, so when all is quiet."""
        for pair in self._said:
            pair.client.sendall(data)

    def heard(self, pair: proxy.Pair, data: bytes) -> None:
        with self._changed:
            self._said.setdefault(pair, bytearray()).extend(data)
            self.sent += len(data)
            self._changed.notify_all()
