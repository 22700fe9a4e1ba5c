"""Floods: many jobs at one instant, an hour that has to be made up for, and tenants that are a load to all others.

They belong to tenants whose names begin with ``flood``. That their fires come late is in order; that those of others do
is not, so it is the others who say when such a fault has healed, and whose delay is noted.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import psycopg
from django.db import transaction

from scheduling.core.clock import EPOCH
from scheduling.core.definition import JobDefinition
from scheduling.models import Job
from tests.chaos.deeds import Made
from tests.chaos.load import FAILING, FLOOD, HANGING, MAKING, PATIENT, TASK, Group, make_more
from tests.chaos.monitor import NAME
from tests.chaos.registry import scenario
from tests.chaos.stage import Act

AT_ONCE = 2_000
OUTAGE = timedelta(hours=1)
AFTER_OUTAGE = 300  # jobs, each second: a million occurrences in all
LASTS = timedelta(seconds=4)
AT_MOST = timedelta(seconds=15)  # that the making of those takes
NOISY = Group(FLOOD, "noisy", 100, 0.1)  # a thousand a second; all others together have a tenth of that
SOON: dict[str, Any] = {"max_attempts": 2, "retry_base": timedelta(seconds=0.2), "retry_cap": timedelta(seconds=1)}

DELAYS = """
SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM f.started_at - f.fire_at))
FROM scheduling_fire f JOIN fairness_tenant t ON t.id = f.tenant_id
WHERE f.fire_at BETWEEN %(began)s AND %(ended)s AND f.attempt = 1 AND f.started_at IS NOT NULL
  AND t.slug NOT LIKE 'flood%%'
"""


@scenario("17", "at one instant")
def _at_one_instant(act: Act) -> None:
    at = act.now() + MAKING
    names = [f"instant {at:%H:%M:%S} {number}" for number in range(AT_ONCE)]
    jobs = [JobDefinition.once_job(TASK, at, name=name, end_at=at, **PATIENT) for name in names]
    Job.objects.copy(jobs, tenant=FLOOD)
    act.leaves_database()
    _lasts(act, f"{AT_ONCE} jobs")


@scenario("17", "after an outage")
def _after_an_outage(act: Act) -> None:
    """As nodes find jobs that nobody has looked at for an hour; the newest occurrence of each is to run."""
    start_at = act.now() - OUTAGE
    every = timedelta(seconds=1)
    group = Group(FLOOD, "missed", AFTER_OUTAGE, every.total_seconds(), options={"misfire": "latest"})
    with transaction.atomic():
        jobs = make_more(group, start_at=start_at, end_at=start_at + OUTAGE + AT_MOST + LASTS)
        for job in jobs:  # back to its first one, however long it took to make them all
            assert job.next_scheduled_for is not None  # it has not ended meanwhile
            first = job.next_scheduled_for - (job.next_scheduled_for - start_at) // every * every
            Job.objects.filter(pk=job.pk).update(next_scheduled_for=first, next_fire_at=first)
    act.leaves_database()
    act.deeds.made |= {job.pk: Made(job.schedule, EPOCH) for job in jobs}
    _lasts(act, f"{AFTER_OUTAGE * OUTAGE // timedelta(seconds=1)} occurrences missed")


@scenario("18", "a hundred times as much")
def _a_hundred_times_as_much(act: Act) -> None:
    _flooded(act, NOISY)


@scenario("18", "all fail")
def _all_fail(act: Act) -> None:
    jobs = _flooded(act, Group(FLOOD, "failing", 40, 0.25, task=FAILING, options=SOON))
    act.deeds.may_die((job.pk for job in jobs), "attempts_exhausted")


@scenario("18", "all hang")
def _all_hang(act: Act) -> None:
    """Until their hard timeout ends them, and the process in which they run."""
    jobs = _flooded(act, Group(FLOOD, "hanging", 4, 1.0, task=HANGING, options=SOON | {"hard_timeout_s": 1.0}))
    act.deeds.may_die((job.pk for job in jobs), "attempts_exhausted")


def _flooded(act: Act, group: Group) -> list[Job]:
    start_at = act.now() + MAKING
    jobs = make_more(group, start_at=start_at, end_at=start_at + LASTS)
    act.leaves_database()
    _lasts(act, f"{len(jobs)} jobs")
    return jobs


def _lasts(act: Act, said: str) -> None:
    began = act.now()
    act.leaves_database()
    act.lasts((MAKING + LASTS).total_seconds())
    act.heals()
    act.recovers()
    act.note = f"{said}; of the others 99 % began within {_delay_s(act, began):.2f} s"


def _delay_s(act: Act, began: datetime) -> float:
    """Of the fires of all other tenants that came due meanwhile, and have begun."""
    with psycopg.connect(act.services.postgres.url, autocommit=True, application_name=NAME) as connection:
        ended = began + MAKING + LASTS
        (delay_s,) = connection.execute(DELAYS, {"began": began, "ended": ended}).fetchone() or (None,)
    return float(delay_s or 0.0)
