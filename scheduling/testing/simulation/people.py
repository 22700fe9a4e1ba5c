"""What people do while all runs: on the rows in memory, what the services and the triggers do in Postgres.

Each is one transaction, as theirs is; a commit hint follows, which may be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from scheduling.core.clock import MICROSECOND
from scheduling.core.due import FOR_EVER, Superseded
from scheduling.core.fire import CatchUp, State
from scheduling.core.identity import fire_id
from scheduling.store.memory_pauses import end_those_over
from scheduling.store.memory_rows import Rows, StoredFire, StoredJob
from scheduling.testing.simulation.faults import Fault, Faults
from scheduling.testing.simulation.jobs import Chronicle, drawn_jitter, drawn_schedule
from scheduling.testing.simulation.world import World

EVERY_S = 0.33
CALLED_OFF = "somebody called it off"
UNSTARTED = (State.CLAIMED, State.PARKED, State.RETRY_WAIT)


class People:
    """``on_change`` is told the shard of what somebody changed."""

    def __init__(
        self,
        world: World,
        faults: Faults,
        rows: Rows,
        chronicles: dict[UUID, Chronicle],
        *,
        until: datetime,
        on_change: Callable[[int], None],
    ) -> None:
        self._world, self._faults, self._rows, self._chronicles = world, faults, rows, chronicles
        self._until, self._on_change = until, on_change
        self._requests = 0

    def start(self) -> None:
        self._world.after(EVERY_S, self._act)

    def _act(self) -> None:
        random = self._world.random
        jobs = [job for job in self._rows.jobs.values() if not job.is_deleted]
        if jobs and self._faults.strikes(Fault.PEOPLE):
            job = random.choice(jobs)
            deeds = [self._pause, self._pause, self._resume, self._resume, self._edit, self._edit, self._run_now]
            deed = random.choice([*deeds, self._run_now, self._cancel, self._delete])
            self._world.note("people", deed.__name__, job.work.name)
            deed(job, self._world.clock.now())
            if random.random() < 0.7:
                self._on_change(job.work.shard)
        self._world.after(EVERY_S, self._act)

    def settle_down(self) -> None:
        """Nothing stays paused for ever: what a pause holds is no sign of a fault."""
        for job in self._rows.jobs.values():
            if job.paused_at is not None and not job.is_deleted:
                self._resume(job, self._world.clock.now())

    def _pause(self, job: StoredJob, now: datetime) -> None:
        random = self._world.random
        job.paused_at = job.paused_at or now
        job.paused_until = FOR_EVER if random.random() < 0.5 else now + timedelta(seconds=random.uniform(0.1, 4))
        job.catch_up = random.choice(list(CatchUp))
        acquires = self._acquires(job)
        for fire in self._fires_of(job):
            if not (fire.origin or fire.attempt) and fire.state in UNSTARTED and self._is_taken(fire, acquires):
                fire.state, fire.reason, fire.wake_at, fire.skipped_at = State.SKIPPED, "paused", None, now

    def _resume(self, job: StoredJob, now: datetime) -> None:
        if job.paused_at is not None:
            job.paused_until, job.catch_up = min(job.paused_until, now), self._world.random.choice(list(CatchUp))
            end_those_over(self._rows, {job.work.shard}, now=now)

    def _edit(self, job: StoredJob, now: datetime) -> None:
        """As the trigger on jobs does."""
        is_waited_for = [at for at in (job.next_fire_at, job.next_scheduled_for) if at is not None and at <= now]
        if is_waited_for:
            after = job.changed_at if job.next_scheduled_for is None else job.next_scheduled_for - MICROSECOND
            job.superseded = (*job.superseded, Superseded(job.schedule, job.jitter, after, now))
        if self._world.random.random() < 0.5:
            job.schedule = drawn_schedule(self._world.random, self._until)
        else:
            job.jitter = drawn_jitter(self._world.random)
        job.version, job.changed_at, job.problem = job.version + 1, now, ""
        job.next_scheduled_for, job.next_fire_at = None, now
        self._chronicles[job.work.job_id].schedules.append((now, job.schedule))

    def _delete(self, job: StoredJob, now: datetime) -> None:
        """Softly: it has fires, or soon had."""
        self._chronicles[job.work.job_id].ends_at = _rows_up_to(job, now)
        acquires = self._acquires(job)
        for fire in self._fires_of(job):
            if fire.state in UNSTARTED and self._is_taken(fire, acquires):
                self._call_off(fire)
        job.is_deleted, job.next_scheduled_for, job.next_fire_at = True, None, None
        job.resume()

    def _cancel(self, job: StoredJob, now: datetime) -> None:  # noqa: ARG002  (one of many deeds)
        """All that it has; what runs is asked to stop."""
        acquires = self._acquires(job)
        for fire in self._fires_of(job):
            if fire.state is State.RUNNING:
                fire.cancel_reason = CALLED_OFF
            elif fire.state in UNSTARTED and self._is_taken(fire, acquires):
                self._call_off(fire)

    def _call_off(self, fire: StoredFire) -> None:
        fire.state = State.DEAD if fire.attempt else State.SKIPPED
        fire.reason, fire.wake_at = "cancelled", None
        if fire.state is State.DEAD:
            self._rows.died(fire, error=CALLED_OFF)

    def _run_now(self, job: StoredJob, now: datetime) -> None:
        self._requests += 1
        origin = f"manual:{self._requests}"
        fire = StoredFire(
            work=job.work,
            id=fire_id(job.work.job_id, now, origin),
            scheduled_for=now,
            fire_at=now,
            origin=origin,
            version=job.version,
            state=State.RETRY_WAIT,
            reason="run_now",
            max_attempts=job.max_attempts,
            wake_at=now,
        )
        self._rows.fires[fire.id] = fire

    def _fires_of(self, job: StoredJob) -> list[StoredFire]:
        return [fire for fire in self._rows.fires.values() if fire.work.job_id == job.work.job_id]

    def _acquires(self, job: StoredJob) -> bool:
        """Whether a worker has acquired some fire of the job: else it may be a plain Celery task, which never does."""
        return any(fire.attempt > 0 for fire in self._fires_of(job))

    def _is_taken(self, fire: StoredFire, acquires: bool) -> bool:
        return fire.state is not State.CLAIMED or acquires or self._rows.is_beyond(fire)


def _rows_up_to(job: StoredJob, now: datetime) -> datetime:
    """The instant up to which its occurrences have rows."""
    if job.next_scheduled_for is not None:
        return job.next_scheduled_for - MICROSECOND
    if job.superseded and job.superseded[0].after is not None:
        return job.superseded[0].after
    return now if job.next_fire_at is None else job.changed_at
