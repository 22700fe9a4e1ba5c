"""The thread that brings back dead letters: what is due does not wait for a second's worth of them.

Once it is asked it moves a tenth of a second's worth ten times, as long as there is something to move: in pieces they
are in nobody's way, neither in the database nor in the queues. It needs no epoch and no shard, and any number of nodes
may do it: how many letters may be moved by now say the rows of a redrive (``store.redrive``). What fails is tried again
when it is asked for again.
"""

from __future__ import annotations

import logging
from datetime import datetime
from queue import Empty, SimpleQueue
from threading import Thread

from scheduling.store.connection import Connect, Link
from scheduling.store.port import StoreUnavailable
from scheduling.store.redrive import redrive

logger = logging.getLogger(__name__)
PIECE_S = 0.1
PIECES = 10  # until it is asked again


class Redriver:
    """On a connection of its own, made when it is asked for the first time."""

    def __init__(self, connect: Connect) -> None:
        self._link = Link(connect)
        self._asked: SimpleQueue[datetime | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="redrives", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask(self, now: datetime) -> None:
        """Bring back what may be by this job time; returns at once."""
        if self._asked.empty():  # else the one before has not even begun
            self._asked.put(now)

    def stop(self, timeout_s: float) -> None:
        """End behind what is under way; it is one transaction for each redrive, and may as well be cut off."""
        self._asked.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        now, pieces = self._asked.get(), PIECES
        while now is not None:
            is_more = self._move(now) > 0 and pieces > 1
            try:
                now, pieces = self._asked.get(timeout=PIECE_S if is_more else None), PIECES
            except Empty:
                pieces -= 1
        self._link.close()

    def _move(self, now: datetime) -> int:
        """Returns how many fires wait to run again."""
        try:
            with self._link() as connection:
                moved = redrive(connection, now=now)
        except StoreUnavailable as problem:
            logger.warning("dead letters wait to be redriven: %s", problem)
            return 0
        except Exception:
            logger.exception("dead letters could not be redriven")
            return 0
        if moved:
            logger.debug("redrove %d dead letters", moved)
        return moved
