"""The store of stop 2: a poll is one transaction that locks what it takes, and leaves nothing half done.

Due jobs, waiting fires, unconfirmed ones and lost runs are locked with SKIP LOCKED, so any number of pollers share
the work. Within that transaction the misfire and overlap policies are judged; what is left is ``claimed`` until a
deadline, by which the broker must have confirmed it, or any poller publishes it again under a higher fence. What is
confirmed has a deadline of its own, by which a worker must have acquired it (``patience``): then it is looked whether
its message is gone.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from scheduling.core.clock import Clock
from scheduling.core.effects import ReadDue, Settlement
from scheduling.core.fire import Fire, State
from scheduling.core.judging import judge_fires, judge_overlaps
from scheduling.core.lines import Pull
from scheduling.core.lost_lease import LostRun
from scheduling.core.planning import plan_jobs
from scheduling.core.runs import RunSeen
from scheduling.core.unstarted import Unstarted
from scheduling.store import partitions
from scheduling.store.arrays import booleans, integers
from scheduling.store.back_to_rows import back_to_rows
from scheduling.store.connection import Connect, Connection, Link
from scheduling.store.due import DueReader
from scheduling.store.holders import Holders
from scheduling.store.in_flight import read_runs
from scheduling.store.pauses import end_those_over
from scheduling.store.reap import Reaped, reap
from scheduling.store.rows import fire_of
from scheduling.store.statements import statements
from scheduling.store.unstarted import last_acquired, queue_of, read_suspects
from scheduling.store.values import (
    cancel_running,
    claim_values,
    fire_keys,
    lock_order,
    read_predecessors,
    release_values,
    settle_values,
    supersede,
)
from scheduling.store.waiting import read_waiting

FIRE_LOCK = "FOR NO KEY UPDATE OF j, f SKIP LOCKED"  # lets a worker's acquire read the job
# Without owners there are no numbers: of two fires the later claim was published later, by some seconds.
BY_AGE = {
    "published_last": "extract(epoch FROM clock_timestamp() - max(a.claimed_at))::float8",
    "is_comparable": "true",
    "same_shard": "true",
}
SURELY_LATER_S = 2.0
LOOKED_AT = 5000  # of what was published lately: of capped tenants there is hardly more
WALK = 100  # in a shard, over what waits for something else


class PollingStore:
    """``confirm_s``: how long the broker may take; ``patience``: how long the workers may, before it is looked whether
    a message is gone. One connection, one thread.
    """

    def __init__(
        self,
        connect: Connect,
        *,
        shards: int,
        grace: timedelta,
        confirm_s: float,
        patience: timedelta = timedelta(minutes=1),
    ) -> None:
        self._link = Link(connect)
        self.shards = frozenset(range(shards))
        self._grace, self._claim_for, self._patience = grace, timedelta(seconds=confirm_s), patience
        self._sql = statements("schedule", row_lock="FOR UPDATE SKIP LOCKED", fire_lock=FIRE_LOCK, **BY_AGE)
        self._polling_sql = statements(
            "polling",
            fire_columns=self._sql["fire_columns"],
            fire_work=self._sql["fire_work"],
            guarded=self._sql["guarded"],
            fire_lock=FIRE_LOCK,
        )
        self._due = DueReader(self._sql)
        self._days = partitions.KnownDays()
        self._holders = Holders(connect, grace=grace)
        self._reaped = Reaped([], [])
        self._cancelled: list[LostRun] = []
        self.returned: frozenset[UUID] = frozenset()  # of the last poll: what had waited, or was claimed before

    def adopt(self) -> None:
        """At a node's start: take up what a stop with owners left."""
        with self._link() as connection:
            connection.execute(self._polling_sql["adopt"], {"patience": self._patience})
            back_to_rows(connection, self.shards)

    def poll(self, clock: Clock, *, limit: int) -> list[Fire]:
        """The fires to publish now; all their rows are committed.

        Raises StoreUnavailable, having claimed nothing or what a later poll publishes.
        """
        try:
            return self._poll(clock, limit)
        except psycopg.errors.CheckViolation:  # a day that we know of was dropped, by the node that expired it
            return self._poll(clock, limit)

    def lost_runs(self) -> list[LostRun]:
        """The runs, and retries that made room, that the last poll has ended; once."""
        runs = self._cancelled + self._reaped.runs
        self._cancelled, self._reaped = [], Reaped([], [])
        return runs

    def expire(self, clock: Clock) -> list[str]:
        """Drop the history whose time-to-live has passed; returns what was dropped."""
        with self._link() as connection:
            dropped = partitions.expire(connection, now=clock.now())
        self._days.forget()
        return dropped

    def _poll(self, clock: Clock, limit: int) -> list[Fire]:
        self._cancelled, self._reaped = [], Reaped([], [])
        try:
            with self._link() as connection, connection.transaction():
                fires = self._take(connection, clock, limit)
                reaped = reap(connection, self.shards, now=clock.now(), grace=self._grace)
        except BaseException:
            self._days.forget()  # a partition that was made in this transaction is gone with it
            self._cancelled = []
            raise
        self._reaped = reaped
        self._holders.end(reaped.held)
        return fires

    def _take(self, connection: Connection, clock: Clock, limit: int) -> list[Fire]:
        fires = self._claim(connection, clock, limit)
        back = self._release(connection, clock, limit) + self._reclaim(connection, limit)
        self.returned = frozenset(fire.id for fire in back)
        fires, skips = judge_fires(fires + back, clock)
        self._settle(connection, skips)  # before predecessors are counted
        fires = self._in_their_turn(connection, fires, clock)
        end_those_over(connection, self.shards, now=clock.now())
        return fires

    def confirm(self, fires: Sequence[Fire]) -> None:
        """The broker has these."""
        fires = sorted(fires, key=lock_order)
        values = fire_keys(fires) | {"tasks": [fire.work.task for fire in fires], "patience": self._patience}
        with self._link() as connection:
            connection.execute(self._polling_sql["confirm"], values)

    def park(self, settlements: Sequence[Settlement]) -> None:
        """Claimed fires whose limits say: later."""
        with self._link() as connection:
            self._settle(connection, settlements)

    def bring_back(self, pull: Pull, *, now: datetime) -> tuple[int, bool]:
        """Let so many of those who are parked for this limit be due; how many there were, and whether there may be
        more. ``now`` is job time.
        """
        tenant, lane, task = pull.key
        values: dict[str, Any] = {"tenant": tenant, "lane": lane, "task": task, "reason": pull.reason}
        values |= {"count": pull.count, "walk": pull.count + pull.walk, "now": now}
        lanes, tasks = zip(*sorted(pull.apart), strict=True) if pull.apart else ((), ())
        values |= {"lanes": list(lanes), "tasks": list(tasks), "shards": integers(sorted(self.shards))}
        with self._link() as connection:
            found = connection.execute(self._polling_sql["bring_back"], values).fetchone()
        assert found is not None
        return found[0], found[1]

    def waiting_for_limits(self, tenants: Sequence[int]) -> dict[tuple[int, str], int]:
        """How many fires of these tenants, by lane; where there are many, about."""
        if not tenants:
            return {}
        values = {"tenants": integers(tenants), "shards": integers(sorted(self.shards)), "walk": WALK}
        with self._link() as connection:
            rows = connection.execute(self._polling_sql["waiting_for_limits"], values).fetchall()
        return {(tenant, lane): count for tenant, lane, count in rows}

    def runs(self, fires: Sequence[Fire]) -> list[RunSeen]:
        """Which of these have begun, and which are over; the others are left out."""
        with self._link() as connection:
            return read_runs(connection, fires)

    def in_flight(self, tenants: Sequence[int], *, with_published: bool) -> list[Fire]:
        """What runs of these tenants; and what was published lately and has not begun, of at most so many in all."""
        if not tenants:
            return []
        values = {"tenants": integers(tenants), "shards": integers(sorted(self.shards)), "looked_at": LOOKED_AT}
        with self._link() as connection:
            rows = connection.execute(self._polling_sql["running_of"], values).fetchall()
            if with_published:
                rows += connection.execute(self._polling_sql["published_of"], values).fetchall()
        return [fire_of(row, time.monotonic()) for row in rows]

    def unstarted(self, *, limit: int) -> Unstarted:
        """What was confirmed, and not acquired in time."""
        with self._link() as connection:
            values = {"shards": sorted(self.shards), "limit": limit}
            keys = connection.execute(self._sql["unstarted_confirmed"], values).fetchall()
            suspects = read_suspects(connection, self._sql, keys)
            return Unstarted(suspects, self._overtaken(connection, suspects), {})

    def _overtaken(self, connection: Connection, suspects: Sequence[Fire]) -> set[UUID]:
        """Those of a queue from which a fire that was claimed later was acquired ``patience`` ago."""
        now = time.monotonic()
        groups = {fire.id: (0, *queue_of(fire)) for fire in suspects}
        ages_s = last_acquired(connection, self._sql, suspects, list(groups.values()), patience=self._patience)
        return {
            fire.id
            for fire in suspects
            if groups[fire.id] in ages_s and now - fire.claimed_at > ages_s[groups[fire.id]] + SURELY_LATER_S
        }

    def send_again(self, suspects: Sequence[Fire], gone: Collection[UUID]) -> list[Fire]:
        """Those of ``gone`` that are to be published again, under the same fence; the others are left where they are,
        and looked at again later.
        """
        suspects = sorted(suspects, key=lock_order)
        values = fire_keys(suspects) | {
            "gone": booleans([fire.id in gone for fire in suspects]),
            "claim_for": self._claim_for,
            "patience": self._patience,
        }
        with self._link() as connection:
            again = {fire for (fire,) in connection.execute(self._polling_sql["look_again"], values).fetchall()}
        return [fire for fire in suspects if fire.id in again]

    def close(self) -> None:
        self._link.close()

    def _claim(self, connection: Connection, clock: Clock, limit: int) -> list[Fire]:
        now = clock.now()
        due = self._due.read(connection, ReadDue(self.shards, now, limit)).jobs
        if not due:
            return []
        plans = plan_jobs(due, until=now, clock=clock, number=lambda _: (0, 0), room=limit)
        self._days.ensure(connection, plans)
        rows = connection.execute(self._sql["claim"], claim_values(plans, self._claim_for)).fetchall()
        supersede(connection, plans)
        fences = {fire: fence for fire, state, fence in rows if state == State.CLAIMED}
        planned = {row.fire.id: row.fire for plan in plans for row in plan.rows}
        for fire, fence in fences.items():
            planned[fire].fence = fence
        return [planned[fire] for fire in fences]

    def _release(self, connection: Connection, clock: Clock, limit: int) -> list[Fire]:
        rows, _ = read_waiting(connection, self._sql, self.shards, now=clock.now(), limit=limit)
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

    def _in_their_turn(self, connection: Connection, fires: Sequence[Fire], clock: Clock) -> list[Fire]:
        """Those to publish, without those whose job does not let them overlap what is unfinished."""
        exclusive = [fire for fire in fires if not fire.may_overlap]
        if not exclusive:
            return list(fires)
        turns = judge_overlaps(exclusive, read_predecessors(connection, exclusive), clock)
        self._settle(connection, turns.settlements)
        if turns.newest:
            self._cancelled = cancel_running(connection, turns.newest)
        stay = {settlement.fire.id for settlement in turns.settlements}
        return [fire for fire in fires if fire.id not in stay]
