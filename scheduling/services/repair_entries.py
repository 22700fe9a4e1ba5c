"""After a partial restore: jobs whose row says that an entry holds their next occurrence, where none does.

Such a job would never fire, and nothing would say so. It goes back to its row, planned from the last occurrence of
which the ledger knows: what came due since is caught up with by its misfire policy, as after an outage. Nodes do not
look for such jobs, because the look compares all jobs with all entries: a person asks, after a restore. They may run
meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, QuerySet, Subquery

from scheduling.core.errors import InvalidField
from scheduling.models import Entry, Fire, Job, JobClock
from scheduling.models.job_planning import first_fire

logger = logging.getLogger(__name__)
CHUNK = 1_000
ROUND = 100_000
EXAMPLES = 10
WRITTEN = ["next_scheduled_for", "next_fire_at", "problem", "in_bucket"]


@dataclass(slots=True)
class Repaired:
    """How many jobs went back to their rows; ``put_aside`` of them for a schedule that cannot be read. ``examples`` are
    the names of the first.
    """

    jobs: int = 0
    put_aside: int = 0
    examples: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if not self.jobs:
            return "every job of the buckets has its entry"
        more = ", …" if self.jobs > len(self.examples) else ""
        return (
            f"{self.jobs} jobs had no entry and are back in their rows, {self.put_aside} of them put aside: "
            f"{', '.join(self.examples)}{more}"
        )


def repair_entries() -> Repaired:
    """Put them back to their rows; says so in the log, in one line."""
    done = Repaired()
    while found := _found():
        for start in range(0, len(found), CHUNK):
            _repair(done, found[start : start + CHUNK])
    if done.jobs:
        logger.warning("%s", done)
    return done


def _without_entry() -> QuerySet[Job]:
    """An entry of another version does not hold. A job that was edited is due in its row, to be planned anew."""
    own = Entry.objects.filter(job_id=OuterRef("pk"), schedule_version=OuterRef("schedule_version"))
    return Job.objects.filter(~Exists(own), in_bucket=True, next_fire_at=None, deleted_at=None).order_by()


@transaction.atomic
def _found() -> list[UUID]:
    """At most ``ROUND`` of them. Jobs against entries by one hash: looked up one by one, each costs 65 looks."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_nestloop = off")
    return list(_without_entry().values_list("pk", flat=True)[:ROUND])


@transaction.atomic
def _repair(done: Repaired, job_ids: Collection[UUID]) -> None:
    """Locks the jobs, then looks again: the second statement sees what a claim or another repair did meanwhile."""
    list(Job.objects.select_for_update(no_key=True).filter(pk__in=job_ids).order_by("pk").values_list("pk"))
    fires = Fire.objects.filter(job=OuterRef("pk"), schedule_version__gte=OuterRef("schedule_version"), origin="")
    newest = fires.order_by("-scheduled_for").values("scheduled_for")[:1]
    jobs = list(_without_entry().filter(pk__in=job_ids).annotate(last=Subquery(newest)).select_related("tenant"))
    now = JobClock.objects.now()
    for job in jobs:
        _plan(job, now)
    Job.objects.bulk_update(jobs, WRITTEN)
    done.jobs += len(jobs)
    done.put_aside += sum(bool(job.problem) for job in jobs)
    done.examples += [f"{job.tenant.slug}/{job.name or job.pk}" for job in jobs[: EXAMPLES - len(done.examples)]]


def _plan(job: Any, now: datetime) -> None:
    """A job with ``last``. What is older than the tenant's history had its row, which is gone."""
    history_begins = now - timedelta(days=job.tenant.history_days)
    after = max(job.schedule_changed_at, history_begins, job.last or history_begins)
    job.in_bucket = False
    try:
        at = job.schedule.next_after(after)
        job.next_scheduled_for = at
        job.next_fire_at = None if at is None else first_fire(job.schedule, job.pk, job.jitter, at)
    except InvalidField as problem:
        job.problem = str(problem)
