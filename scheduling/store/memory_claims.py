"""What a claim writes, on the rows of the in-memory store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from scheduling.core.clock import Clock
from scheduling.core.fire import State
from scheduling.core.plans import JobPlan, PlannedRow
from scheduling.store.memory_rows import WAITING, Rows, StoredFire, StoredJob

REVIVED = ("superseded", "paused", "excluded")  # reasons of a skip that a newer schedule undoes


class MemoryClaims:
    """Within the transaction of whoever calls."""

    def __init__(self, rows: Rows, clock: Clock) -> None:
        self._rows, self._clock = rows, clock

    def claim(self, plans: Sequence[JobPlan]) -> dict[UUID, int]:
        """Gives the fences of the fires that are claimed now."""
        fences: dict[UUID, int] = {}
        for plan in plans:
            if (job := self._advanced(plan)) is None:
                continue
            for row in plan.rows:
                fire = self._inserted(row, job)
                if fire is not None and fire.state is State.CLAIMED:
                    fences[fire.id] = fire.fence
            if plan.due.next_scheduled_for is None:
                self._supersede(job, plan.due.job.first_edit)
        return fences

    def _advanced(self, plan: JobPlan) -> StoredJob | None:
        """The plan's job, moved on; None if it is no longer as it was read."""
        due = plan.due
        job = self._rows.jobs.get(due.work.job_id)
        if job is None or job.is_deleted:
            return None
        if (job.version, job.next_scheduled_for) != (due.job.version, due.next_scheduled_for):
            return None
        runs = [row for row in plan.rows if row.state is not State.SKIPPED]
        job.fired += sum(not job.is_paused_at(row.fire.scheduled_for) for row in runs)
        is_over = job.max_runs is not None and job.fired >= job.max_runs
        job.next_scheduled_for = None if is_over else plan.next_scheduled_for
        job.next_fire_at = None if is_over else plan.next_fire_at
        job.problem, job.superseded = plan.problem, ()
        return job

    def _inserted(self, row: PlannedRow, job: StoredJob) -> StoredFire | None:
        """The row as it is now; None if an earlier one of the same occurrence stays as it is."""
        planned = row.fire
        old = self._rows.fires.get(planned.id)
        if old is not None and not _gives_way(old, job):
            return None
        state, reason = row.state, row.reason
        if job.is_paused_at(planned.scheduled_for) and reason not in ("excluded", "superseded"):
            state, reason = State.SKIPPED, "paused"
        fire = StoredFire(
            work=planned.work,
            id=planned.id,
            scheduled_for=planned.scheduled_for,
            fire_at=planned.fire_at,
            version=job.version,
            state=state,
            reason=reason,
            fence=1 if old is None else old.fence + 1,
            max_attempts=job.max_attempts if old is None else old.max_attempts,
            number=(planned.epoch, planned.seq) if planned.seq else None,
            claimed_at=self._clock.monotonic(),
            covers=row.covers,
            covers_to=row.covers_to,
            wake_at=row.wake_at,
            nominal=row.nominal_text,
            skipped_at=self._clock.now() if state is State.SKIPPED else None,
        )
        self._rows.fires[fire.id] = fire
        return fire

    def _supersede(self, job: StoredJob, first_edit: datetime) -> None:
        """What an older schedule had claimed ahead of the first edit, and the new one has not, is to run no more."""
        for fire in self._rows.fires.values():
            is_of_it = fire.work.job_id == job.work.job_id and not fire.origin and not fire.attempt
            if is_of_it and fire.version < job.version and fire.scheduled_for > first_edit and self._ends(fire):
                fire.state, fire.reason, fire.wake_at = State.SKIPPED, "superseded", None

    def _ends(self, fire: StoredFire) -> bool:
        if fire.state is State.CLAIMED:
            return fire.work.task in self._rows.guarded  # what a plain Celery task was sent stays sent
        return fire.state in WAITING or (fire.state, fire.reason) == (State.SKIPPED, "paused")


def _gives_way(old: StoredFire, job: StoredJob) -> bool:
    """Whether a row that an older schedule left is taken over: not if it started, or a person cancelled it."""
    if old.attempt or old.version >= job.version:
        return False
    if old.state is State.SKIPPED:
        return old.reason in REVIVED
    return old.state in (State.CLAIMED, State.PARKED, State.RETRY_WAIT)
