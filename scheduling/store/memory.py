"""The schedule's store in memory, for tests and simulations: it answers as the Postgres one does.

Invariants: a call is one transaction; a write under a stale epoch raises and changes nothing. Several nodes share one
object. It differs in what only a database can do: nothing here blocks, is lost on the way, or survives the process.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

from scheduling.core.clock import Clock
from scheduling.core.due import Due
from scheduling.core.effects import Epochs, ReadDue, Settlement
from scheduling.core.errors import StaleEpoch
from scheduling.core.fire import Fire, State
from scheduling.core.lost_lease import ERROR, LostRun, after_lost_lease
from scheduling.core.overlap import NEWER_IS_DUE, Predecessors
from scheduling.core.plans import JobPlan
from scheduling.core.runs import Held, RunSeen
from scheduling.core.turns import in_turns, left_out
from scheduling.core.unstarted import Unstarted
from scheduling.core.waiting import Waiting
from scheduling.store import memory_in_flight, memory_overlap, memory_unstarted
from scheduling.store.memory_claims import MemoryClaims
from scheduling.store.memory_pauses import end_those_over
from scheduling.store.memory_rows import WAITING, Rows, StoredFire, StoredJob, StoredRun, StoredShard


class MemoryStore:
    """``owners`` is who a coordinator in memory believes to own each shard."""

    def __init__(
        self,
        clock: Clock,
        *,
        shards: Iterable[int],
        owners: MutableMapping[int, str] | None = None,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self.rows = Rows({shard: StoredShard() for shard in shards})
        self._clock, self._owners, self._rand = clock, owners, rand
        self._claims = MemoryClaims(self.rows, clock)
        self._lock = self.rows.lock

    def add(self, job: StoredJob) -> None:
        with self._lock:
            self.rows.jobs[job.work.job_id] = job

    # -- ownership --------------------------------------------------------------------------------------------------

    def take_over(self, shards: Collection[int], node: str) -> tuple[Epochs, list[Fire]]:
        with self._lock:
            rows = self.rows
            mine = rows.shards.keys() & set(shards)
            left = sorted(
                (fire for fire in rows.fires.values() if fire.work.shard in mine and rows.is_beyond(fire)),
                key=lambda fire: (fire.fire_at, fire.id),
            )
            for shard in mine:
                row = rows.shards[shard]
                row.epoch += 1
                row.mark = (row.epoch, 0)
                if self._owners is not None:
                    self._owners[shard] = node
            numbers: dict[int, int] = defaultdict(int)
            for fire in left:
                numbers[fire.work.shard] += 1
                fire.fence += 1
                fire.number = (rows.shards[fire.work.shard].epoch, numbers[fire.work.shard])
            memory_in_flight.wake(rows, mine, self._clock.now())
            return {shard: rows.shards[shard].epoch for shard in mine}, [self._held(fire) for fire in left]

    def _hold(self, epochs: Epochs) -> None:
        stale = [
            shard
            for shard, epoch in epochs.items()
            if shard not in self.rows.shards or self.rows.shards[shard].epoch != epoch
        ]
        if stale:
            raise StaleEpoch(stale)

    def _held(self, fire: StoredFire) -> Fire:
        return fire.held(self.rows.jobs[fire.work.job_id].work, self._clock.monotonic())

    # -- claim ------------------------------------------------------------------------------------------------------

    def due(self, look: ReadDue) -> Due:
        with self._lock:
            found = [
                (job.next_fire_at, job)
                for job in self.rows.jobs.values()
                if job.work.shard in look.shards and job.next_fire_at is not None and job.next_fire_at <= look.until
                if job.work.tenant_id not in look.full
            ]
            fair = in_turns(
                found, look.limit, of=lambda row: row[1].work.tenant_id, at=lambda row: row[0], most=look.most
            )
            more = left_out(found, fair, of=lambda row: (row[1].work.tenant_id, row[1].work.shard))
            return Due([job.due() for _, job in fair], look.shards, frozenset(more))

    def claim(self, epochs: Epochs, plans: Sequence[JobPlan]) -> dict[UUID, int]:
        with self._lock:
            self._hold(epochs)
            return self._claims.claim(plans)

    # -- waiting fires ----------------------------------------------------------------------------------------------

    def waiting(
        self, shards: Collection[int], *, now: datetime, limit: int, full: frozenset[int] = frozenset()
    ) -> Waiting:
        with self._lock:
            waits = [
                (fire.wake_at, fire)
                for fire in self.rows.fires.values()
                if fire.work.shard in shards and fire.state in WAITING and fire.wake_at is not None
                if fire.work.tenant_id not in full
            ]
            due = [fire for wake_at, fire in waits if wake_at <= now]
            found = [fire for fire in due if fire.origin or not self.rows.jobs[fire.work.job_id].is_paused_at(now)]
            places = _places(found)
            fair = in_turns(found, limit, of=lambda fire: fire.work.tenant_id, at=lambda fire: places[fire.id])
            next_at = now if due else min((wake_at for wake_at, _ in waits), default=None)
            return Waiting([self._held(fire) for fire in fair], next_at)

    def release(self, epochs: Epochs, fires: Sequence[Fire]) -> set[UUID]:
        with self._lock:
            self._hold(epochs)
            released = set()
            for held in fires:
                fire = self._same(held, WAITING)
                if fire is not None:
                    if fire.reason != "turn":
                        fire.claimed_at = self._clock.monotonic()
                    fire.state, fire.reason, fire.wake_at, fire.confirmed = State.CLAIMED, "", None, False
                    fire.number = (held.epoch, held.seq)
                    released.add(fire.id)
            return released

    # -- what is published, and who is held -------------------------------------------------------------------------

    def held(self, shards: Collection[int]) -> Held:
        with self._lock:
            return memory_in_flight.held(self.rows, shards, self._clock.monotonic(), self._held)

    def runs(self, fires: Sequence[Fire]) -> list[RunSeen]:
        with self._lock:
            return list(memory_in_flight.runs(self.rows, fires, self._clock.monotonic()))

    def hold(
        self, epochs: Epochs, *, begun: Mapping[tuple[int, int], datetime], ended: Sequence[tuple[int, int]]
    ) -> None:
        with self._lock:
            self._hold(epochs)
            memory_in_flight.hold(self.rows, begun, ended)

    # -- what waits for others of its job ---------------------------------------------------------------------------

    def predecessors(self, fires: Sequence[Fire]) -> dict[UUID, Predecessors]:
        with self._lock:
            return memory_overlap.predecessors(self.rows, fires)

    def cancel_running(self, epochs: Epochs, newest: Sequence[Fire]) -> list[LostRun]:
        with self._lock:
            self._hold(epochs)
            return [_told(fire, error=NEWER_IS_DUE) for fire in memory_overlap.cancel_running(self.rows, newest)]

    def settle(self, epochs: Epochs, settlements: Sequence[Settlement]) -> None:
        with self._lock:
            self._hold(epochs)
            for settlement in settlements:
                fire = self._same(settlement.fire, (State.CLAIMED,))
                if fire is not None:
                    fire.state, fire.reason, fire.wake_at = settlement.state, settlement.reason, settlement.wake_at

    def record(self, epochs: Epochs, marks: Mapping[int, int]) -> None:
        with self._lock:
            self._hold(epochs)
            for shard, seq in marks.items():
                row = self.rows.shards[shard]
                row.mark = max(row.mark, (epochs[shard], seq))

    def _same(self, held: Fire, states: Collection[State]) -> StoredFire | None:
        """The row of a fire, if it is still in one of these states under the fence that the node knows."""
        fire = self.rows.fires.get(held.id)
        return fire if fire is not None and fire.fence == held.fence and fire.state in states else None

    # -- what runs, and what has been -------------------------------------------------------------------------------

    def unstarted(self, after: Mapping[int, tuple[int, int]], *, patience: timedelta, limit: int) -> Unstarted:
        with self._lock:
            times = {"now": self._clock.monotonic(), "patience_s": patience.total_seconds()}
            share = max(1, limit // max(1, len(after)))
            found, reached = memory_unstarted.walk(self.rows, after, share=share)
            suspects = [fire for fire in found if memory_unstarted.is_suspect(self.rows, fire, **times)]
            all_fires = self.rows.fires.values()
            overtaken = {fire.id for fire in suspects if memory_unstarted.is_overtaken(fire, all_fires, **times)}
            return Unstarted([self._held(fire) for fire in suspects], overtaken, reached)

    def send_again(self, epochs: Epochs, fires: Sequence[Fire]) -> set[UUID]:
        with self._lock:
            self._hold(epochs)
            sent = set()
            for held in fires:
                fire = self._same(held, (State.CLAIMED,))
                if fire is not None:
                    fire.number, fire.confirmed = (held.epoch, held.seq), False
                    fire.sent_again_at = self._clock.monotonic()
                    sent.add(fire.id)
            return sent

    def reap(self, epochs: Epochs, *, now: datetime) -> list[LostRun]:
        with self._lock:
            self._hold(epochs)
            end_those_over(self.rows, epochs, now=now)
            now_s = self._clock.monotonic()
            lost = [
                fire
                for fire in self.rows.fires.values()
                if fire.work.shard in epochs
                and fire.state is State.RUNNING
                and fire.lease_until is not None
                and fire.lease_until < now_s
            ]
            return [self._reaped(fire, now) for fire in lost]

    def _reaped(self, fire: StoredFire, now: datetime) -> LostRun:
        job = self.rows.jobs[fire.work.job_id]
        end = after_lost_lease(
            fire.attempt,
            fire.max_attempts,
            deleted=job.is_deleted or bool(fire.cancel_reason),
            base=job.retry_base,
            cap=job.retry_cap,
            rand=self._rand,
            counted=fire.attempt - (fire.max_attempts - job.max_attempts),
        )
        self.rows.ended(fire, StoredRun("lost", fire.holder), self._clock.monotonic())
        fire.state, fire.reason, fire.fence = end.state, end.reason, fire.fence + 1
        fire.wake_at = None if end.wait is None else now + end.wait
        fire.lease_until = fire.holder = None
        if fire.state is State.DEAD:
            self.rows.died(fire, error=ERROR)
            if fire.is_exclusive and (first := memory_overlap.wake_next(self.rows, fire.work.job_id)) is not None:
                first.wake_at = now
        return _told(fire, error=ERROR)

    def promote(self, epochs: Epochs, *, now: datetime) -> bool:  # noqa: ARG002
        return False

    def expire(self, shards: Collection[int], *, now: datetime) -> list[str]:  # noqa: ARG002
        with self._lock:
            days: dict[tuple[int, datetime], list[StoredFire]] = defaultdict(list)
            for fire in self.rows.fires.values():
                days[fire.work.history_days, _midnight(fire.scheduled_for)].append(fire)
            dropped = []
            for (history_days, day), fires in sorted(days.items(), key=lambda row: row[0]):
                is_over = day + timedelta(days=history_days + 1) <= now
                if is_over and not any(self._is_needed(fire) for fire in fires):
                    dropped.append(f"{history_days} days: {day:%Y-%m-%d}")
                    for fire in fires:
                        del self.rows.fires[fire.id]
            return dropped

    def _is_needed(self, fire: StoredFire) -> bool:
        return fire.is_unfinished and (fire.state is not State.CLAIMED or self.rows.is_beyond(fire))

    def report(self, node: str, *, fires: int, latency: Mapping[str, Any]) -> None:  # noqa: ARG002  (for people)
        with self._lock:
            self.rows.reports[node] = fires

    def close(self) -> None:
        """There is nothing to give up."""


def _told(fire: StoredFire, *, error: str) -> LostRun:
    """What is told of a fire that was ended."""
    return LostRun(
        fire_id=fire.id,
        job_id=fire.work.job_id,
        tenant=fire.work.tenant,
        name=fire.work.name,
        task=fire.work.task,
        scheduled_for=fire.scheduled_for,
        origin=fire.origin,
        attempt=fire.attempt,
        state=fire.state,
        reason=fire.reason,
        error=error,
    )


def _places(waiting: Iterable[StoredFire]) -> dict[UUID, int]:
    """Of each tenant's fires: his first attempts and his retries take turns."""
    lines: dict[tuple[int, bool], count[int]] = defaultdict(count)
    places = {}
    for fire in sorted(waiting, key=lambda fire: fire.fire_at):
        is_retry = fire.attempt > 0
        places[fire.id] = 2 * next(lines[fire.work.tenant_id, is_retry]) + is_retry
    return places


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
