"""How many jobs a second ``Job.objects.copy()`` makes, against a bare COPY of the very same rows in the same run.

    python -m benchmarks.copy_jobs [--jobs 20000] [--rounds 5] [--quick]

*Ours*: definitions made of plain values, checked, planned, rendered and copied; one transaction with its commit.
*Bare*: the rows that ours left behind, as Postgres itself writes them with COPY TO, copied back into the same table
with its indexes, constraints and triggers, on the same connection, with its commit; in text and in binary, and the
faster one counts. So the ratio (of each round, the median) says what our Python and our checks add to what Postgres
takes alone. The two take turns, the table is emptied in between, and all of it is in a database of the run's own, on
this machine (``cpu_us_a_job``: of this process, and of the backend). Ours uses two cores, bare hardly more than one: on
a busy machine the ratio falls.

The mix (``MIX``, ``said_of``): distinct names and arguments; 480 cron expressions, each in one of ten zones; 120
intervals, each job from an anchor of its own; single instants; recurrence rules; expressions with ``H``, which are
parsed anew for each job; and over all of them a fifth with jitter and a tenth with policies of their own. The last line
is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import cycle, islice
from statistics import median
from typing import Any, NamedTuple

import django
import psutil

from benchmarks.harness import database
from benchmarks.recurrence import ZONES

Said = tuple[str, tuple[Any, ...], dict[str, Any]]  # a way of JobDefinition to make one, and what it is given

BLOCK = 128 * 1024  # bytes in one write of the bare COPY
MIX = {"cron": 0.68, "interval": 0.24, "once": 0.04, "rrule": 0.02, "cron_with_H": 0.02, "jitter": 0.2, "policies": 0.1}
KINDS = 50  # jobs, after which the kinds come round again
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
WEEKDAYS = ("*", "mon-fri", "sat,sun", "1")


class Cost(NamedTuple):
    """Seconds: on the wall, and of CPU by process."""

    wall: float
    python: float
    postgres: float


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--jobs", type=int, default=20_000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--quick", action="store_true", help="three rounds of 10,000 jobs")
    options = arguments.parse_args()
    jobs, rounds = (10_000, 3) if options.quick else (options.jobs, options.rounds)
    with database() as url:
        os.environ |= {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "project.settings"}
        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        print(json.dumps(measure([said_of(n) for n in range(jobs)], rounds)))


def measure(said: list[Said], rounds: int) -> dict[str, Any]:
    columns = job_columns()
    ours: list[Cost] = []
    bare: dict[str, list[Cost]] = {"binary": [], "text": []}
    forms = cycle(bare)
    for _ in range(rounds):
        ours.append(cost(lambda: copy(said)))
        rows = {form: copied_out(columns, form) for form in bare}
        for form in islice(forms, len(bare)):
            truncate()
            bare[form].append(cost(partial(copy_in, columns, form, rows[form])))
        truncate()
    fastest = [min(costs, key=lambda one: one.wall) for costs in zip(*bare.values(), strict=True)]
    return {
        "jobs": len(said),
        "jobs_per_s": [round(len(said) / one.wall) for one in ours],
        "bare_copy_per_s": [round(len(said) / one.wall) for one in fastest],
        "ratio": round(median(bare.wall / one.wall for one, bare in zip(ours, fastest, strict=True)), 2),
        "cpu_us_a_job": cpu_us(ours, len(said)),
        "bare_cpu_us_a_job": {form: cpu_us(costs, len(said)) for form, costs in bare.items()},
        "mix": MIX,
    }


def said_of(n: int) -> Said:
    """What a caller says of the ``n``-th job: all of it follows from ``n``."""
    spread = n * 7919  # a prime: neighbours are nothing alike
    tz, kind = ZONES[spread % len(ZONES)], n % KINDS
    options: dict[str, Any] = {"name": f"job-{n}", "kwargs": {"customer": n, "note": f"run {n}", "dry": False}}
    if n % 5 == 1:
        options["jitter"] = SECOND * (10 + spread % 50)
    if n % 10 == 3:
        options |= {"overlap": "skip", "max_attempts": 5, "retry_base": SECOND * 30, "description": f"Nº {n}\tto Zoë"}
    if kind < 34:
        return "cron_job", ("shop.tasks.charge", cron(spread % 480)), options | {"tz": tz}
    if kind < 46:
        anchored = {"anchor": FIRST_DAY + SECOND * n}
        return "interval_job", ("shop.tasks.poll", SECOND * (60 + 30 * (spread % 120))), options | anchored
    if kind < 48:
        return "once_job", ("shop.tasks.remind", FIRST_DAY + DAY * (4000 + n % 400)), options
    if kind < 49:
        rule = f"FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR={spread % 24}"
        return "rrule_job", ("shop.tasks.report", rule), options | {"dtstart": FIRST_DAY, "tz": tz}
    return "cron_job", ("shop.tasks.digest", "H H * * *"), options | {"tz": tz}


def cron(which: int) -> str:
    """One of 480 expressions."""
    minute, hour, weekday = which % 60, which // 60 * 3, WEEKDAYS[which % len(WEEKDAYS)]
    return f"*/{2 + minute // 2} {hour}-23 * * *" if which % 8 == 0 else f"{minute} {hour} * * {weekday}"


def copy(said: list[Said]) -> None:
    from django.db import transaction

    from scheduling.core.definition import JobDefinition
    from scheduling.models import Job

    with transaction.atomic():
        Job.objects.copy(getattr(JobDefinition, way)(*plain, **options) for way, plain, options in said)


def copied_out(columns: str, form: str) -> bytes:
    """The rows that are in the table, as Postgres writes them."""
    from django.db import connection

    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY scheduling_job ({columns}) TO STDOUT (FORMAT {form})") as out,
    ):
        return b"".join(out)


def copy_in(columns: str, form: str, rows: bytes) -> None:
    from django.db import connection, transaction

    with (
        transaction.atomic(),
        connection.cursor() as cursor,
        cursor.copy(f"COPY scheduling_job ({columns}) FROM STDIN (FORMAT {form})") as into,
    ):
        for start in range(0, len(rows), BLOCK):
            into.write(rows[start : start + BLOCK])


def job_columns() -> str:
    from scheduling.models import Job

    return ", ".join(field.column for field in Job._meta.concrete_fields)


def truncate() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE scheduling_job CASCADE")


def cost(work: Callable[[], None]) -> Cost:
    from django.db import connection

    backend = psutil.Process(connection.connection.info.backend_pid)
    began, python, postgres = time.perf_counter(), time.process_time(), cpu_of(backend)
    work()
    return Cost(time.perf_counter() - began, time.process_time() - python, cpu_of(backend) - postgres)


def cpu_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def cpu_us(costs: list[Cost], jobs: int) -> dict[str, float]:
    return {
        "python": round(median(one.python for one in costs) / jobs * 1e6, 1),
        "postgres": round(median(one.postgres for one in costs) / jobs * 1e6, 1),
    }


if __name__ == "__main__":
    main()
