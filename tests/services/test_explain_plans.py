"""No explanation reads a table whole: it may be asked beside ten million jobs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from scheduling.services.session import in_transaction
from scheduling.store.connection import Connection
from scheduling.store.explain import by_index
from scheduling.store.statements import statements
from tests.ledger_rows import make_day

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
LARGE = ("scheduling_fire", "scheduling_job", "scheduling_entry", "scheduling_deadletter", "scheduling_slot")
VALUES: dict[str, Any] = {
    "ids": [uuid4()],
    "millis": [NOON],
    "job": uuid4(),
    "job_ids": [uuid4()],
    "scheduled_fors": [NOON],
    "history_days": [30],
    "tenant": 1,
    "shards": [1, 2],
    "of_shards": [1],
    "lanes": ["bulk"],
    "fire_ats": [NOON],
    "now": NOON,
    "until": NOON,
    "limit": 100,
    "seen": 1000,
}
ASKED = ["fires", "jobs", "unfinished", "line", "in_line", "due_line", "ahead_of_job", "running", "slots"]


@pytest.fixture
def session(db: None) -> Iterator[Connection]:
    make_day(NOON.date())
    with in_transaction(connection.alias) as session:
        by_index(session)
        yield session


@pytest.mark.parametrize("name", ASKED)
def test_no_statement_of_an_explanation_reads_a_table_whole(session: Connection, name: str):
    statement = statements("explain")[name]
    plan = [line for (line,) in session.execute(f"EXPLAIN {statement}".encode(), VALUES)]
    whole = [line for line in plan if "Seq Scan on" in line and any(table in line for table in LARGE)]
    assert not whole, "\n".join(plan)
