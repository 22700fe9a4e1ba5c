"""The rows that say which queues are in use, as those who publish and the janitor write them.

::

    no row ──assign, use──▶ in use ──retire──▶ retired ──forget (the queue is gone)──▶ no row
                               ▲                  │
                               └──assign, use─────┘

Invariants: at most ``dedicated`` lanes of tenants have queues of their own, whoever assigns them at the same time (one
lock for all); a row of a lane that has one already, of another version, is not one more. What ``use`` brings back was
published to, and counts whatever the number.

Times are real, by the database's clock. One connection, made at first use and again after any error; used by one
thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psycopg
from psycopg.rows import TupleRow

Connection = psycopg.Connection[TupleRow]
Connect = Callable[[], Connection]

STATEMENT_MS = 2000

LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('fairness_tenantqueue', 0))"
ALL = "SELECT name, tenant_id, lane, retired_at IS NULL FROM fairness_tenantqueue"
COUNT_OWN = "SELECT count(DISTINCT (tenant_id, lane)) FROM fairness_tenantqueue WHERE tenant_id IS NOT NULL"
ASKED = """
    SELECT a.name, a.tenant_id, a.lane, n,
        EXISTS (SELECT FROM fairness_tenantqueue q WHERE q.tenant_id = a.tenant_id AND q.lane = a.lane) AS has_one
    FROM unnest(%(names)s::text[], %(tenant_ids)s::bigint[], %(lanes)s::text[])
        WITH ORDINALITY AS a (name, tenant_id, lane, n)
    WHERE a.tenant_id IS NULL OR EXISTS (SELECT FROM fairness_tenant t WHERE t.id = a.tenant_id)
"""
PUT = """
    INSERT INTO fairness_tenantqueue (name, tenant_id, lane, made_at, used_at)
    SELECT name, tenant_id, lane, clock_timestamp(), clock_timestamp() FROM taken
    ON CONFLICT (name) DO UPDATE
        SET tenant_id = excluded.tenant_id, used_at = excluded.used_at, retired_at = NULL
    RETURNING name
"""
ASSIGN = f"""
    WITH asked AS ({ASKED}),
    placed AS (SELECT *, row_number() OVER (PARTITION BY has_one ORDER BY n) AS place FROM asked),
    taken AS (SELECT * FROM placed WHERE has_one OR place <= %(dedicated)s - ({COUNT_OWN}))
    {PUT}
"""
USE = f"WITH taken AS ({ASKED}) {PUT}"
IDLE = """
    SELECT name FROM fairness_tenantqueue
    WHERE retired_at IS NULL AND used_at < clock_timestamp() - %(idle_s)s * interval '1 second'
    ORDER BY used_at LIMIT %(limit)s
"""
RETIRE = """
    UPDATE fairness_tenantqueue SET retired_at = clock_timestamp()
    WHERE name = ANY(%(names)s) AND retired_at IS NULL
        AND used_at < clock_timestamp() - %(idle_s)s * interval '1 second'
    RETURNING name
"""
RETIRED = """
    SELECT name FROM fairness_tenantqueue
    WHERE retired_at < clock_timestamp() - %(grace_s)s * interval '1 second'
    ORDER BY retired_at LIMIT %(limit)s
"""
HOLD_RETIRED = "SELECT FROM fairness_tenantqueue WHERE name = %s AND retired_at IS NOT NULL FOR UPDATE SKIP LOCKED"
RESTORE = "UPDATE fairness_tenantqueue SET retired_at = NULL, used_at = clock_timestamp() WHERE name = %s"
FORGET = "DELETE FROM fairness_tenantqueue WHERE name = %s"


class QueueRowsUnavailable(Exception):
    """The database does not answer, or refuses what was asked."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """``tenant_id`` None: many tenants share it."""

    name: str
    tenant_id: int | None
    lane: str


class QueueRows:
    """Every method raises QueueRowsUnavailable."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._connection: Connection | None = None

    def read(self) -> tuple[list[QueueRow], frozenset[tuple[int, str]]]:
        """Those in use; and the lanes of tenants that have queues of their own, retired ones included, since these are
        still in the broker.
        """
        with self._open() as connection:
            rows = [(QueueRow(name, tenant, lane), used) for name, tenant, lane, used in connection.execute(ALL)]
        own = frozenset((row.tenant_id, row.lane) for row, _ in rows if row.tenant_id is not None)
        return [row for row, is_used in rows if is_used], own

    def assign(self, asked: Sequence[QueueRow], *, dedicated: int) -> tuple[set[str], int]:
        """The names of those of these queues of tenants that are in use now, and how many lanes have their own then.

        The others did not fit, or their tenants are gone.
        """
        with self._open() as connection, connection.transaction():
            connection.execute(LOCK)
            taken = connection.execute(ASSIGN, {**_columns(asked), "dedicated": dedicated})
            return {name for (name,) in taken}, _number(connection)

    def use(self, rows: Sequence[QueueRow]) -> set[str]:
        """These were published to, just now, or will be: they are in use, whatever they were. Returns their names but
        for those of tenants that are gone.
        """
        if not rows:
            return set()
        ordered = sorted(rows, key=lambda row: row.name)  # two who write the same rows do it in one order
        with self._open() as connection:
            return {name for (name,) in connection.execute(USE, _columns(ordered))}

    def idle(self, *, idle_s: float, limit: int) -> list[str]:
        """Queues in use that nothing was published to for so long, the longest first."""
        with self._open() as connection:
            return [name for (name,) in connection.execute(IDLE, {"idle_s": idle_s, "limit": limit})]

    def retire(self, names: Collection[str], *, idle_s: float) -> list[str]:
        """Those that are still idle: from now on nobody publishes to them, and workers leave them."""
        with self._open() as connection:
            return [name for (name,) in connection.execute(RETIRE, {"names": list(names), "idle_s": idle_s})]

    def retired(self, *, grace_s: float, limit: int) -> list[str]:
        """Queues that were retired so long ago."""
        with self._open() as connection:
            return [name for (name,) in connection.execute(RETIRED, {"grace_s": grace_s, "limit": limit})]

    @contextmanager
    def holding(self, name: str) -> Iterator[bool]:
        """Whether the row is retired, and ours until the end of the block: nobody brings it back meanwhile."""
        with self._open() as connection, connection.transaction():
            yield connection.execute(HOLD_RETIRED, [name]).fetchone() is not None

    def restore(self, name: str) -> None:
        """Something is in it: it is in use again."""
        with self._open() as connection:
            connection.execute(RESTORE, [name])

    def forget(self, name: str) -> None:
        """The broker has no such queue any more."""
        with self._open() as connection:
            connection.execute(FORGET, [name])

    def close(self) -> None:
        """May be called again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):  # it is given up in any case
                connection.close()

    @contextmanager
    def _open(self) -> Iterator[Connection]:
        try:
            if self._connection is None or self._connection.closed:
                self._connection = self._connect()
                self._connection.execute(f"SET statement_timeout = {STATEMENT_MS}")
            yield self._connection
        except psycopg.Error as problem:
            self.close()
            raise QueueRowsUnavailable(str(problem).strip()) from problem


def _number(connection: Connection) -> int:
    row = connection.execute(COUNT_OWN).fetchone()
    return int(row[0]) if row else 0


def _columns(rows: Sequence[QueueRow]) -> dict[str, list[str] | list[int | None]]:
    return {
        "names": [row.name for row in rows],
        "tenant_ids": [row.tenant_id for row in rows],
        "lanes": [row.lane for row in rows],
    }
