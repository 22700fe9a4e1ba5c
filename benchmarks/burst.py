"""A burst: many jobs that are due at the same instant, and how long until all are confirmed and recorded.

    python -m benchmarks.burst --jobs 100000

Method: jobs with one occurrence each, all at T, spread over the tenants, are created beforehand; a node runs and has
nothing else to do. The clock starts at T, by the database, and ends when as many rows as jobs are at or below the
watermark that Postgres has. Queues are purged every second; see ``fire_path``. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import datetime, timedelta
from typing import Any

import psycopg

from benchmarks.fire_path import settings_in_force, skipped
from benchmarks.harness import (
    PLAIN_TASK,
    RunQueues,
    await_owners,
    create_tenants,
    given_settings,
    installation,
    parser,
    running,
)
from benchmarks.machine import commit_mode
from benchmarks.meters import COUNT_RECORDED, Meters, costs, latency, percentiles_ms

CREATED_PER_S = 3000  # at least: T is chosen before the jobs are made
NODE_STARTS_S = 5.0
LOOK_S = 0.05
PATIENCE_S = 120.0


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--jobs", type=int, default=100_000)
    options = arguments.parse_args()
    with installation(options.amqp, given_settings(options.set)) as installed:
        at = create_burst(options.jobs, options.tenants)
        with running(options, installed) as (pids, queues, connection):
            await_owners(connection, nodes=options.nodes)
            meters = Meters(connection, node_pids=pids, amqp=options.amqp)
            figures = measure(connection, queues, meters, options, at)
        print(json.dumps(figures | {"settings": settings_in_force(), "commit_mode": commit_mode(installed.url)}))


def create_burst(jobs: int, tenants: int) -> datetime:
    """The jobs; returns T."""
    from scheduling.core.definition import JobDefinition
    from scheduling.models import Job, JobClock

    at = JobClock.objects.now() + timedelta(seconds=jobs / CREATED_PER_S + NODE_STARTS_S)
    at = at.replace(microsecond=0)
    for number, tenant in enumerate(create_tenants(tenants)):
        Job.objects.copy(
            [JobDefinition.once_job(PLAIN_TASK, at, name=f"job-{n}") for n in range(number, jobs, tenants)],
            tenant=tenant,
        )
    left = (at - JobClock.objects.now()).total_seconds()
    if left < NODE_STARTS_S:
        raise SystemExit(f"--jobs {jobs}: only {left:.1f} s were left before the burst when they were made")
    return at


def measure(
    connection: psycopg.Connection[Any], queues: RunQueues, meters: Meters, options: argparse.Namespace, at: datetime
) -> dict[str, Any]:
    query = "SELECT extract(epoch FROM %s - clock_timestamp())::float8"
    (left,) = connection.execute(query, [at]).fetchone() or (0.0,)
    time.sleep(max(0.0, left - 0.5))
    first = meters.read()
    cleared_s = until_recorded(connection, queues, options.jobs, at)
    last = meters.read()
    while (during := latency(connection)).count < options.jobs and time.monotonic() < last.at + NODE_STARTS_S:
        time.sleep(LOOK_S)  # a node writes its histogram every half second
    return (
        {
            "jobs": options.jobs,
            "cleared_s": round(cleared_s, 2),
            "fires_per_s": round(options.jobs / cleared_s),
            "fire_latency_ms": percentiles_ms(during) | {"max": round(1000 * (during.max or 0), 1)},
            "tenants": options.tenants,
            "nodes": options.nodes,
        }
        | costs(first, last, options.jobs)
        | skipped(connection)
    )


def until_recorded(connection: psycopg.Connection[Any], queues: RunQueues, jobs: int, at: datetime) -> float:
    """Seconds of the database from T to the moment at which all are recorded."""
    deadline, purge_at = time.monotonic() + PATIENCE_S, 0.0
    while time.monotonic() < deadline:
        if time.monotonic() > purge_at:
            queues.purge()
            purge_at = time.monotonic() + 1
        (marks,) = connection.execute("SELECT sum(seq)::bigint FROM scheduling_shardprogress").fetchone() or (0,)
        if marks >= jobs:  # cheap; the rows are counted only when it may be so
            recorded, now_s = connection.execute(COUNT_RECORDED).fetchone() or (0, 0.0)
            if recorded >= jobs:
                return float(now_s) - at.timestamp()
        time.sleep(LOOK_S)
    raise SystemExit(f"the burst was not recorded in {PATIENCE_S:g} s")


if __name__ == "__main__":
    main()
