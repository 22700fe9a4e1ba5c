"""What a job will do next, as its row stands: with its own calendar, jitter and ``max_runs``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from scheduling.core.recurrence import Jitter, Mark, Preview, preview
from scheduling.models.job_clock import JobClock

if TYPE_CHECKING:
    from scheduling.models.job import Job


def preview_job(job: Job, count: int, *, after: datetime | None) -> list[Preview]:
    """See ``Job.preview``."""
    if job._state.adding:
        job.take_stagger()  # as it will when it is saved
    found = preview(
        job.schedule,
        after=JobClock.objects.now() if after is None else after,
        count=count,
        tz=job.tz,
        calendar=None if job.calendar is None else job.calendar.closed_times(),
        jitter=Jitter(job.id, job.jitter) if job.jitter else None,
    )
    return found if job.max_runs is None else _to_the_last_run(found, job.max_runs - job.fired)


def _to_the_last_run(found: list[Preview], runs: int) -> list[Preview]:
    shown: list[Preview] = []
    for entry in found:
        if runs <= 0:
            break
        shown.append(entry)
        runs -= Mark.EXCLUDED not in entry.marks
    return shown
