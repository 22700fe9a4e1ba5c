"""Listens for hints: a NOTIFY that names a shard in which something became due."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread

from psycopg import sql

from scheduling.models.hints import CHANNEL
from scheduling.store.connection import Connect, Link
from scheduling.store.port import StoreUnavailable

logger = logging.getLogger(__name__)
ASK_S = 1.0  # how soon a stop is noticed, and a lost connection is made again


class HintListener:
    """``on_hint`` is called from its thread, with the number of the shard."""

    def __init__(self, connect: Connect, on_hint: Callable[[int], None]) -> None:
        self._link, self._on_hint = Link(connect), on_hint
        self._stop = Event()
        self._thread = Thread(target=self._run, name="hints", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with self._link() as connection:
                    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
                    while not self._stop.is_set():
                        for hint in connection.notifies(timeout=ASK_S):
                            self._on_hint(int(hint.payload))
            except StoreUnavailable as problem:
                logger.warning("no hints for now, polling goes on: %s", problem)
                self._stop.wait(ASK_S)
        self._link.close()
