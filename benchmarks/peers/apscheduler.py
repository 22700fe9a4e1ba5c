"""APScheduler 3: BackgroundScheduler and SQLAlchemyJobStore on Postgres, whose jobs send by Celery's apply_async.

    .venv-bench/bin/python -m benchmarks.peers.apscheduler --jobs 1000 [--confirms]

That job store is what people take who want jobs to survive a restart; APScheduler itself runs the job's function in a
thread, and here the function sends. Defaults, but for two that would drop what is late: ``misfire_grace_time`` (1 s) is
off and ``coalesce`` is on, so that it fires as often as it can. The jobs' rows are made by the scheduler, before it
starts.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import tempfile
import threading
from datetime import UTC, datetime

from benchmarks.harness import PLAIN_TASK, database
from benchmarks.peers.arrivals import Arrivals, parser, process, versions
from benchmarks.peers.beat import environment


def main() -> None:
    arguments = parser(__doc__, jobs=1000)
    arguments.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.serve:
        serve(options.jobs)
        return
    with database() as url, Arrivals(options.amqp) as arrivals, tempfile.TemporaryDirectory() as folder:
        environ = environment(options, arrivals.name) | {"DATABASE_URL": url}
        command = [sys.executable, "-m", "benchmarks.peers.apscheduler", "--serve", "--jobs", str(options.jobs)]
        with process(command, environ, cwd=folder) as scheduler:
            rate = arrivals.per_second(options.seconds, of=scheduler)
    print(
        json.dumps(
            {
                "fires_per_s": round(rate, 1),
                "jobs": options.jobs,
                "due_per_s": options.jobs,
                "seconds": options.seconds,
                "publisher_confirms": options.confirms,
                "versions": versions("apscheduler", "sqlalchemy", "celery", "kombu", "psycopg"),
            }
        )
    )


def serve(jobs: int) -> None:
    """The scheduler's own process, until SIGTERM."""
    import psycopg
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
    from apscheduler.schedulers.background import BackgroundScheduler
    from sqlalchemy import create_engine

    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(os.environ["DATABASE_URL"]))
    scheduler = BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(engine=engine)},
        job_defaults={"misfire_grace_time": None, "coalesce": True},
        timezone=UTC,
    )
    scheduler.start(paused=True)
    now = datetime.now(UTC)
    for number in range(jobs):
        scheduler.add_job(
            "benchmarks.peers.apscheduler:send", "interval", seconds=1, id=f"job-{number}", next_run_time=now
        )
    scheduler.resume()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    stopped.wait()
    scheduler.shutdown(wait=False)


def send() -> None:
    """A job's function."""
    from benchmarks.peers.beat_app import app

    app.tasks[PLAIN_TASK].apply_async()


if __name__ == "__main__":
    main()
