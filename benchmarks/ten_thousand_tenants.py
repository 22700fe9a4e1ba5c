"""Ten thousand tenants on one machine: how long until each has had its turn, and what queues and memory they cost.

    python -m benchmarks.ten_thousand_tenants [--tenants 10000] [--seconds 60]

Method: each tenant has a job that is due at T, the same for all, and one that recurs every ``--every`` seconds, from
half of that later on, evenly spread over the tenants; job time stands still until they are made and everybody is up.
Scheduler nodes and one Celery worker (prefork) run as processes of their own, with the presets of the stop; the task
takes ``--work-ms``. Of the first wave: the time from T until every tenant's run has begun, by the database's clock. Of
the recurring jobs: (started − due) over ``--seconds``, once the wave is over.

Queues are those of the rows, as the broker has them, with the dead letters. Memory is resident, of a node (the largest)
and of the worker's main process. ``map_us`` is what a publisher pays to find a tenant's queue among them all. The last
line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from statistics import median
from typing import Any

import psutil
import psycopg
import redis

from benchmarks.fair_measures import percentile
from benchmarks.harness import given_settings, installation, nodes, parser, start_job_clock, stop_job_clock
from benchmarks.workers import workers

TASKS, TASK = "benchmarks.fair_shares_tasks", "bench.hold"
REDIS = "redis://127.0.0.1:6379/9"  # of the benchmark alone: it is emptied
T_S = 5.0  # from the start of job time to T
PATIENCE_S = 500.0
BEGUN = "SELECT count(DISTINCT tenant_id) FROM scheduling_fire WHERE started_at IS NOT NULL"
LAST_BEGUN = """
SELECT extract(epoch FROM max(f.first_at) - %s - (SELECT real_origin - job_origin FROM scheduling_jobclock))::float8
FROM (SELECT tenant_id, min(started_at) AS first_at FROM scheduling_fire GROUP BY tenant_id) f
"""
DELAYS = """
SELECT extract(epoch FROM started_at - fire_at - (SELECT real_origin - job_origin FROM scheduling_jobclock))::float8
FROM scheduling_fire
WHERE fire_at >= %s AND fire_at < %s AND started_at IS NOT NULL
"""
UNSTARTED = "SELECT count(*) FROM scheduling_fire WHERE fire_at >= %s AND fire_at < %s AND started_at IS NULL"
LEFT = "SELECT extract(epoch FROM %s - job_origin - (clock_timestamp() - real_origin))::float8 FROM scheduling_jobclock"
REPORTS = "SELECT count(*) FROM fairness_workerreport"
ROWS = "SELECT tenant_id IS NULL, count(*) FROM fairness_tenantqueue WHERE retired_at IS NULL GROUP BY 1"


def main() -> None:
    arguments = parser(__doc__)
    arguments.set_defaults(tenants=10_000)
    arguments.add_argument("--seconds", type=float, default=60.0, help="of the recurring jobs")
    arguments.add_argument("--slots", type=int, default=4)
    arguments.add_argument("--every", type=float, default=60.0, help="seconds between the recurring fires of a tenant")
    arguments.add_argument("--work-ms", type=float, default=1.0)
    arguments.add_argument("--redis", default=REDIS, help="emptied; none: each node by itself")
    given = arguments.parse_args()
    if given.redis:
        redis.Redis.from_url(given.redis).flushdb()
    with (
        installation(given.amqp, {"REDIS_URL": given.redis} | given_settings(given.set)) as installed,
        installed.connection() as connection,
    ):
        at, created_s = create(given.tenants, given.work_ms / 1000, given.every)
        with (
            nodes(given.nodes, given.log) as pids,
            workers(1, concurrency=given.slots, include=TASKS, log=given.log) as (worker,),
        ):
            until(lambda: _one(connection, REPORTS) >= 1, "the worker reports")
            start_job_clock(connection, nodes=given.nodes)
            figures = measure(given, connection, at)
            figures |= {
                "created_s": round(created_s, 1),
                "queues": queues(given.amqp, connection),
                "node_mib": round(max(psutil.Process(pid).memory_info().rss for pid in pids) / 2**20, 1),
                "worker_mib": round(psutil.Process(worker.pid).memory_info().rss / 2**20, 1),
                "map_us": map_us(given.tenants),
            }
        print(json.dumps(figures))


def create(tenants: int, work_s: float, every_s: float) -> tuple[datetime, float]:
    """Tenants and jobs; returns T, and how long that took."""
    from fairness.models import Tenant
    from scheduling.core.definition import JobDefinition
    from scheduling.models import Job, JobClock

    began = time.monotonic()
    stop_job_clock()
    at = JobClock.objects.now() + timedelta(seconds=T_S)
    every, said = timedelta(seconds=every_s), {"kwargs": {"work_s": work_s}}
    Tenant.objects.bulk_create([Tenant(slug=f"bench-{number}") for number in range(tenants)])
    for number, tenant in enumerate(Tenant.objects.filter(slug__startswith="bench-").order_by("pk")):
        anchor = at + timedelta(seconds=every_s / 2 + every_s * number / tenants)
        jobs = [
            JobDefinition.once_job(TASK, at, name="once", **said),
            JobDefinition.interval_job(TASK, every, anchor=anchor, start_at=anchor, name="again", **said),
        ]
        Job.objects.copy(jobs, tenant=tenant)
    return at, time.monotonic() - began


def measure(given: argparse.Namespace, connection: psycopg.Connection[Any], at: datetime) -> dict[str, Any]:
    wait_until(connection, at)
    until(lambda: _one(connection, BEGUN) >= given.tenants, "every tenant has had its turn")
    wave_s = float(_one(connection, LAST_BEGUN, at))
    first = [delay for (delay,) in connection.execute(DELAYS, (at, at + timedelta(milliseconds=1)))]
    since = at + timedelta(seconds=max(wave_s + 10, given.every / 2 + 5))
    last = since + timedelta(seconds=given.seconds)
    wait_until(connection, last + timedelta(seconds=5))
    again = [delay for (delay,) in connection.execute(DELAYS, (since, last))]
    return {
        "tenants": given.tenants,
        "nodes": given.nodes,
        "slots": given.slots,
        "wave_s": round(wave_s, 2),
        "wave_per_s": round(given.tenants / wave_s),
        "wave_p50_s": round(median(first), 2),
        "again_per_s": round(len(again) / given.seconds, 1),
        "again_ms": {"p50": _ms(median(again)), "p99": _ms(percentile(again, 0.99)), "max": _ms(max(again))}
        if again
        else "none has started: they are more than this machine can do",
        "again_unstarted": _one(connection, UNSTARTED, since, last),
    }


def queues(amqp: str, connection: psycopg.Connection[Any]) -> dict[str, int]:
    """Rows, by whether many share them; and how many of them the broker has, with the dead letters."""
    from project.celery import queue_plan
    from scheduling.broker.broker_queues import KombuQueues
    from scheduling.core.fire import Lane

    rows = dict(connection.execute(ROWS).fetchall())
    names = [name for (name,) in connection.execute("SELECT name FROM fairness_tenantqueue")]
    names += [queue_plan().dead_letters(lane).queue for lane in Lane]
    with KombuQueues(amqp)() as broker:
        found = sum(broker.state(name) is not None for name in names)
    return {"own": rows.get(False, 0), "shared": rows.get(True, 0), "in_broker": found}


def map_us(tenants: int) -> float:
    """Microseconds to find the queue of a message, over all tenants; the first time round is not counted."""
    from django.conf import settings
    from django.db import connection

    from fairness.models import Tenant
    from project.wiring import build_queue_map
    from scheduling.conf import scheduling_settings
    from scheduling.store.connection import connector

    queue_map = build_queue_map(
        scheduling_settings(settings), connector(connection.get_connection_params(), name="bench")
    )
    known = list(Tenant.objects.values_list("slug", "pk"))
    began = 0.0
    for _ in range(2):
        began = time.perf_counter()
        for slug, pk in known:
            queue_map.queue_for(slug, pk, "bulk")
    spent = time.perf_counter() - began
    queue_map.close()
    return round(1e6 * spent / tenants, 3)


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within {PATIENCE_S:g} s; see --log")
        time.sleep(0.25)


def wait_until(connection: psycopg.Connection[Any], at: datetime) -> None:
    """Job time."""
    left_s = _one(connection, LEFT, at)
    time.sleep(max(0.0, float(left_s)))


def _one(connection: psycopg.Connection[Any], query: str, *values: Any) -> Any:
    (value,) = connection.execute(query, values).fetchone() or (0,)
    return value


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)


if __name__ == "__main__":
    main()
