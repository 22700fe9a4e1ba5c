"""The store on the connection that the test uses: so that it sees what the test has written, and is undone with it.

Postgres runs the same statements; only the way to it is Django's. A transaction of the store is an ``atomic()`` block,
pipelining is left out, and rows are read as psycopg reads them by itself (Django's connection leaves JSON as text).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timedelta
from typing import Any, cast

import psycopg
from django.db import connections, transaction
from psycopg.rows import TupleRow
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.json import JsonbLoader

from scheduling.core.clock import Clock
from scheduling.core.effects import Epochs
from scheduling.core.fire import Fire
from scheduling.core.runs import Held
from scheduling.core.waiting import Waiting
from scheduling.store.connection import Connect, Connection
from scheduling.store.postgres import PostgresStore


def joins(using: str) -> Connect:
    """A function that "connects": gives the connection under Django's, as it is whenever it is used."""
    joined = cast(Connection, JoinedConnection(using))
    return lambda: joined


class JoinedConnection:
    """What stores and coordinators use of psycopg's connection. ``close`` leaves it to Django."""

    closed = False

    def __init__(self, using: str) -> None:
        self._using = using

    @property
    def _session(self) -> psycopg.Connection[Any]:
        connection = connections[self._using]
        connection.ensure_connection()
        session: psycopg.Connection[Any] = connection.connection
        return session

    @property
    def info(self) -> psycopg.ConnectionInfo:
        return self._session.info

    def cursor(self) -> psycopg.Cursor[TupleRow]:
        cursor = psycopg.Cursor(self._session)
        cursor.adapters.register_loader("jsonb", JsonbLoader)
        cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
        return cursor

    def execute(self, query: Any, params: Any = None) -> psycopg.Cursor[TupleRow]:
        return self.cursor().execute(query, params)

    def transaction(self) -> AbstractContextManager[None]:
        return self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with transaction.atomic(using=self._using):
            yield

    def pipeline(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        """It is the test's."""


class JoinedStore(PostgresStore):
    """``PostgresStore`` for a node whose monotonic time is that of ``clock``. There is no other session to wait for."""

    def __init__(self, using: str, *, grace: timedelta, clock: Clock) -> None:
        super().__init__(joins(using), grace=grace)
        self._clock = clock

    def take_over(self, shards: Collection[int], node: str) -> tuple[Epochs, list[Fire]]:
        epochs, recovered = super().take_over(shards, node)
        self._by_our_clock(recovered)
        return epochs, recovered

    def waiting(
        self, shards: Collection[int], *, now: datetime, limit: int, full: frozenset[int] = frozenset()
    ) -> Waiting:
        found = super().waiting(shards, now=now, limit=limit, full=full)
        self._by_our_clock(found.fires)
        return found

    def held(self, shards: Collection[int]) -> Held:
        found = super().held(shards)
        self._by_our_clock([one.fire for one in found.in_flight])
        return found

    def _by_our_clock(self, fires: Sequence[Fire]) -> None:
        ahead_s = self._clock.monotonic() - time.monotonic()
        for fire in fires:
            fire.claimed_at += ahead_s

    def _end_blockers(self, waiting_pid: int) -> None:
        """Nobody else can hold what a take-over waits for."""
