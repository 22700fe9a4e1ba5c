"""How many jobs a second ``Job.objects.copy()`` makes: definitions checked, planned, and copied in one transaction.

    python -m benchmarks.copy_jobs --jobs 20000

The rows go to a database of the run's own, and are rolled back. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import time

import django

from benchmarks.fire_path import database

RUNS = 3


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--jobs", type=int, default=20_000)
    options = arguments.parse_args()
    with database() as url:
        os.environ |= {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "project.settings"}
        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        print(json.dumps({"jobs": options.jobs, "jobs_per_s": [copy(options.jobs) for _ in range(RUNS)]}))


def copy(jobs: int) -> int:
    from django.db import transaction

    from scheduling.core.definition import JobDefinition
    from scheduling.models import Job

    with transaction.atomic():
        began = time.perf_counter()
        Job.objects.copy(
            JobDefinition.cron_job("bench.sent", f"{n % 60} {n % 24} * * *", name=f"job-{n}", kwargs={"n": n})
            for n in range(jobs)
        )
        elapsed_s = time.perf_counter() - began
        transaction.set_rollback(True)
    return round(jobs / elapsed_s)


if __name__ == "__main__":
    main()
