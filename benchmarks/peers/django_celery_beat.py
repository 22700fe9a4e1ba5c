"""django-celery-beat: its DatabaseScheduler, with PeriodicTask rows in the same Postgres.

    .venv-bench/bin/python -m benchmarks.peers.django_celery_beat --jobs 1000 [--confirms] [--keep-connection]

Django's default closes a connection after each use, and the scheduler looks at the table of changes with each tick;
``--keep-connection`` sets ``CONN_MAX_AGE`` to None, which Django's documentation advises.
"""

from __future__ import annotations

import json
import os
from typing import Any

from benchmarks.harness import PLAIN_TASK, database
from benchmarks.peers.arrivals import Arrivals, parser, versions
from benchmarks.peers.beat import fires_per_s

SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"


def main() -> None:
    arguments = parser(__doc__, jobs=1000)
    arguments.add_argument("--keep-connection", action="store_true", help="CONN_MAX_AGE = None")
    options = arguments.parse_args()
    with database() as url, Arrivals(options.amqp) as arrivals:
        environ = {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "benchmarks.peers.django_settings"}
        if options.keep_connection:
            environ["BENCH_KEEP_CONNECTION"] = "1"
        os.environ |= environ
        create_rows(options.jobs)
        figures = fires_per_s(options, arrivals, ["-S", SCHEDULER], environ)
    print(json.dumps(figures | {"keeps_connection": options.keep_connection} | _versions()))


def create_rows(count: int) -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    from django_celery_beat.models import IntervalSchedule, PeriodicTask, PeriodicTasks

    second, _ = IntervalSchedule.objects.get_or_create(every=1, period=IntervalSchedule.SECONDS)
    PeriodicTask.objects.bulk_create(
        [PeriodicTask(name=f"job-{n}", task=PLAIN_TASK, interval=second) for n in range(count)]
    )
    PeriodicTasks.update_changed()


def _versions() -> dict[str, Any]:
    return {"versions": versions("django-celery-beat", "celery", "django", "kombu", "psycopg")}


if __name__ == "__main__":
    main()
