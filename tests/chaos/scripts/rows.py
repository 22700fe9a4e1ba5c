"""Rows of jobs that nothing can be made of: put aside, or dead letters, and their shards go on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg

from scheduling.models import Job
from tests.chaos.evidence import made
from tests.chaos.load import MAKING, Group, make_more
from tests.chaos.monitor import NAME
from tests.chaos.registry import scenario
from tests.chaos.stage import Act

LASTS = timedelta(seconds=4)
SOON: dict[str, Any] = {"max_attempts": 2, "retry_base": timedelta(seconds=0.2), "retry_cap": timedelta(seconds=1)}
OVERSIZED = 1024 * 1024  # bytes; those who make jobs by the front door are refused at a quarter of it

WRITE = """
UPDATE scheduling_job SET kind = %(kind)s, cron = %(cron)s, rrule = %(rrule)s, tz = %(tz)s
WHERE id = %(id)s RETURNING schedule_changed_at
"""
WHOLE = {"kind": "cron", "cron": "* * * * * *", "rrule": "", "tz": "UTC"}
BROKEN = (
    WHOLE | {"cron": "61 * * * * *"},
    WHOLE | {"cron": "whenever it rains"},
    WHOLE | {"tz": "Mars/Olympus_Mons"},
    WHOLE | {"kind": "rrule", "cron": "", "rrule": "FREQ=NEVER"},
    WHOLE | {"kind": "rrule", "cron": "", "rrule": "FREQ=SECONDLY"},
    WHOLE | {"cron": "0 0 0 30 2 *"},
)


@scenario("21", "schedules")
def _bad_schedules(act: Act) -> None:
    """Broken by somebody who writes to the table himself; and half of them are mended the same way."""
    jobs = _make(act, Group("city", "broken", 2 * len(BROKEN), 0))
    whole = {job.pk: made(job) for job in jobs}
    act.deeds.made |= whole
    with psycopg.connect(act.services.postgres.url, autocommit=True, application_name=NAME) as connection:
        act.lasts(MAKING.total_seconds() + 1.0)
        for number, job in enumerate(jobs):
            at = _write(connection, job, BROKEN[number % len(BROKEN)])
            act.deeds.edited(job.pk, None, at=at)
        act.lasts(1.5)
        for job in jobs[::2]:
            at = _write(connection, job, WHOLE)
            act.deeds.edited(job.pk, whole[job.pk].schedule, at=at)
    act.lasts(1.0)
    act.heals()
    act.recovers()


def _write(connection: psycopg.Connection, job: Job, said: dict[str, str]) -> Any:
    (at,) = connection.execute(WRITE, said | {"id": job.pk}).fetchone() or (None,)
    return at


@scenario("21", "tasks")
def _unknown_tasks(act: Act) -> None:
    jobs = _make(act, Group("bakery", "unknown", 5, 1.0, task="tests.chaos.tasks.nobody_wrote_this"))
    act.deeds.may_die((job.pk for job in jobs), "unknown_task")
    act.lasts(LASTS.total_seconds())
    act.heals()
    act.recovers()


@scenario("21", "arguments")
def _arguments(act: Act) -> None:
    """Some are more than a job may have; some are none that the task takes."""
    oversized = _make(act, Group("bakery", "oversized", 4, 1.0))
    wrong = _make(act, Group("acme", "wrong arguments", 4, 1.0, options={"kwargs": {"colour": "green"}, **SOON}))
    with psycopg.connect(act.services.postgres.url, autocommit=True, application_name=NAME) as connection:
        connection.execute(
            "UPDATE scheduling_job SET kwargs = jsonb_build_object('ballast', repeat('x', %s)) WHERE id = ANY (%s)",
            [OVERSIZED, [job.pk for job in oversized]],
        )
    act.deeds.may_die((job.pk for job in wrong), "attempts_exhausted")
    act.lasts(LASTS.total_seconds())
    act.heals()
    act.recovers()


def _make(act: Act, group: Group) -> list[Job]:
    start_at = act.now() + MAKING
    jobs = make_more(group, start_at=start_at, end_at=start_at + LASTS)
    act.leaves_database()
    return jobs
