"""Every statement of permits, and of limits at stop 2, finds its rows by an index."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from scheduling.store.connection import Connection, connector
from scheduling.store.partitions import ensure
from scheduling.store.statements import statements
from scheduling.testing.clock import NOON
from tests.store.test_plans import KEYS, POLLING, SCHEDULE, SHARDS

PERMITS = statements("permits", guarded=SCHEDULE["guarded"])
TENANTS = {"tenants": [1, 2]}
SLOTS = TENANTS | {"lanes": ["", "bulk"], "tasks": ["", "t"]}
VALUES: dict[str, dict[str, Any]] = {
    "make_budgets": TENANTS | {"day": NOON.date()},
    "take_budget": TENANTS | {"day": NOON.date(), "wanted": [1, 1], "chunk": 100},
    "return_budget": TENANTS | {"day": NOON.date(), "unused": [1, 1]},
    "slots": SLOTS,
    "void": KEYS,
    "take_slots": SLOTS | KEYS | {"numbers": [1, 2]},
    "leave_slots": {"ids": [uuid4()], "fences": [1]},
    "bring_back": SHARDS
    | {
        "tenant": 1,
        "lane": "",
        "task": "",
        "reason": "rate",
        "count": 10,
        "walk": 110,
        "now": NOON,
        "lanes": ["bulk"],
        "tasks": [""],
    },
    "waiting_for_limits": SHARDS | TENANTS | {"walk": 100},
    "running_of": SHARDS | TENANTS,
    "published_of": TENANTS | {"looked_at": 100},
}


@pytest.fixture
def session(committed_db: None) -> Iterator[Connection]:
    with connector(connection.get_connection_params(), name="plans")() as session:
        ensure(session, [(30, NOON.date()), (30, NOON.date() + timedelta(days=1))])
        session.execute("ANALYZE scheduling_fire, scheduling_job, scheduling_slot, fairness_budget, fairness_tenant")
        yield session


@pytest.mark.parametrize("name", VALUES)
def test_no_statement_scans_a_table(session: Connection, name: str) -> None:
    plan = session.execute(f"EXPLAIN {(PERMITS | POLLING)[name]}".encode(), VALUES[name]).fetchall()
    assert not [line for (line,) in plan if "Seq Scan" in line]
    assert len(PERMITS) == len(VALUES.keys() & PERMITS) + 3  # the lock, and what others include
