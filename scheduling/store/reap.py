"""Ends runs whose lease is out: the worker is gone, or was frozen."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

from psycopg.rows import TupleRow

from scheduling.core.identity import run_id
from scheduling.core.lost_lease import after_lost_lease
from scheduling.store.connection import Connection
from scheduling.store.rows import SHARD
from scheduling.store.shares import read_in_shares
from scheduling.store.statements import statements

BATCH = 1000  # a mass of them must not hold up the claims for long


def reap(connection: Connection, shards: Collection[int], *, now: datetime, grace: timedelta) -> int:
    """Within the caller's transaction; returns how many. ``now`` is job time, ``grace`` real time beyond the lease."""
    sql = statements("schedule")

    def read(of_shards: Sequence[int], share: int) -> list[TupleRow]:
        return connection.execute(sql["expired"], {"shards": of_shards, "grace": grace, "share": share}).fetchall()

    rows = read_in_shares(read, sorted(shards), BATCH, group_of=itemgetter(SHARD))[:BATCH]
    if rows:
        ends = [_end(row, now) for row in rows]
        connection.execute(sql["reap"], {column: [end[column] for end in ends] for column in ends[0]})
    return len(rows)


def _end(row: TupleRow, now: datetime) -> dict[str, Any]:
    fire, _shard, scheduled_for, history_days, fence, attempt, max_attempts, holder, base_s, cap_s, deleted = row
    end = after_lost_lease(
        attempt,
        max_attempts,
        deleted=deleted,
        base=timedelta(seconds=base_s),
        cap=timedelta(seconds=cap_s),
        rand=random.random,
    )
    return {
        "ids": fire,
        "scheduled_fors": scheduled_for,
        "history_days": history_days,
        "fences": fence,
        "states": end.state.value,
        "reasons": end.reason,
        "wake_ats": None if end.wait is None else now + end.wait,
        "run_ids": run_id(fire, fence),
        "holders": holder,
    }
