"""The demo's task: it writes one row, in one transaction with its own completion."""

from __future__ import annotations

from project.demo.models import Effect
from scheduling import current_job, job


@job
def effect(*_args: object, **_kwargs: object) -> None:
    fire = current_job()
    with fire.commit():
        Effect.objects.create(fire_id=fire.fire_id, job_id=fire.job_id, attempt=fire.attempt, fence=fire.fence)
