"""Ends the session that holds the row of a run beyond its lease and grace, so that the run can be ended.

A worker that freezes, or whose network does, between its completion and its commit leaves a transaction open in the
server, and with it a lock on its fire. Nobody may wait for it, and nothing else would end it. Who holds a row lock the
server tells only to one who waits for it: so a session of ours does, for a moment.

Does not do: end what is short. A heartbeat, or a person who pauses the job, has had its transaction for less than the
grace.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from threading import Thread, Timer
from typing import Any

import psycopg

from scheduling.store.connection import Connect, Link
from scheduling.store.port import StoreUnavailable
from scheduling.store.statements import statements

logger = logging.getLogger(__name__)
ASK_AFTER_S = 0.1  # by then it waits
WAIT_S = 1.0
AT_ONCE = 10  # rows; the others are held in a second, too


class Holders:
    """In a thread of its own, one at a time: whoever reaps does not wait."""

    def __init__(self, connect: Connect, *, grace: timedelta) -> None:
        self._connect, self._grace = connect, grace
        self._sql = statements("schedule")
        self._thread: Thread | None = None

    def end(self, held: Sequence[Mapping[str, Any]]) -> None:
        """End whoever holds these rows, soon."""
        if held and (self._thread is None or not self._thread.is_alive()):
            self._thread = Thread(target=self._end_each, args=[held[:AT_ONCE]], name="ends holders", daemon=True)
            self._thread.start()

    def _end_each(self, held: Sequence[Mapping[str, Any]]) -> None:
        link = Link(self._connect)
        try:
            for row in held:
                self._wait_for(link, row)
        except StoreUnavailable as problem:
            logger.warning("who holds a run beyond its lease was not ended: %s", problem)
        finally:
            link.close()

    def _wait_for(self, link: Link, row: Mapping[str, Any]) -> None:
        with link() as waiting:
            ask = Timer(ASK_AFTER_S, self._end_blockers, [waiting.info.backend_pid, row["id"]])
            ask.daemon = True
            ask.start()
            try:
                with waiting.transaction():
                    waiting.execute(f"SET LOCAL lock_timeout = '{WAIT_S:g} s'".encode())
                    waiting.execute(self._sql["holder"], row)
            except psycopg.errors.LockNotAvailable:
                logger.warning("the run of fire %s is beyond its lease, and still locked", row["id"])
            finally:
                ask.cancel()

    def _end_blockers(self, waiting_pid: int, fire: object) -> None:
        try:
            with Link(self._connect)() as connection, connection:
                ended = connection.execute(self._sql["end_holder"], {"waiting": waiting_pid, "grace": self._grace})
                for pid, name, _ in ended.fetchall():
                    logger.warning("session %s (%s) held the run of fire %s beyond its lease: ended", pid, name, fire)
        except (psycopg.Error, StoreUnavailable) as problem:  # of another role's session, say
            logger.warning("who holds the run of fire %s beyond its lease cannot be ended: %s", fire, problem)
