"""Ends runs whose lease is out: the worker is gone, or was frozen.

Within the caller's transaction the rows are locked, and nobody is waited for: a row that somebody else holds just now
(its worker completes it, say) is left to the next reap. One that is held beyond the grace, too (its worker vanished in
the middle of the completion), is reported: whoever holds it is ended (``store.holders``), and a later reap finds the
row free.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any
from uuid import UUID

from psycopg.rows import TupleRow

from scheduling.core.identity import run_id
from scheduling.core.lost_lease import ERROR, LostLease, LostRun, after_lost_lease
from scheduling.store.connection import Connection
from scheduling.store.rows import SHARD
from scheduling.store.shares import read_in_shares
from scheduling.store.statements import statements

BATCH = 1000  # a mass of them must not hold up the claims for long


@dataclass(frozen=True, slots=True)
class Reaped:
    """``held`` is what finds the rows that somebody else has locked beyond the grace: parameters of ``holder``."""

    runs: list[LostRun]
    held: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Expired:
    """A row of ``expired``."""

    id: UUID
    shard: int
    scheduled_for: datetime
    history_days: int
    fence: int
    attempt: int
    max_attempts: int
    holder: UUID
    retry_base_s: float
    retry_cap_s: float
    deleted: bool
    counted: int
    origin: str
    job_id: UUID
    name: str
    task: str
    tenant: str
    is_held: bool
    is_beyond_grace: bool

    @property
    def keys(self) -> dict[str, Any]:
        return {
            "scheduled_for": self.scheduled_for,
            "id": self.id,
            "history_days": self.history_days,
            "fence": self.fence,
        }

    def end(self) -> LostLease:
        return after_lost_lease(
            self.attempt,
            self.max_attempts,
            deleted=self.deleted,
            base=timedelta(seconds=self.retry_base_s),
            cap=timedelta(seconds=self.retry_cap_s),
            rand=random.random,
            counted=self.counted,
        )

    def ended_as(self, end: LostLease) -> LostRun:
        return LostRun(
            fire_id=self.id,
            job_id=self.job_id,
            tenant=self.tenant,
            name=self.name,
            task=self.task,
            scheduled_for=self.scheduled_for,
            origin=self.origin,
            attempt=self.attempt,
            state=end.state,
            reason=end.reason,
        )


def reap(connection: Connection, shards: Collection[int], *, now: datetime, grace: timedelta) -> Reaped:
    """``now`` is job time, ``grace`` real time beyond the lease: for so long whoever holds a row is left alone."""
    sql = statements("schedule", **statements("dead_letters"))

    def read(of_shards: Sequence[int], share: int) -> list[TupleRow]:
        return connection.execute(sql["expired"], {"shards": of_shards, "grace": grace, "share": share}).fetchall()

    expired, _ = read_in_shares(read, sorted(shards), BATCH, group_of=itemgetter(SHARD))
    found = [_Expired(*row) for row in expired[:BATCH]]
    ends = [(run, run.end()) for run in found if not run.is_held]
    if ends:
        rows = [_row(run, end, now) for run, end in ends]
        columns = {column: [row[column] for row in rows] for column in rows[0]}
        connection.execute(sql["reap"], columns | {"error": ERROR, "now": now})
    return Reaped(
        [run.ended_as(end) for run, end in ends], [run.keys for run in found if run.is_held and run.is_beyond_grace]
    )


def _row(run: _Expired, end: LostLease, now: datetime) -> dict[str, Any]:
    return {
        "ids": run.id,
        "scheduled_fors": run.scheduled_for,
        "history_days": run.history_days,
        "fences": run.fence,
        "states": end.state.value,
        "reasons": end.reason,
        "wake_ats": None if end.wait is None else now + end.wait,
        "run_ids": run_id(run.id, run.fence),
        "holders": run.holder,
    }
