"""Overlaps, on the rows of the in-memory store: what is ahead of a fire, and who is asked to stop for it."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from scheduling.core.fire import Fire, State
from scheduling.core.overlap import NEWER_IS_DUE, Predecessors, gives_way
from scheduling.store.memory_rows import Rows, StoredFire


def predecessors(rows: Rows, fires: Iterable[Fire]) -> dict[UUID, Predecessors]:
    """A fire with nothing to count is left out."""
    counts = {fire.id: _ahead(fire, of_job(rows, fire.work.job_id)) for fire in fires}
    return {fire: count for fire, count in counts.items() if count.ahead or count.newer}


def of_job(rows: Rows, job_id: UUID) -> list[StoredFire]:
    """Its unfinished fires that may not overlap."""
    return [
        fire for fire in rows.fires.values() if fire.work.job_id == job_id and fire.is_exclusive and fire.is_unfinished
    ]


def cancel_running(rows: Rows, newest: Iterable[Fire]) -> list[StoredFire]:
    """What has begun before these is to stop; gives what gets no retry."""
    died = []
    for held in newest:
        for fire in of_job(rows, held.work.job_id):
            if _has_begun(fire, held):
                fire.cancel_reason = NEWER_IS_DUE
                if fire.state is not State.RUNNING:
                    fire.state, fire.reason, fire.wake_at = State.DEAD, "cancelled", None
                    rows.died(fire, error=NEWER_IS_DUE)
                    died.append(fire)
    return died


def wake_next(rows: Rows, job_id: UUID) -> StoredFire | None:
    """The first of the job's fires that waits for its turn; None where none does."""
    waiting = [fire for fire in of_job(rows, job_id) if (fire.state, fire.reason) == (State.PARKED, "overlap")]
    return min(waiting, key=lambda fire: (fire.scheduled_for, fire.id), default=None)


def _ahead(held: Fire, unfinished: Iterable[StoredFire]) -> Predecessors:
    others = [fire for fire in unfinished if fire.id != held.id]
    ahead = [fire for fire in others if fire.state is State.RUNNING or _is_before(fire, held)]
    queued = sum(1 for fire in ahead if fire.state is not State.RUNNING and not (fire.origin or fire.attempt))
    if not gives_way(held):
        return Predecessors(len(ahead), queued)
    begun = sum(1 for fire in ahead if _has_begun(fire, held))
    newer = sum(
        1
        for fire in others
        if fire not in ahead
        and (fire.state, fire.reason) == (State.PARKED, "overlap")
        and not (fire.origin or fire.attempt)
    )
    return Predecessors(len(ahead), queued, begun, newer)


def _is_before(fire: StoredFire, held: Fire) -> bool:
    return (fire.scheduled_for, fire.id) < (held.scheduled_for, held.id)


def _has_begun(fire: StoredFire, held: Fire) -> bool:
    """One of the schedule's own, before ``held``, that is not asked to stop yet. (What a person redrives is his.)"""
    if fire.origin or fire.cancel_reason or not _is_before(fire, held):
        return False
    is_retried = fire.state is State.RETRY_WAIT and fire.attempt > 0 and fire.reason != "redriven"
    return fire.state is State.RUNNING or is_retried
