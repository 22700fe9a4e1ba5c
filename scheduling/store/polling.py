"""The store of stop 2: a poll is one transaction that locks what it takes, and leaves nothing half done.

Due jobs, waiting fires, unconfirmed ones and lost runs are locked with SKIP LOCKED, so any number of pollers share
the work. Within that transaction the misfire and overlap policies are judged; what is left is ``claimed`` until a
deadline, by which the broker must have confirmed it, or any poller publishes it again under a higher fence.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

import psycopg

from scheduling.core.clock import Clock
from scheduling.core.effects import Settlement
from scheduling.core.fire import Fire, State
from scheduling.core.judging import judge_fires
from scheduling.core.overlap import Decision, Predecessors, decide, recheck_s
from scheduling.core.planning import plan_jobs
from scheduling.store import partitions
from scheduling.store.back_to_rows import back_to_rows
from scheduling.store.connection import Connect, Connection, Link
from scheduling.store.due import DueReader
from scheduling.store.pauses import end_those_over
from scheduling.store.reap import reap
from scheduling.store.rows import fire_of
from scheduling.store.statements import statements
from scheduling.store.values import (
    claim_values,
    fire_keys,
    lock_order,
    read_predecessors,
    release_values,
    settle_values,
)
from scheduling.store.waiting import read_waiting

FIRE_LOCK = "FOR NO KEY UPDATE OF j, f SKIP LOCKED"  # lets a worker's acquire read the job
_NONE = Predecessors(0, 0)


class PollingStore:
    """``confirm_s``: how long the broker may take. One connection, one thread."""

    def __init__(self, connect: Connect, *, shards: int, grace: timedelta, confirm_s: float) -> None:
        self._link = Link(connect)
        self.shards = frozenset(range(shards))
        self._grace, self._claim_for = grace, timedelta(seconds=confirm_s)
        self._sql = statements("schedule", row_lock="FOR UPDATE SKIP LOCKED", fire_lock=FIRE_LOCK)
        self._polling_sql = statements(
            "polling",
            fire_columns=self._sql["fire_columns"],
            fire_work=self._sql["fire_work"],
            fire_lock=FIRE_LOCK,
        )
        self._due = DueReader(self._sql)
        self._days = partitions.KnownDays()

    def adopt(self) -> None:
        """At a node's start: take up what a stop with owners left unconfirmed."""
        with self._link() as connection:
            connection.execute(self._polling_sql["adopt"])
            back_to_rows(connection, self.shards)

    def poll(self, clock: Clock, *, limit: int) -> list[Fire]:
        """The fires to publish now; all their rows are committed.

        Raises StoreUnavailable, having claimed nothing or what a later poll publishes.
        """
        try:
            return self._poll(clock, limit)
        except psycopg.errors.CheckViolation:  # a day that we know of was dropped, by the node that expired it
            return self._poll(clock, limit)

    def expire(self, clock: Clock) -> list[str]:
        """Drop the history whose time-to-live has passed; returns what was dropped."""
        with self._link() as connection:
            dropped = partitions.expire(connection, now=clock.now())
        self._days.forget()
        return dropped

    def _poll(self, clock: Clock, limit: int) -> list[Fire]:
        try:
            with self._link() as connection, connection.transaction():
                return self._take(connection, clock, limit)
        except BaseException:
            self._days.forget()  # a partition that was made in this transaction is gone with it
            raise

    def _take(self, connection: Connection, clock: Clock, limit: int) -> list[Fire]:
        fires = self._claim(connection, clock, limit)
        fires += self._release(connection, clock, limit)
        fires += self._reclaim(connection, limit)
        fires, skips = judge_fires(fires, clock)
        self._settle(connection, skips)  # before predecessors are counted
        fires, waits = self._in_their_turn(connection, fires, clock)
        self._settle(connection, waits)
        end_those_over(connection, self.shards, now=clock.now())
        reap(connection, self.shards, now=clock.now(), grace=self._grace)
        return fires

    def confirm(self, fires: Sequence[Fire]) -> None:
        """The broker has these."""
        with self._link() as connection:
            connection.execute(self._polling_sql["confirm"], fire_keys(sorted(fires, key=lock_order)))

    def close(self) -> None:
        self._link.close()

    def _claim(self, connection: Connection, clock: Clock, limit: int) -> list[Fire]:
        now = clock.now()
        due = self._due.read(connection, self.shards, until=now, limit=limit)
        if not due:
            return []
        plans = plan_jobs(due, until=now, clock=clock, number=lambda _: (0, 0), room=limit)
        self._days.ensure(connection, plans)
        rows = connection.execute(self._sql["claim"], claim_values(plans, self._claim_for)).fetchall()
        fences = {fire: fence for fire, state, fence in rows if state == State.CLAIMED}
        planned = {row.fire.id: row.fire for plan in plans for row in plan.rows}
        for fire, fence in fences.items():
            planned[fire].fence = fence
        return [planned[fire] for fire in fences]

    def _release(self, connection: Connection, clock: Clock, limit: int) -> list[Fire]:
        rows = read_waiting(connection, self._sql["waiting"], self.shards, now=clock.now(), limit=limit)
        if not rows:
            return []
        fires = [fire_of(row, time.monotonic()) for row in rows]
        for fire in fires:
            fire.epoch = fire.seq = 0
        connection.execute(self._sql["release"], release_values(fires, self._claim_for))
        return fires

    def _reclaim(self, connection: Connection, limit: int) -> list[Fire]:
        values = {"limit": limit, "claim_for": self._claim_for}
        rows = connection.execute(self._polling_sql["reclaim"], values).fetchall()
        return [fire_of(row, time.monotonic()) for row in rows]

    def _settle(self, connection: Connection, settlements: Sequence[Settlement]) -> None:
        if settlements:
            connection.execute(self._sql["settle"], settle_values(settlements))

    def _in_their_turn(
        self, connection: Connection, fires: Sequence[Fire], clock: Clock
    ) -> tuple[list[Fire], list[Settlement]]:
        """Divide them: those to publish, and those whose job does not let them overlap what is unfinished."""
        exclusive = [fire for fire in fires if not fire.may_overlap]
        if not exclusive:
            return list(fires), []
        counts = read_predecessors(connection, exclusive)
        settlements: list[Settlement] = []
        for fire in exclusive:
            ahead = counts.get(fire.id, _NONE)
            decision = decide(fire, ahead)
            if decision is Decision.PARK:
                wake_at = clock.job_time(clock.monotonic() + recheck_s(fire, ahead))
                settlements.append(Settlement(fire, State.PARKED, "overlap", wake_at))
            elif decision is not Decision.DISPATCH:
                settlements.append(Settlement(fire, State.SKIPPED, decision.value))
        stay = {settlement.fire.id for settlement in settlements}
        return [fire for fire in fires if fire.id not in stay], settlements
