"""The end of pauses, on the rows of the in-memory store: what ``pauses.sql`` does on Postgres's."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from scheduling.core.fire import CatchUp, State
from scheduling.store.memory_rows import Rows, StoredFire, StoredJob


def end_those_over(rows: Rows, shards: Collection[int], *, now: datetime) -> int:
    """End the pauses that are over, and whose every occurrence has its row; gives how many."""
    over = [job for job in rows.jobs.values() if job.work.shard in shards and _is_over(job, now)]
    for job in over:
        _end(rows, job, now)
    return len(over)


def _is_over(job: StoredJob, now: datetime) -> bool:
    if job.paused_at is None or job.is_deleted or job.paused_until > now:
        return False
    return job.next_fire_at is None or job.next_fire_at >= job.paused_until


def _end(rows: Rows, job: StoredJob, now: datetime) -> None:
    fires = [fire for fire in rows.fires.values() if fire.work.job_id == job.work.job_id and _is_of_pause(fire, job)]
    fires.sort(key=lambda fire: (fire.scheduled_for, fire.id))
    back = _caught_up([fire for fire in fires if fire.fire_at < job.paused_until], job, now)
    back += [fire for fire in fires if fire.fire_at >= job.paused_until]
    back.sort(key=lambda fire: (fire.scheduled_for, fire.id))
    if job.max_runs is not None:
        back = back[: max(0, job.max_runs - job.fired)]
    for fire in back:
        fire.fire_at = fire.wake_at = max(fire.fire_at, now)
        fire.state, fire.reason, fire.fence = State.RETRY_WAIT, "resumed", fire.fence + 1
        fire.number, fire.confirmed, fire.skipped_at = None, False, None
    job.fired += len(back)
    job.resume()
    if job.max_runs is not None and job.fired >= job.max_runs:
        job.next_scheduled_for = job.next_fire_at = None


def _is_of_pause(fire: StoredFire, job: StoredJob) -> bool:
    """Whether this pause has taken it; what stands for several occurrences stays as it is."""
    if fire.origin or fire.attempt or fire.covers > 1 or (fire.state, fire.reason) != (State.SKIPPED, "paused"):
        return False
    if job.paused_at is None or fire.skipped_at is None or fire.skipped_at < job.paused_at:
        return False
    return job.paused_at - fire.scheduled_for <= job.work.catch_up_window


def _caught_up(fires: list[StoredFire], job: StoredJob, now: datetime) -> list[StoredFire]:
    match job.catch_up:
        case CatchUp.NONE:
            return []
        case CatchUp.LATEST:
            return fires[-1:]
        case CatchUp.ALL:
            within = [fire for fire in fires if now - fire.scheduled_for <= job.work.catch_up_window]
            return within[-job.work.catch_up_limit :]
