"""How the ledger's statements reach Postgres: over the Django connection of the calling thread, one round trip each.

To plan an acquire and a completion takes Postgres 0.8 ms of CPU, to do them 0.2 ms. So a statement that concerns one
fire names the table of its day, which leaves no other to lock or to prune, and its plan is kept.

But a plan that was made while a table had a few pages reads all of them, and would be kept while the table grows to
millions of rows. So a day's plans are kept from the moment only at which its table, and that of the jobs, are too big
for Postgres to choose that; the acquire says when. Until then, and where ``DISABLE_SERVER_SIDE_CURSORS`` says that a
pooler changes sessions between statements, or gevent runs many tasks in one thread, each is planned anew, through the
partitioned table.

A connection that turns out to be broken outside a transaction is made anew and the statement sent again, once: each may
be repeated by its holder.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.db import Error, InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from scheduling.store.ledger_port import Delivery
from scheduling.store.partitions import TABLES, Day, day_of
from scheduling.store.prepared import PreparedStatements, Row, Session, can_run
from scheduling.store.statements import read_statements, statements

SQL = Path(__file__).parent / "sql" / "ledger.sql"
FIRES, RUNS = TABLES

Values = dict[str, Any]


class LedgerSession:
    """The statements of ``ledger.sql`` on the database ``using``, by name. Any thread may use it."""

    def __init__(self, using: str) -> None:
        self.using = using
        self._kept: dict[Day, str] = {}  # day → the table of its fires, where plans are kept
        self._prepared = PreparedStatements()

    def all(self, name: str, values: Values) -> list[Row]:
        """Planned now."""
        try:
            return self._plan_and_run(name, values)
        except (OperationalError, InterfaceError):
            if connections[self.using].in_atomic_block:
                raise
        self.close()
        return self._plan_and_run(name, values)

    def one(self, name: str, values: Values) -> Row | None:
        return _first(self.all(name, values))

    def one_of_day(self, name: str, values: Values, delivery: Delivery) -> Row | None:
        """A statement that touches only the day of this fire: by the plan that is kept, if there is one."""
        day = day_of(delivery.history_days, delivery.scheduled_for)
        fires = self._kept.get(day)
        if fires is None:
            return self.one(name, values)
        connection = connections[self.using]
        try:
            return _first(self._run_prepared(connection, fires, name, values))
        except Error:
            if connection.in_atomic_block:
                raise
        # The session is broken, the day was dropped, or somebody used DISCARD ALL: planned anew on a new connection
        # the statement gets over that, or tells what else is wrong.
        self._kept.pop(day, None)
        self.close()
        return self.one(name, values)

    def keeps_plans(self, delivery: Delivery) -> bool:
        return day_of(delivery.history_days, delivery.scheduled_for) in self._kept

    def keep_plans(self, delivery: Delivery, fires: str) -> None:
        """From now on for the day of this fire, whose table is ``fires``."""
        is_pooled = connections[self.using].settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")
        if not (is_pooled or _is_cooperative()):
            self._kept[day_of(delivery.history_days, delivery.scheduled_for)] = fires

    def close(self) -> None:
        """Close the calling thread's connection; it is made anew when it is needed."""
        connections[self.using].close()

    def _plan_and_run(self, name: str, values: Values) -> list[Row]:
        with connections[self.using].cursor() as cursor:
            cursor.execute(_texts(FIRES)[name], values)
            return cursor.fetchall()

    def _run_prepared(self, connection: BaseDatabaseWrapper, fires: str, name: str, values: Values) -> list[Row]:
        """Not by a cursor of Django's: those put the values into the text, and nothing can be prepared."""
        connection.validate_no_broken_transaction()
        session: Session | None = connection.connection
        if session is None or not can_run(session):
            return self._plan_and_run(name, values)
        with connection.wrap_database_errors:
            return self._prepared.run(session, _texts(fires)[name], values)


@lru_cache(maxsize=32)
def _texts(fires: str) -> dict[str, str]:
    """The statements, on this table of fires and the one of their runs."""
    if fires == FIRES:
        return read_statements(SQL, **statements("dead_letters"))
    own = {"fires": fires, "runs": fires.replace(FIRES, RUNS), "table_beyond_scans": "NULL"}
    return read_statements(SQL, **statements("dead_letters") | own)


def _is_cooperative() -> bool:
    """Whether green threads share this one: a call of libpq would hold up all of them, and whoever it waits for."""
    patched: Any = sys.modules.get("gevent.monkey")
    return patched is not None and bool(patched.is_module_patched("select"))


def _first(rows: list[Row]) -> Row | None:
    return rows[0] if rows else None
