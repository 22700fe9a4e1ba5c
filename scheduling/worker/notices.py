"""Hears at once that fires were asked to stop: the channel ``fairbeat_cancel``, whose notices name a fire.

Over the calling thread's connection, so that nobody keeps one for it alone. Best effort: what is told while nobody
listens, or behind a pooler that changes sessions, is found by the next heartbeat.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db import connections

from scheduling.store.cancel import CHANNEL


class CancelNotices:
    """Used by one thread."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._session: Any = None  # the connection on which it listens

    def wait(self, timeout_s: float) -> Collection[str] | None:
        """The ids that notices name, as soon as one comes; empty when the time is over.

        None, and at once, where it listens only from now on: what was told before was told to nobody. Raises Django's
        errors.
        """
        connection = connections[self._using]
        connection.ensure_connection()
        with connection.wrap_database_errors:
            if connection.connection is not self._session:
                connection.connection.execute(f"LISTEN {CHANNEL}")
                self._session = connection.connection
                return None
            return [notice.payload for notice in self._session.notifies(timeout=timeout_s, stop_after=1)]
