"""Run jobs now: a fire of its own beside the schedule, which it never moves.

It runs though the job is paused or finished, and waits its turn where runs may not overlap. Its origin is
``manual:<request>``: asking twice with one request runs once, for as long as the first one's history is kept.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from django.db import DEFAULT_DB_ALIAS

from scheduling.core.identity import fire_id
from scheduling.models import Fire, Job, JobClock
from scheduling.models.hints import hint_due
from scheduling.services.session import BY_LIMIT, REQUEST_LIMIT, Jobs, ids_of, in_transaction, locked, said
from scheduling.store.asked_fires import Asked, ask

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Started:
    """One job's manual fire. ``is_new``: this call made it, and not an earlier one with the same request."""

    job_id: UUID
    fire_id: UUID
    scheduled_for: datetime
    is_new: bool


def run_now(jobs: Jobs, *, by: str, request: UUID | str | None = None, using: str = DEFAULT_DB_ALIAS) -> list[Started]:
    """Make a fire for each of these jobs, due now (job time), in one transaction; in the order of the jobs' ids.

    Raises InvalidField: a ``job`` that was deleted, ``by`` or ``request`` empty or too long.
    """
    who = said("by", by, limit=BY_LIMIT)
    origin = f"manual:{uuid4().hex if request is None else said('request', str(request), limit=REQUEST_LIMIT)}"
    with in_transaction(using) as connection:
        found = locked(ids_of(jobs), using=using)
        now = JobClock.objects.db_manager(using).now()
        earlier = {} if request is None else _earlier(found, origin, using)
        fresh = [job for job in found if job.pk not in earlier]
        ask(
            connection,
            [Asked(job.pk, job.tenant.history_days, now, now) for job in fresh],
            origin=origin,
            reason="run_now",
        )
        for shard in {job.shard_id for job in fresh}:
            hint_due(shard, now, now=now, using=using)
    logger.info("%s ran %d jobs now, as %s", who, len(fresh), origin)
    return [earlier.get(job.pk) or Started(job.pk, fire_id(job.pk, now, origin), now, True) for job in found]


def _earlier(jobs: Iterable[Job], origin: str, using: str) -> dict[UUID, Started]:
    fires = Fire.objects.using(using).filter(job__in=jobs, origin=origin).order_by()
    rows = fires.values_list("job_id", "id", "scheduled_for")
    return {job: Started(job, fire, scheduled_for, False) for job, fire, scheduled_for in rows}
