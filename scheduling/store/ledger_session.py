"""How the ledger's statements reach Postgres: over the Django connection of the calling thread, one round trip each.

To plan an acquire and a completion takes Postgres 0.8 ms of CPU, to do them 0.2 ms. So a statement that concerns one
fire names the table of its day, which leaves no other to lock or to prune, and its plan is kept.

But a plan that was made while a table had a few pages reads all of them, and would be kept while the table grows to
millions of rows. So a day's plans are kept from the moment only at which its table, and that of the jobs, are too big
for Postgres to choose that; the acquire says when. Until then, and where ``DISABLE_SERVER_SIDE_CURSORS`` says that a
pooler changes sessions between statements, each is planned anew, through the partitioned table.

A connection that turns out to be broken outside a transaction is made anew and the statement sent again, once: each may
be repeated by its holder.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import psycopg
from django.db import InterfaceError, OperationalError, ProgrammingError, connections

from scheduling.store.ledger_port import Delivery
from scheduling.store.partitions import TABLES, Day, day_of
from scheduling.store.statements import read_statements

SQL = Path(__file__).parent / "sql" / "ledger.sql"
FIRES, RUNS = TABLES

Row = tuple[Any, ...]
Values = dict[str, Any]


class LedgerSession:
    """The statements of ``ledger.sql`` on the database ``using``, by name. Any thread may use it."""

    def __init__(self, using: str) -> None:
        self.using = using
        self._kept: dict[Day, str] = {}  # day → the table of its fires, where plans are kept

    def all(self, name: str, values: Values) -> list[Row]:
        """Planned now."""
        return self._again_if_broken(lambda: self._plan_and_run(name, values))

    def one(self, name: str, values: Values) -> Row | None:
        return _first(self.all(name, values))

    def one_of_day(self, name: str, values: Values, delivery: Delivery) -> Row | None:
        """A statement that touches only the day of this fire: by the plan that is kept, if there is one."""
        day = day_of(delivery.history_days, delivery.scheduled_for)
        fires = self._kept.get(day)
        if fires is not None:
            try:
                return _first(self._again_if_broken(lambda: self._run_prepared(fires, name, values)))
            except ProgrammingError as error:
                if connections[self.using].in_atomic_block:
                    raise
                match error.__cause__:
                    case psycopg.errors.UndefinedTable():  # the day was dropped
                        self._kept.pop(day, None)
                    case psycopg.errors.InvalidSqlStatementName():  # after a DISCARD ALL of somebody's
                        self.close()
                    case _:
                        raise
        return self.one(name, values)

    def keep_plans(self, delivery: Delivery, fires: str) -> None:
        """From now on for the day of this fire, whose table is ``fires``."""
        if not connections[self.using].settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
            self._kept[day_of(delivery.history_days, delivery.scheduled_for)] = fires

    def close(self) -> None:
        """Close the calling thread's connection; it is made anew when it is needed."""
        connections[self.using].close()

    def _again_if_broken(self, run: Callable[[], list[Row]]) -> list[Row]:
        try:
            return run()
        except (OperationalError, InterfaceError):
            if connections[self.using].in_atomic_block:
                raise
        self.close()
        return run()

    def _plan_and_run(self, name: str, values: Values) -> list[Row]:
        with connections[self.using].cursor() as cursor:
            cursor.execute(_texts(FIRES)[name], values)
            return cursor.fetchall()

    def _run_prepared(self, fires: str, name: str, values: Values) -> list[Row]:
        """Not by a cursor of Django's: those put the values into the text, and nothing can be prepared."""
        connection = connections[self.using]
        connection.ensure_connection()
        connection.validate_no_broken_transaction()
        with connection.wrap_database_errors:
            session: psycopg.Connection[Row] = connection.connection
            threshold = session.prepare_threshold
            if (
                threshold is None
            ):  # Django's default. Only now: psycopg would remember the texts of everyone's statements
                session.prepare_threshold = 0
            try:
                return psycopg.Cursor(session).execute(_texts(fires)[name], values, prepare=True).fetchall()
            finally:
                session.prepare_threshold = threshold


@lru_cache(maxsize=32)
def _texts(fires: str) -> dict[str, str]:
    """The statements, on this table of fires and the one of their runs."""
    return read_statements(SQL, fires=fires, runs=fires.replace(FIRES, RUNS))


def _first(rows: list[Row]) -> Row | None:
    return rows[0] if rows else None
