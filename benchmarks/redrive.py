"""A mass of dead letters is redriven while fires go on: what that does to the latency of the fires.

    python -m benchmarks.redrive --letters 100000 --rate 500

Method: ``rate`` jobs, each due once a second, evenly spread; beside them 2,000 jobs that are far from due, of which
fires have died, with their dead letters. A node fires on, as in ``fire_path``, queues being purged every second. Then
all letters are redriven, by the service that people use, at the highest rate that it takes; and when that is over the
node fires on alone again. Latency is (confirmed − due), from the node's histogram, of the jobs that are due: a redriven
fire has none.

``p99_ratio`` is that during the redrive over that of both times without, all in one run. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import psycopg

from benchmarks.fire_path import settings_in_force
from benchmarks.harness import (
    PLAIN_TASK,
    WARM_UP_S,
    RunQueues,
    create_jobs,
    create_tenants,
    given_settings,
    installation,
    parser,
    running,
    start_job_clock,
    stop_job_clock,
)
from benchmarks.machine import commit_mode
from benchmarks.meters import Meters, Reading, costs, difference, percentiles_ms
from scheduling.core.latency import LatencyHistogram

DEAD_JOBS = 2000
STEP_S = 1.0
PATIENCE_S = 900.0

DIE = """
INSERT INTO scheduling_fire (
    id, job_id, tenant_id, shard_id, history_days, scheduled_for, fire_at, schedule_version,
    state, reason, fence, attempt, max_attempts, started_at, finished_at)
SELECT d.id, j.id, j.tenant_id, j.shard_id, %(history_days)s, d.at, d.at, j.schedule_version,
    'dead', 'attempts_exhausted', 4, 3, 3, d.at, d.at
FROM unnest(%(ids)s::uuid[], %(jobs)s::uuid[], %(ats)s::timestamptz[]) AS d(id, job, at)
JOIN scheduling_job j ON j.id = d.job
"""
WRITE_LETTERS = """
INSERT INTO scheduling_deadletter (
    fire_id, job_id, tenant_id, shard_id, history_days, scheduled_for, fire_at, schedule_version,
    fence, attempts, task, reason, error, fingerprint, died_at)
SELECT f.id, f.job_id, f.tenant_id, f.shard_id, f.history_days, f.scheduled_for, f.fire_at, f.schedule_version,
    f.fence, f.attempt, j.task, f.reason, 'OSError: the shop does not answer', 'a5e1f00dbeefcafe', f.finished_at
FROM scheduling_fire f JOIN scheduling_job j ON j.id = f.job_id WHERE f.state = 'dead' ORDER BY f.finished_at, f.id
"""


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--rate", type=int, default=500, help="fires a second that are due")
    arguments.add_argument("--letters", type=int, default=100_000)
    arguments.add_argument("--redrive-per-s", type=float, default=1000.0)
    arguments.add_argument("--seconds", type=float, default=30.0, help="without a redrive, before it and after it")
    options = arguments.parse_args()
    with installation(options.amqp, given_settings(options.set)) as installed:
        tenants = create_tenants(options.tenants)
        stop_job_clock()
        create_jobs(options.rate, tenants)
        with installed.connection() as connection:
            create_letters(connection, tenants, options.letters)
        with running(options, installed) as (pids, queues, connection):
            start_job_clock(connection, nodes=options.nodes)
            meters = Meters(connection, node_pids=pids, amqp=options.amqp)
            figures = measure(options, queues, meters)
        given = {"due_per_s": options.rate, "letters": options.letters, "redrive_per_s": options.redrive_per_s}
        print(
            json.dumps(given | figures | {"settings": settings_in_force(), "commit_mode": commit_mode(installed.url)})
        )


def create_letters(connection: psycopg.Connection[Any], tenants: list[Any], count: int) -> None:
    """Dead fires of the hours before now, and their letters."""
    from scheduling.core.definition import JobDefinition
    from scheduling.core.identity import fire_id
    from scheduling.models import Job, JobClock
    from scheduling.store import partitions

    now = JobClock.objects.now()
    for number, tenant in enumerate(tenants):
        jobs = len(range(number, DEAD_JOBS, len(tenants)))
        far = [JobDefinition.once_job(PLAIN_TASK, now + timedelta(days=365)) for _ in range(jobs)]
        Job.objects.copy(far, tenant=tenant)
    dead_jobs = list(Job.objects.filter(kind="once").values_list("pk", flat=True))
    history_days = tenants[0].history_days
    died = [(dead_jobs[n % DEAD_JOBS], now - timedelta(seconds=1 + n // DEAD_JOBS)) for n in range(count)]
    partitions.ensure(connection, {partitions.day_of(history_days, at) for _, at in died})
    values = {"jobs": [job for job, _ in died], "ats": [at for _, at in died], "history_days": history_days}
    connection.execute(DIE, values | {"ids": [fire_id(job, at) for job, at in died]})
    connection.execute(WRITE_LETTERS)
    connection.execute("VACUUM ANALYZE")


def measure(options: argparse.Namespace, queues: RunQueues, meters: Meters) -> dict[str, Any]:
    from scheduling.models import DeadLetter, Fire
    from scheduling.services.redrive import RedriveState, ask_redrive, progress

    queues.purge_until(time.monotonic() + WARM_UP_S)
    before = phase(queues, meters, options.seconds)
    began = time.monotonic()
    asked = ask_redrive(DeadLetter.objects.all(), by="bench", rate_per_s=options.redrive_per_s)
    asked_s = time.monotonic() - began
    first = meters.read()
    while (found := progress(asked.pk)).state is RedriveState.UNDER_WAY:
        if time.monotonic() > began + PATIENCE_S:
            raise SystemExit(f"not redriven within {PATIENCE_S:g} s: {found}")
        queues.purge_until(time.monotonic() + STEP_S)
    last = meters.read()
    took_s = last.at - first.at
    after = phase(queues, meters, options.seconds)
    return latencies([before, after], (first, last)) | {
        "fires_per_s": {"without": rate(*before), "with": rate(first, last)},
        "moved": found.moved,
        "redriven_per_s": round(found.moved / took_s),
        "asked_s": round(asked_s, 2),
        "left_waiting": Fire.objects.filter(state="retry_wait").count(),
        "cpus_busy": {"without": costs(*before, 1)["cpus_busy"], "with": costs(first, last, 1)["cpus_busy"]},
    }


def latencies(without: Sequence[tuple[Reading, Reading]], beside: tuple[Reading, Reading]) -> dict[str, Any]:
    """Of the times without a redrive, taken together, and of that with one; each from a reading to another."""
    pooled = LatencyHistogram()
    for first, last in without:
        pooled.merge(difference(last.latency, first.latency))
    alone = percentiles_ms(pooled)
    during = percentiles_ms(difference(beside[1].latency, beside[0].latency))
    ratio = round(during["p99"] / alone["p99"], 2) if during["p99"] and alone["p99"] else None
    return {"p99_ratio": ratio, "fire_latency_ms": {"without": alone, "with": during}}


def phase(queues: RunQueues, meters: Meters, seconds: float) -> tuple[Reading, Reading]:
    first = meters.read()
    queues.purge_until(first.at + seconds)
    return first, meters.read()


def rate(first: Reading, last: Reading) -> int:
    """Of the jobs that are due."""
    return round(difference(last.latency, first.latency).count / (last.at - first.at))


if __name__ == "__main__":
    main()
