"""What is probably not meant, over all jobs, read as a stream: a million take no more memory than a thousand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence import lint
from scheduling.models import Job, JobClock
from scheduling.models.job import SCHEDULE_COLUMNS

BROKEN = "broken"
CHUNK = 2_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One doubt about one job; ``doubt`` is a ``Doubt``, or ``broken`` for a job that cannot be scheduled at all."""

    tenant: str
    name: str
    job: str  # its id
    doubt: str
    reason: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name or self.job}: {self.doubt}: {self.reason}"


def lint_jobs() -> Iterator[Finding]:
    """The findings of every job that is not deleted, in the order in which the jobs were made."""
    now = JobClock.objects.now()
    jobs = Job.objects.filter(deleted_at=None).select_related("tenant").order_by("pk")
    for job in jobs.only("name", "problem", "tenant__slug", "tenant__rate_per_s", *SCHEDULE_COLUMNS).iterator(CHUNK):
        try:
            cautions = lint(job.schedule, now=now, rate_per_s=job.tenant.rate_per_s)
            found = [(str(caution.doubt), caution.reason) for caution in cautions]
        except InvalidField as problem:
            found = [(BROKEN, str(problem))]
        else:
            found += [(BROKEN, job.problem)] if job.problem else []
        yield from (Finding(job.tenant.slug, job.name, str(job.pk), doubt, reason) for doubt, reason in found)
