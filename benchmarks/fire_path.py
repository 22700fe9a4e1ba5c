"""The fire path, whole: from due rows to messages confirmed by quorum queues and recorded in Postgres.

    python -m benchmarks.fire_path --rate 10000 --seconds 20
    python -m benchmarks.fire_path --rate 100 --seconds 20

Method: ``rate`` jobs with an interval of a second, spread over that second and over ``tenants``, in a database made
for the run; one scheduler node as a process of its own, with the default settings of stop 3. The jobs name a plain
Celery task (they are sent, and nobody runs them); the queues are purged every second, because a Python consumer
drains slower than the scheduler fires. A fire counts when its watermark is recorded in Postgres: fsync and
synchronous_commit are as the server has them (both are printed). Latency is (confirmed - due), from the node's own
histogram. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import django
import kombu
import psycopg

WARM_UP_S = 3.0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rate", type=int, default=10_000, help="fires a second that are due")
    arguments.add_argument("--seconds", type=float, default=20.0, help="measured, after a warm-up")
    arguments.add_argument("--tenants", type=int, default=20)
    arguments.add_argument("--nodes", type=int, default=1)
    arguments.add_argument("--amqp", default=os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//"))
    arguments.add_argument("--log", default=os.devnull)
    options = arguments.parse_args()
    with database() as url:
        os.environ |= {"DATABASE_URL": url, "AMQP_URL": options.amqp, "DJANGO_SETTINGS_MODULE": "project.settings"}
        os.environ["FAIRBEAT_QUEUE_PREFIX"] = f"bench{os.getpid()}"
        django.setup()
        created_s = create_jobs(options.rate, options.tenants)
        with (
            deleted_queues(options.amqp),
            nodes(options.nodes, options.log),
            psycopg.connect(url, autocommit=True) as connection,
        ):
            print(json.dumps(measure(connection, options) | {"jobs_created_per_s": round(options.rate / created_s)}))


@contextmanager
def database() -> Iterator[str]:
    """A database of the run's own, on the server of ``DATABASE_URL``."""
    server = os.environ.get("DATABASE_URL", "postgresql://127.0.0.1:5432/postgres")
    name = f"fairbeat_bench_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def create_jobs(rate: int, tenants: int) -> float:
    """Jobs that are due once a second each, evenly spread; returns the seconds that COPY took."""
    from django.core.management import call_command

    from fairness.models import Tenant
    from scheduling.core.definition import JobDefinition
    from scheduling.models import Job, JobClock

    call_command("migrate", verbosity=0)
    second, now = timedelta(seconds=1), JobClock.objects.now()
    began = time.monotonic()
    for number in range(tenants):
        tenant = Tenant.objects.create(slug=f"bench-{number}")
        Job.objects.copy(
            [
                JobDefinition.interval_job("bench.sent", second, anchor=now + second * (n / rate), name=f"job-{n}")
                for n in range(number, rate, tenants)
            ],
            tenant=tenant,
        )
    return time.monotonic() - began


@contextmanager
def nodes(count: int, log: str) -> Iterator[None]:
    with open(log, "ab") as output:
        processes = [
            subprocess.Popen(
                [sys.executable, "manage.py", "scheduler", "--node-id", f"bench-{number}"], stdout=output, stderr=output
            )
            for number in range(count)
        ]
        try:
            yield
        finally:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            for process in processes:
                process.wait(15)


def measure(connection: psycopg.Connection[Any], options: argparse.Namespace) -> dict[str, Any]:
    with kombu.Connection(options.amqp) as broker:
        purge_until(broker, time.monotonic() + WARM_UP_S)
        reset = latency(connection)
        recorded, began = progress(connection), time.monotonic()
        purge_until(broker, began + options.seconds)
        fires, elapsed_s = progress(connection) - recorded, time.monotonic() - began
        total = latency(connection)
    during = difference(total, reset)
    return {
        "due_per_s": options.rate,
        "fires_per_s": round(fires / elapsed_s),
        "fire_latency_ms": {f"p{q:g}": round(1000 * (during.quantile(q / 100) or 0), 1) for q in (50, 99, 99.9)},
        "seconds": round(elapsed_s, 1),
        "tenants": options.tenants,
        "nodes": options.nodes,
        "postgres": setting(connection, "server_version"),
        "fsync": setting(connection, "fsync"),
        "synchronous_commit": setting(connection, "synchronous_commit"),
        "cpus": os.cpu_count(),
    }


def progress(connection: psycopg.Connection[Any]) -> int:
    """Fires at or below a watermark."""
    query = "SELECT coalesce(sum(seq), 0)::bigint FROM scheduling_shardprogress"
    return int(connection.execute(query).fetchone()[0])  # type: ignore[index]


def latency(connection: psycopg.Connection[Any]) -> Any:
    from scheduling.core.latency import LatencyHistogram

    merged = LatencyHistogram()
    for (values,) in connection.execute("SELECT latency FROM scheduling_node WHERE latency <> '{}'"):
        merged.merge(LatencyHistogram.from_dict(values))
    return merged


def difference(later: Any, earlier: Any) -> Any:
    """What was recorded in between."""
    from scheduling.core.latency import LatencyHistogram

    before = dict(zip(*[iter(earlier.to_dict()["buckets"])] * 2, strict=True)) if earlier.count else {}
    values = later.to_dict()
    pairs = zip(*[iter(values["buckets"])] * 2, strict=True)
    rest = [part for bucket, n in pairs if n > before.get(bucket, 0) for part in (bucket, n - before.get(bucket, 0))]
    return LatencyHistogram.from_dict(values | {"buckets": rest})


def setting(connection: psycopg.Connection[Any], name: str) -> str:
    return str(connection.execute("SELECT current_setting(%s)", [name]).fetchone()[0])  # type: ignore[index]


def purge_until(broker: kombu.Connection, deadline: float) -> None:
    """Empty the run's queues every second."""
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(1.0, left))
        on_each_queue(broker, "queue_purge")


@contextmanager
def deleted_queues(amqp_url: str) -> Iterator[None]:
    """Afterwards the run's queues are gone."""
    try:
        yield
    finally:
        with kombu.Connection(amqp_url) as broker:
            on_each_queue(broker, "queue_delete")


def on_each_queue(broker: kombu.Connection, verb: str) -> None:
    from fairness.models import Tenant
    from project.celery import queue_plan
    from scheduling.core.fire import Lane

    plan = queue_plan()
    names = [plan.queue_name(slug, lane) for slug in Tenant.objects.values_list("slug", flat=True) for lane in Lane]
    for name in [*names, *(plan.dead_letters(lane).queue for lane in Lane), f"{plan.prefix}.default"]:
        channel: Any = broker.channel()
        try:
            getattr(channel, verb)(name)
            channel.close()
        except broker.channel_errors:
            continue  # nothing was published to it


if __name__ == "__main__":
    main()
