"""Sets the stage: tables, the job clock standing still, jobs, a login; and starts the clock when everybody is there.

Jobs are imported while job time stands still at its origin: so their first occurrences lie after it, and none of them
is late before it begins.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from math import isclose
from pathlib import Path

from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.db.models import F
from django.utils import timezone

from fairness.models import Tenant, TenantQueue
from fairness.queues import QueuePlan
from project.demo.database import MARK
from project.demo.options import OWN_JOBS, Options
from scheduling.core.errors import FairbeatError
from scheduling.core.fire import Lane
from scheduling.models import Job, JobClock
from scheduling.services.import_jobs import Change, Verdict, import_jobs

TASK = "project.demo.tasks.effect"
USER = "demo"
WEIGHTS = {"acme": 3.0, "bakery": 1.0}
RATES = {"acme": 100.0, "bakery": 100.0, "drones": 10.0}  # fires a second of job time, more than their jobs ask for:
# nothing is held until somebody lowers one. Without any, nodes of stop 3 would not count what these are served.
SOON_S = 1.5  # real seconds to the start of the clock: a node learns of it at its next renewal


class NoJobs(FairbeatError):
    """Not one line of the file could be imported."""


class NoTables(FairbeatError):
    """The database refused the tables."""


def make_tables(*, empty_first: bool) -> None:
    """Migrate; ``empty_first`` empties what an earlier demo left. Raises NoTables."""
    try:
        call_command("migrate", verbosity=0, interactive=False)
        if empty_first:
            call_command("flush", verbosity=0, interactive=False)
        with connection.cursor() as cursor:
            cursor.execute(f"COMMENT ON TABLE demo_effect IS '{MARK}'")
    except DatabaseError as problem:
        raise NoTables(f"the demo's tables cannot be made in the database: {problem}") from problem


def set_clock(options: Options) -> JobClock:
    """Job time stands at the present second, or, in a time-lapse, at the beginning of today (UTC)."""
    JobClock.objects.all().delete()
    origin = JobClock.objects.now().replace(microsecond=0)
    if not isclose(options.speed, 1):
        origin = origin.replace(hour=0, minute=0, second=0)
    return JobClock.objects.create(job_origin=origin, speed=options.speed)


def bring_jobs(file: Path) -> list[Verdict]:
    """Import the file; returns the verdicts on the lines that were refused. Raises NoJobs."""
    verdicts = import_jobs(file.read_bytes().split(b"\n"), default_task=TASK)
    refused = [verdict for verdict in verdicts if verdict.change is Change.REFUSED]
    if len(refused) == len(verdicts):
        raise NoJobs(f"JOBS {str(file)!r}: there is no job in it" + (f"; {refused[0]}" if refused else ""))
    return refused


def give_terms(options: Options) -> None:
    """Weights and rates, to tenants of the demo's own jobs."""
    if options.jobs != OWN_JOBS:
        return
    for tenant in Tenant.objects.filter(slug__in={*WEIGHTS, *RATES}):
        tenant.weight = WEIGHTS.get(tenant.slug, tenant.weight)
        tenant.rate_per_s = RATES[tenant.slug] * max(1.0, options.speed)
        tenant.burst = round(tenant.rate_per_s)
        tenant.save()


def a_job() -> str:
    """One to ask about, as TENANT/NAME: of the tenant with the lowest rate, if any has one, the densest."""
    first = (F("tenant__rate_per_s").asc(nulls_last=True), F("every").asc(nulls_last=True), "pk")
    job = Job.objects.select_related("tenant").order_by(*first)[0]
    return f"{job.tenant}/{job.name}"


def put_queues_in_use(plan: QueuePlan, *, limit: int) -> set[str]:
    """All tenants' own, as far as there may be: so no first fire waits until the worker has found its queue. Returns
    their names.
    """
    now = timezone.now()
    rows = [
        TenantQueue(name=plan.queue_name(tenant.slug, lane), tenant=tenant, lane=lane, made_at=now, used_at=now)
        for tenant in Tenant.objects.order_by("pk")
        for lane in Lane
    ]
    TenantQueue.objects.all().delete()  # of a demo before, on this database
    TenantQueue.objects.bulk_create(rows[:limit])
    return {row.name for row in rows[:limit]}


def make_login() -> str:
    """An account for the admin, made for this run; returns its password."""
    password = secrets.token_urlsafe(6)
    User.objects.filter(username=USER).delete()
    User.objects.create_superuser(USER, password=password)
    return password


def start_clock(options: Options) -> datetime:
    """Let job time begin in ``SOON_S``; returns the job time at which it ends (after ``options.seconds``, if given)."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduling_jobclock"
            " SET real_origin = clock_timestamp() + %s * interval '1 second', stops_after_s = %s",
            [SOON_S, options.seconds],
        )
    clock = JobClock.objects.get()
    if options.seconds is None:
        return datetime.max.replace(tzinfo=clock.job_origin.tzinfo)
    return clock.job_origin + timedelta(seconds=options.seconds * options.speed)
