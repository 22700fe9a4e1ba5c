"""Every statement of a node finds its rows by an index, also in partitions that were empty when its plan was made."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from scheduling.store.connection import Connection, connector
from scheduling.store.in_flight import in_flight_statements
from scheduling.store.partitions import ensure
from scheduling.store.polling import BY_AGE, FIRE_LOCK
from scheduling.store.statements import statements
from scheduling.testing.clock import NOON

SCHEDULE = statements("schedule", row_lock="", fire_lock=FIRE_LOCK, **statements("dead_letters"))
POLLING = statements(
    "polling",
    fire_columns=SCHEDULE["fire_columns"],
    fire_work=SCHEDULE["fire_work"],
    guarded=SCHEDULE["guarded"],
    fire_lock=FIRE_LOCK,
)
BY_CLAIM = statements("schedule", **BY_AGE)["acquired"]
PAUSES = statements("pauses")
IN_FLIGHT = in_flight_statements()
KEYS = {"ids": [uuid4()], "scheduled_fors": [NOON], "history_days": [30], "fences": [1]}
SHARDS = {"shards": [1, 2]}
PATIENCE = {"patience": timedelta(seconds=60)}
ACQUIRED = (
    SHARDS
    | PATIENCE
    | {
        "tenants": [1, 2],
        "lanes": ["bulk", "bulk"],
        "history_days": [30, 30],
        "job_ids": [uuid4()],
        "jobs": 10,
        "fires": 20,
    }
)
VALUES: dict[str, dict[str, Any]] = {
    "due": SHARDS | {"until": NOON, "limit": 10},
    "crowded": SHARDS | {"until": NOON, "full": [1]},
    "tenants_due": SHARDS | {"until": NOON, "full": [1]},
    "due_of_tenants": SHARDS | {"tenants": [1, 2], "until": NOON, "share": 10},
    "take_over": SHARDS | {"node": "n"},
    "recover": SHARDS,
    "start_epoch": SHARDS,
    "wake": SHARDS | {"share": 10, "reasons": ["share"]},
    "record": {"marked": [1], "mark_epochs": [1], "seqs": [1]},
    "record_in_place": {"marked": [1], "mark_epochs": [1], "seqs": [1], "places": ["(0,1)"]},
    "tenants_waiting": SHARDS | {"now": NOON, "full": [1]},
    "waiting": SHARDS | {"tenants": [1, 2], "now": NOON, "share": 10},
    "waiting_newest": SHARDS | {"tenants": [1, 2], "now": NOON, "share": 10},
    "supersede": {"job_ids": [uuid4()], "versions": [2], "edits": [NOON]},
    "release": KEYS | {"seq_epochs": [1], "seqs": [1], "claim_for": None},
    "settle": KEYS | {"states": ["parked"], "reasons": ["turn"], "wake_ats": [NOON]},
    "predecessors": KEYS | {"job_ids": [uuid4()], "give_way": [True]},
    "cancel_running": KEYS | {"job_ids": [uuid4()], "reason": "x"},
    "expired": SHARDS | {"grace": timedelta(seconds=5), "share": 10},
    "reap": KEYS
    | {
        "states": ["dead"],
        "reasons": ["x"],
        "wake_ats": [NOON],
        "run_ids": [uuid4()],
        "holders": [uuid4()],
        "error": "x",
        "now": NOON,
    },
    "holder": {"scheduled_for": NOON, "id": uuid4(), "history_days": 30, "fence": 1},
    "unstarted": SHARDS | PATIENCE | {"epochs": [0, 1], "seqs": [0, 1], "share": 10},
    "unstarted_confirmed": SHARDS | {"limit": 10},
    "suspects": KEYS,
    "acquired": ACQUIRED,
    "acquired_by_claim": ACQUIRED,
    "send_again": KEYS | {"seq_epochs": [1], "seqs": [1]},
    "adopt": PATIENCE,
    "reclaim": {"limit": 10, "claim_for": timedelta(seconds=30)},
    "confirm": KEYS | PATIENCE | {"tasks": ["tests.none"]},
    "look_again": KEYS | PATIENCE | {"gone": [True], "claim_for": timedelta(seconds=30)},
    "running": SHARDS,
    "published": SHARDS | {"share": 10},
    "held": SHARDS,
    "hold": SHARDS | {"tenants": [1, 2], "since": [NOON, NOON]},
    "unhold": SHARDS | {"tenants": [1, 2]},
    "runs": KEYS | {"run_ids": [uuid4()], "earliest": NOON, "latest": NOON, "nobody": uuid4()},
    "over": SHARDS | {"now": NOON, "limit": 10},
    "end": {"job_ids": [uuid4()], "now": NOON},
}


@pytest.fixture
def session(committed_db: None) -> Iterator[Connection]:
    with connector(connection.get_connection_params(), name="plans")() as session:
        ensure(session, [(30, NOON.date()), (30, NOON.date() + timedelta(days=1))])
        session.execute("ANALYZE scheduling_fire, scheduling_job, scheduling_shard")
        yield session


@pytest.mark.parametrize("name", VALUES)
def test_no_statement_of_a_node_scans_a_table(session: Connection, name: str) -> None:
    statement = {**SCHEDULE, **POLLING, **PAUSES, **IN_FLIGHT, "acquired_by_claim": BY_CLAIM}[name]
    plan = session.execute(f"EXPLAIN {statement}".encode(), VALUES[name]).fetchall()
    scans = [line for (line,) in plan if "Seq Scan" in line]
    assert not scans


def test_a_take_over_finds_what_is_beyond_the_watermark_without_reading_what_was_sent(session: Connection) -> None:
    """Fires of plain tasks stay claimed as long as there is history: by the million."""
    plan = session.execute(f"EXPLAIN {SCHEDULE['recover']}".encode(), SHARDS).fetchall()
    looks = [line for (line,) in plan if "Index Cond: ((shard_id = s.id)" in line]
    assert looks
    assert all("ROW(seq_epoch, seq) >" in look or "seq_epoch IS NULL" in look for look in looks)


def test_plans_are_made_once_and_never_compiled(session: Connection) -> None:
    settings = {name: session.execute(f"SHOW {name}".encode()).fetchone() for name in ("jit", "plan_cache_mode")}
    assert settings == {"jit": ("off",), "plan_cache_mode": ("force_generic_plan",)}
