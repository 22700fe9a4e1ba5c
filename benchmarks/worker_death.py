"""A worker dies: how soon the fire that it ran is begun a second time.

    python -m benchmarks.worker_death --repeat 5

Method: one scheduler node and two Celery workers (prefork, two processes each) as processes of their own. A job is due
now, and its first run stays; once it has begun, and at a random moment of its lease, either the whole worker that runs
it is killed (SIGKILL, with all of its processes), or the process that runs it alone. The second run begins in whatever
process is left. Both instants are monotonic ones of the machine: the kill, and what the task says as its first word.

- ``whole worker``: nobody is left to tell. The lease runs out (it was renewed each third of it), the owner of the shard
  ends it, and sends the fire again. The bar is a lease and a second after the kill; ``after_lease_s`` is from the end
  of the lease, as the ledger's row had it when the worker was killed.
- ``child``: the worker itself is left, and ends the attempt at once.

The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.harness import await_owners, create_tenants, given_settings, installation, nodes, parser
from benchmarks.machine import commit_mode
from benchmarks.workers import Worker, workers
from tests.chaos import runlog
from tests.chaos.runlog import Run

TASKS = "benchmarks.worker_death_tasks"
FIRST_STAYS, WARM = "bench.first_stays", "bench.warm"
LEASE_S = 5.0
AT_ONCE_S = 1.0
LOOK_S = 0.002
PATIENCE_S = 90.0


def main() -> None:
    arguments = parser(__doc__)
    arguments.set_defaults(tenants=1)
    arguments.add_argument("--repeat", type=int, default=5, help="how often each dies")
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    settings = {"FIRE_LEASE_S": LEASE_S} | given_settings(options.set)
    with (
        installation(options.amqp, settings) as installed,
        installed.connection() as connection,
        tempfile.TemporaryDirectory() as folder,
        nodes(options.nodes, options.log),
    ):
        create_tenants(options.tenants)
        await_owners(connection, nodes=options.nodes)
        log = Path(folder) / "runs.log"
        log.touch()
        lease_s = settings["FIRE_LEASE_S"]
        with workers(2, concurrency=2, include=TASKS, log=options.log, **{runlog.VARIABLE: str(log)}) as fleet:
            figures = measure(options, connection, log, fleet, lease_s)
        print(json.dumps(figures | {"lease_s": lease_s, "commit_mode": commit_mode(installed.url)}))


def measure(
    options: argparse.Namespace, connection: psycopg.Connection[Any], log: Path, fleet: list[Worker], lease_s: float
) -> dict[str, Any]:
    rng = random.Random(options.seed)
    fire(WARM, 8)
    until(lambda: len(runs_of(log)) == 8, "the first runs")  # both workers are up
    children = [die(connection, log, fleet, rng.uniform(0.2, 1.0), whole=False) for _ in range(options.repeat)]
    whole = [die(connection, log, fleet, rng.uniform(0.2, lease_s), whole=True) for _ in range(options.repeat)]
    return {
        "repeat": options.repeat,
        "whole_worker_s": spread([after_s for after_s, _ in whole]),
        "whole_worker_after_lease_s": spread([over_s for _, over_s in whole]),
        "bar_s": lease_s + AT_ONCE_S,
        "child_s": spread([after_s for after_s, _ in children]),
    }


def fire(task: str, count: int = 1) -> None:
    from scheduling.core.definition import JobDefinition
    from scheduling.models import Job, JobClock

    now = JobClock.objects.now()
    Job.objects.copy([JobDefinition.once_job(task, now) for _ in range(count)], tenant="bench-0")


def die(
    connection: psycopg.Connection[Any], log: Path, fleet: list[Worker], after_s: float, *, whole: bool
) -> tuple[float, float]:
    """Seconds from the kill to the second beginning; and from the end of the lease, which is negative where nobody
    waited for that.
    """
    before = len(runs_of(log))
    fire(FIRST_STAYS)
    until(lambda: len(runs_of(log)) == before + 1, "a run")
    time.sleep(after_s)
    first, pid = last_run(log)
    worker = next(worker for worker in fleet if worker.has(pid))
    if whole:
        worker.kill()
    else:
        os.kill(pid, signal.SIGKILL)
    killed_ns = time.monotonic_ns()
    left_s = lease_left_s(connection, first)
    until(lambda: len(runs_of(log)) == before + 2, "the second run")
    second, _ = last_run(log)
    assert second.fire == first.fire, "the runs of two fires were mixed up"
    if whole:
        worker.start()
        fire(WARM, 4)
        until(lambda: len(runs_of(log)) == before + 6, "the worker's start")
    taken_s = (second.began_ns - killed_ns) / 1e9
    return taken_s, taken_s - left_s


def lease_left_s(connection: psycopg.Connection[Any], run: Run) -> float:
    """Of this run's lease; 0 where it has been ended already."""
    query = """
        SELECT extract(epoch FROM lease_until - clock_timestamp())::float8 FROM scheduling_fire
        WHERE id = %s AND holder = %s
    """
    (left_s,) = connection.execute(query, [run.fire, run.holder]).fetchone() or (0.0,)
    return float(left_s or 0.0)


def runs_of(log: Path) -> list[Run]:
    return runlog.read(log.read_text().splitlines())


def last_run(log: Path) -> tuple[Run, int]:
    """And the process that runs it."""
    began = [line.split() for line in log.read_text().splitlines() if line.startswith("began")]
    return runs_of(log)[-1], int(began[-1][-1].partition("/")[0])


def until(condition: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} did not come within {PATIENCE_S:g} s; see --log")
        time.sleep(LOOK_S)


def spread(values: list[float]) -> dict[str, float]:
    return {"p50": round(statistics.median(values), 3), "max": round(max(values), 3)}


if __name__ == "__main__":
    main()
