"""Backfill: run a job for occurrences of the past, as its schedule is now. First count them, then make them.

Each gets a fire of its own, with the origin ``backfill:<request>``, beside the one that the schedule may have had; the
schedule does not move, and ``max_runs`` does not count them. Occurrences that the calendar excludes are left out, and
told. They go out in order, ``rate_per_s`` in a real second (a rate protects the workers, and they live in real time),
and expire, where the job's fires do, counted from when each is to go out. A paused job's backfill runs: a person asked.

Of a day beyond the tenant's history the fires are dropped again soon after they have ended.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID, uuid4

from django.db import DEFAULT_DB_ALIAS, connections

from scheduling.core.clock import MICROSECOND
from scheduling.core.errors import InvalidField
from scheduling.core.fire import OverlapPolicy
from scheduling.core.recurrence import count_between, occurrences
from scheduling.core.recurrence.schedule import option, utc
from scheduling.models import Job, JobClock
from scheduling.models.hints import hint_due
from scheduling.services.session import BY_LIMIT, REQUEST_LIMIT, in_transaction, locked, said
from scheduling.store.asked_fires import Asked, ask
from scheduling.store.partitions import day_of, ensure

logger = logging.getLogger(__name__)
MOST = 10_000  # occurrences
MOST_DAYS = 366  # each is a partition of the ledger


class BackfillOverlap(StrEnum):
    ONE_AT_A_TIME = "one_at_a_time"
    ALLOW = "allow"  # where the job's own policy does


DEFAULT_RATE_PER_S = 5.0
LEAST_PER_S = 0.001
MOST_PER_S = {BackfillOverlap.ONE_AT_A_TIME: 10.0, BackfillOverlap.ALLOW: 1_000.0}


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """What a backfill would make, from ``start`` to ``until``, both included. ``excluded`` is how many occurrences the
    calendar takes away.
    """

    start: datetime
    until: datetime
    occurrences: tuple[datetime, ...]
    excluded: int

    @property
    def count(self) -> int:
        return len(self.occurrences)


@dataclass(frozen=True, slots=True)
class Backfilled:
    """``made``: how many fires are new; fewer than planned if the same request was made before."""

    origin: str
    made: int
    plan: BackfillPlan


def plan_backfill(job: Job, *, start: datetime, until: datetime, using: str = DEFAULT_DB_ALIAS) -> BackfillPlan:
    """Count the occurrences of a job from ``start`` to ``until`` (aware), without those after now (job time): the
    schedule fires them itself.

    Raises InvalidField: a naive moment, ``until`` before ``start``, ``start`` in the future, a range of over
    ``MOST_DAYS`` days or ``MOST`` occurrences, a schedule that cannot be read.
    """
    now = JobClock.objects.db_manager(using).now()
    start, until = utc("start", start), min(utc("until", until), now)
    if start > now:
        raise InvalidField("start", start.isoformat(), f"is in the future: it is {now.isoformat()}")
    if until < start:
        raise InvalidField("until", until.isoformat(), f"is before the start, {start.isoformat()}")
    if until - start > timedelta(days=MOST_DAYS):
        raise InvalidField(
            "until", until.isoformat(), f"is more than {MOST_DAYS} days after the start; take less at once"
        )
    after, schedule = start - MICROSECOND, job.schedule
    if (count := count_between(schedule, after=after, until=until)) > MOST:
        raise InvalidField(
            "until", until.isoformat(), f"makes {count:,} occurrences, more than {MOST:,}; take less at once"
        )
    found = tuple(occurrences(schedule, after=after, until=until))
    calendar = None if job.calendar is None else job.calendar.closed_times()
    open_ = tuple(at for at in found if calendar is None or not calendar.excludes(at))
    return BackfillPlan(start, until, open_, len(found) - len(open_))


def backfill(
    job: Job,
    *,
    start: datetime,
    until: datetime,
    by: str,
    overlap: BackfillOverlap | str = BackfillOverlap.ONE_AT_A_TIME,
    rate_per_s: float = DEFAULT_RATE_PER_S,
    request: UUID | str | None = None,
    using: str = DEFAULT_DB_ALIAS,
) -> Backfilled:
    """Make what ``plan_backfill`` counts, in one transaction. The same ``request`` once more makes nothing twice.

    Raises InvalidField: as ``plan_backfill``, and for ``job`` (deleted), ``by``, ``overlap`` (the job's own policy does
    not allow it), ``rate_per_s``, ``request``.
    """
    who = said("by", by, limit=BY_LIMIT)
    turns = option("overlap", BackfillOverlap, overlap)
    _check_rate(rate_per_s, turns)
    origin = f"backfill:{uuid4().hex if request is None else said('request', str(request), limit=REQUEST_LIMIT)}"

    _make_days(job, start, until, using)
    with in_transaction(using) as connection:
        [found] = locked([job.pk], using=using)
        if turns is BackfillOverlap.ALLOW and found.overlap != OverlapPolicy.ALLOW:
            raise InvalidField(
                "overlap", str(turns), f"runs of this job may not overlap: its policy is {found.overlap}"
            )
        plan = plan_backfill(found, start=start, until=until, using=using)
        fires = _staggered(found, plan, rate_per_s, using)
        exclusive = turns is BackfillOverlap.ONE_AT_A_TIME
        made = ask(connection, fires, origin=origin, reason="backfill", exclusive=exclusive)
        if fires:
            hint_due(found.shard_id, fires[0].fire_at, now=fires[0].fire_at, using=using)
    logger.info("%s backfilled %s with %d fires, as %s", who, job, made, origin)
    return Backfilled(origin, made, plan)


def _check_rate(rate_per_s: float, turns: BackfillOverlap) -> None:
    """Where runs wait for one another, each look at the line counts it: so fewer may join it in a second."""
    most = MOST_PER_S[turns]
    if not isinstance(rate_per_s, int | float) or isinstance(rate_per_s, bool) or not LEAST_PER_S <= rate_per_s <= most:
        raise InvalidField("rate_per_s", rate_per_s, f"is not a number from {LEAST_PER_S:g} to {most:g} ({turns})")


def _make_days(job: Job, start: datetime, until: datetime, using: str) -> None:
    """Each day in a transaction of its own, so that no node waits until all of them are there."""
    plan = plan_backfill(job, start=start, until=until, using=using)
    connections[using].ensure_connection()
    with connections[using].wrap_database_errors:
        ensure(connections[using].connection, [day_of(job.tenant.history_days, at) for at in plan.occurrences])


def _staggered(job: Job, plan: BackfillPlan, rate_per_s: float, using: str) -> list[Asked]:
    """In order, so many in a real second, from now on."""
    clock = JobClock.objects.using(using).first()
    now = JobClock.objects.db_manager(using).now()
    step = timedelta(seconds=(1.0 if clock is None else clock.speed) / rate_per_s)
    return [Asked(job.pk, job.tenant.history_days, at, now + step * place) for place, at in enumerate(plan.occurrences)]
