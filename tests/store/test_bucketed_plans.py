"""Every statement on entries looks rows up in an index, whatever was in the tables when its plan was made.

A table of the ring is empty when a nightly ANALYZE comes by, and full a minute later: a plan that walks over all of it
once, because there was nothing to walk over, then takes seconds for each claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from scheduling.store.connection import Connection, connector
from scheduling.store.statements import statements

SCHEDULE = statements("schedule", entries=statements("buckets")["entries"])
COLUMNS = {name: SCHEDULE[name] for name in ("due_columns", "due_joins")}
LEAF = statements("buckets", leaf="scheduling_entry_05", **COLUMNS)
STATEMENTS = {
    **LEAF,
    "claim": SCHEDULE["claim"],
    "back_to_rows_of_shards": statements("buckets", which=LEAF["of_shards"], patience="")["back_to_rows"],
    "back_to_rows_of_jobs": statements("buckets", which=LEAF["of_jobs"])["back_to_rows"],
}
NAMES = [
    "due_entries", "lowest", "tenants_upward", "tenants_downward", "due_entries_of_tenants",
    "due_entries_behind", "jobs", "entries_of",
    "consume", "advance", "finish", "claim", "due_for_their_end", "back_to_rows_of_shards", "back_to_rows_of_jobs",
    "promote", "forget", "next_runs", "any_in_buckets",
]  # fmt: skip


@pytest.fixture(scope="module")
def session(test_database: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Connection]:
    with django_db_blocker.unblock(), connector(connection.get_connection_params(), name="plans")() as session:
        session.execute("TRUNCATE scheduling_entry")
        session.execute("ANALYZE scheduling_entry")
        yield session


@pytest.mark.parametrize("name", NAMES)
def test_no_statement_on_entries_walks_over_a_table(session: Connection, name: str) -> None:
    plan = generic_plan(session, STATEMENTS[name])
    walks = [
        line.strip()
        for line, below in pairwise([*plan, ""])
        if re.search(r"(Seq|Index|Index Only) Scan .*on scheduling_entry", line) and "Index Cond" not in below
    ]
    assert not walks


def generic_plan(session: Connection, statement: str) -> list[str]:
    """As a node's session makes it, once, without looking at the values."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)))
    for place, name in enumerate(names, 1):
        statement = statement.replace(f"%({name})s", f"${place}")
    with session.transaction(force_rollback=True):
        session.execute(f"PREPARE looked_at AS {statement.replace('%%', '%')}".encode())
        nulls = ", ".join(["NULL"] * len(names))
        lines = session.execute(f"EXPLAIN EXECUTE looked_at ({nulls})".encode()).fetchall()
        session.execute("DEALLOCATE looked_at")
    return [line for (line,) in lines]
