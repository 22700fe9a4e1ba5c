"""Partitions of the ledger: one for each time-to-live class and UTC day of ``scheduled_for``.

A day is made when the first fire of it is claimed. It is attached rather than created in place, since that does not
lock the parent against reads and writes. An expired day is dropped once nothing in it is unfinished, and what is kept
beside it is gone (``leftovers``); the check is made again under the lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

import psycopg
from psycopg import sql

from scheduling.core.plans import JobPlan
from scheduling.store.connection import Connection
from scheduling.store.leftovers import forget_leftovers, forget_steps
from scheduling.store.statements import statements

TABLES = ("scheduling_fire", "scheduling_jobrun")
BRIEFLY = "SET LOCAL lock_timeout = '100ms'"  # who waits for a lock holds up all who come after
LOCK = 0x0FA1_BEA7  # advisory: two nodes that need the same day
Day = tuple[int, date]  # class in days, UTC day


def day_of(history_days: int, scheduled_for: datetime) -> Day:
    return history_days, scheduled_for.astimezone(UTC).date()


class KnownDays:
    """Remembers which partitions exist, so that a claim asks for each day once."""

    def __init__(self) -> None:
        self._known: set[Day] = set()

    def ensure(self, connection: Connection, plans: Iterable[JobPlan]) -> None:
        fires = [row.fire for plan in plans for row in plan.rows]
        days = {day_of(fire.work.history_days, fire.scheduled_for) for fire in fires}
        if missing := days - self._known:
            ensure(connection, missing)
            self._known |= missing

    def forget(self) -> None:
        """Some were dropped."""
        self._known.clear()


def ensure(connection: Connection, days: Iterable[Day]) -> None:
    """Make the partitions of these days where they are missing."""
    for history_days, day in sorted(set(days)):
        if all(_exists(connection, _name(table, history_days, day)) for table in TABLES):
            continue  # without the lock, which is held until the caller's transaction ends
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
            for table in TABLES:
                _make(connection, table, history_days, day)


def _name(table: str, history_days: int, day: date) -> str:
    return f"{table}_{history_days}_{day.isoformat().replace('-', '')}"  # strftime pads no year


def _exists(connection: Connection, name: str) -> bool:
    return connection.execute(statements("partitions")["exists"], [name]).fetchone() is not None


def _make(connection: Connection, table: str, history_days: int, day: date) -> None:
    name = _name(table, history_days, day)
    if _exists(connection, name):
        return
    parent, child = sql.Identifier(f"{table}_{history_days}"), sql.Identifier(name)
    connection.execute(
        sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)").format(child, parent)
    )
    connection.execute(
        sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
            parent, child, sql.Literal(_midnight(day)), sql.Literal(_midnight(day + timedelta(days=1)))
        )
    )


def expire(connection: Connection, *, now: datetime) -> list[str]:
    """Drop the days whose class has run out on the job clock; returns their names. A day that someone reads, or that
    holds an unfinished fire, is left to the next call.
    """
    dropped = []
    for fires, history_days, day in _days(connection):
        if _midnight(day) + timedelta(days=history_days + 1) > now:
            continue
        if not _is_ready(connection, fires, day):
            continue
        runs = fires.replace(TABLES[0], TABLES[1])
        try:
            with connection.transaction():
                connection.execute(BRIEFLY)
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(sql.Identifier(fires)))
                if _has_unfinished(connection, fires):
                    continue
                for name in (fires, runs):
                    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(name)))
        except (psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable):
            continue  # someone uses it, or has just dropped it
        dropped.append(fires)
    if dropped:
        forget_leftovers(connection, now=now)
    return dropped


def _is_ready(connection: Connection, fires: str, day: date) -> bool:
    """Whether nothing keeps this day but a look under its lock."""
    try:
        with connection.transaction():
            connection.execute(BRIEFLY)
            return not _has_unfinished(connection, fires) and forget_steps(connection, fires, _midnight(day))
    except (psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable):
        return False  # someone has it to himself, or has just dropped it


def _days(connection: Connection) -> list[tuple[str, int, date]]:
    names = connection.execute(statements("partitions")["days"]).fetchall()
    found = []
    for (name,) in names:
        history_days, day = name.removeprefix(f"{TABLES[0]}_").split("_")
        found.append((name, int(history_days), datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC).date()))
    return found


def _has_unfinished(connection: Connection, table: str) -> bool:
    query = sql.SQL(statements("partitions")["unfinished"]).format(table=sql.Identifier(table))
    return connection.execute(query).fetchone() is not None


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
