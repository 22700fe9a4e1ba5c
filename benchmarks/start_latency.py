"""How soon a job that is due at its creation starts: from ``Job.objects.once`` to the task.

    python -m benchmarks.start_latency --jobs 200

Method: one node and one Celery worker (two processes) with the default settings of stop 3, as processes of their own;
jobs are created one at a time, at random moments 20 to 120 ms apart. Both instants are the database's: a job's time is
taken from its clock before the insert, ``started_at`` in the ledger's acquire. The last line is JSON.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.harness import given_settings, installation, nodes, parser

DRAIN_S = 30.0


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--jobs", type=int, default=200)
    options = arguments.parse_args()
    with (
        installation(options.amqp, given_settings(options.set)),
        nodes(options.nodes, options.log),
        open(options.log, "ab") as output,
    ):
        command = [sys.executable, "-m", "celery", "-A", "project", "worker", "-c", "2", "-l", "WARNING"]
        worker = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            print(json.dumps(measure(options.jobs)))
        finally:
            worker.terminate()
            worker.wait(15)


def measure(jobs: int) -> dict[str, Any]:
    from scheduling.models import Job, JobClock, JobRun

    def run_once() -> None:
        Job.objects.once("project.demo.tasks.effect", JobClock.objects.now())

    run_once()
    until(lambda: JobRun.objects.count() == 1)  # everything is up
    for _ in range(jobs):
        time.sleep(random.uniform(0.02, 0.12))
        run_once()
    until(lambda: JobRun.objects.count() == jobs + 1)
    runs = JobRun.objects.order_by("started_at").values_list("started_at", "scheduled_for")[1:]
    waits = sorted(1000 * (started - due).total_seconds() for started, due in runs)
    return {
        "jobs": jobs,
        "start_latency_ms": {
            "p50": round(statistics.median(waits), 1),
            "p99": round(waits[int(0.99 * len(waits))], 1),
            "max": round(waits[-1], 1),
        },
        "cpus": os.cpu_count(),
    }


def until(condition: Any) -> None:
    deadline = time.monotonic() + DRAIN_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("the jobs did not run in time; see --log")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
