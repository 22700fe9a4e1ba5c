"""Listens to what is told by NOTIFY on one channel.

A notice may be lost, as while its connection is made again; whoever listens must find the same in another way, later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread

from psycopg import sql

from scheduling.store.connection import Connect, Link
from scheduling.store.port import StoreUnavailable

logger = logging.getLogger(__name__)
ASK_S = 1.0  # how soon a stop is noticed, and a lost connection is made again


class Listener:
    """``on_notice`` is called from its thread, with the payload."""

    def __init__(self, connect: Connect, channel: str, on_notice: Callable[[str], None]) -> None:
        self._link, self._channel, self._on_notice = Link(connect), channel, on_notice
        self._tried = Event()
        self._stop = Event()
        self._thread = Thread(target=self._run, name=f"listens to {channel}", daemon=True)

    def start(self) -> None:
        """Begins; returns once it listens, or could not: it goes on trying then."""
        self._thread.start()
        self._tried.wait()

    def stop(self) -> None:
        """Ends within ``ASK_S``. May be called again, and from any thread."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._listen()
            except StoreUnavailable as problem:
                logger.warning("no notices on %s for now: %s", self._channel, problem)
                self._tried.set()
                self._stop.wait(ASK_S)
        self._link.close()

    def _listen(self) -> None:
        with self._link() as connection:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
            self._tried.set()
            while not self._stop.is_set():
                for notice in connection.notifies(timeout=ASK_S):
                    self._on_notice(notice.payload)
