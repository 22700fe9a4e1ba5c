"""The worker path: tasks a second under the ledger, against plain Celery tasks and against django-celery-results.

    python -m benchmarks.worker_path
    python -m benchmarks.worker_path --quick

Method: a database and queues of the run's own. Jobs are made by COPY, due at once; a scheduler node claims and
publishes their fires, and ends. The other cases get as many of Celery's own messages, in quorum queues of the same
shape. Then a fresh Celery worker for each case drains one queue, which holds all of its messages by then: ``-c 2``
prefork, and ``--pool threads -c 8``, with Celery's own prefetch, and acknowledging as each task does by default; each
round begins with another case. The rate is that of the queue's depth, asked of the broker twenty times a second, from
a tenth of the messages on (the worker is warm by then) to the last; afterwards the worker is asked how many it ran, and
the database how many it has. The task's body returns a number. All keep their database connection as long as ours.

``late`` is a plain task with ``acks_late``: what acknowledging after the run costs. ``floor`` is that, with two
prepared updates of one row each: the least that a durable acquire and a durable completion can cost. ``cpu_us`` is CPU
for each message: the worker's processes, and the whole servers with whatever else they did meanwhile. ``round_trips``
is counted in libpq's own trace of the protocol. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import amqp
import kombu
import psycopg

from benchmarks.harness import installation, nodes
from benchmarks.machine import commit_mode, hardware
from benchmarks.meters import cpu_of, listener, postmaster

TASKS = {
    "plain": "bench.plain",
    "late": "bench.late",
    "floor": "bench.floor",
    "ledgered": "bench.ledgered",
    "results": "bench.stored",
}
QUICK = ("plain", "ledgered", "results")
POOLS = {"prefork": ("--pool", "prefork", "-c", "2"), "threads": ("--pool", "threads", "-c", "8")}
PATIENCE_S = 120.0
HISTORY_DAYS = 30
TRIPS = "trips"  # the tenant whose fires are run in this process
TRACED = 20


@dataclass(frozen=True, slots=True)
class Run:
    """One worker that drains one queue."""

    case: str
    pool: str
    round: int

    @property
    def tenant(self) -> str:
        return f"{self.case}-{self.pool}-{self.round}"


@dataclass(frozen=True, slots=True)
class Drained:
    per_s: float
    cpu_us: dict[str, float]  # for each message, by who used it


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--messages", type=int, help="in each queue (20,000; quick: 2,000)")
    arguments.add_argument("--rounds", type=int, help="times that each case is run (2; quick: 1)")
    arguments.add_argument("--pool", choices=[*POOLS], action="append", help="only this one")
    arguments.add_argument("--case", choices=[*TASKS], action="append", help="only this one")
    arguments.add_argument("--quick", action="store_true", help="prefork only, once, ends in about 15 s")
    arguments.add_argument("--amqp", default=os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//"))
    arguments.add_argument("--log", default=os.devnull)
    options = arguments.parse_args()
    options.messages = options.messages or (2_000 if options.quick else 20_000)
    options.rounds = options.rounds or (1 if options.quick else 2)
    options.pool = options.pool or (["prefork"] if options.quick else [*POOLS])
    options.case = options.case or [*(QUICK if options.quick else TASKS)]
    os.environ["BENCH_TENANT"] = TRIPS
    with (
        installation(options.amqp) as installed,
        installed.connection() as connection,
        kombu.Connection(options.amqp) as broker,
    ):
        print(json.dumps(compare(options, connection, Queues(broker))))


def compare(options: argparse.Namespace, connection: psycopg.Connection[Any], queues: Queues) -> dict[str, Any]:
    runs = list(in_turn(options.case, options.pool, options.rounds))
    prepare(options, runs, connection, queues)
    trips = round_trips(queues)
    meters = Meters(connection, options.amqp)
    drained: dict[str, dict[str, list[Drained]]] = {case: {pool: [] for pool in options.pool} for case in options.case}
    for run in runs:
        found = drain(run, options, meters, queues)
        spent = ", ".join(f"{name} {us:.0f}" for name, us in found.cpu_us.items())
        print(f"{run.tenant}: {found.per_s:.0f}/s; us of CPU: {spent}", file=sys.stderr)
        drained[run.case][run.pool].append(found)
    rates = {
        case: {pool: round(statistics.mean(one.per_s for one in found)) for pool, found in pools.items()}
        for case, pools in drained.items()
    }
    return {
        "plain_per_s": rates.get("plain"),
        "ledgered_per_s": rates.get("ledgered"),
        "django_celery_results_per_s": rates.get("results"),
        "late_per_s": rates.get("late"),
        "floor_per_s": rates.get("floor"),
        "ratio": {f"of_{other}": ratio(rates, other) for other in ("plain", "results", "late", "floor")},
        "round_trips": trips,
        "cpu_us": {case: {pool: mean_cpu(found) for pool, found in pools.items()} for case, pools in drained.items()},
        "each_per_s": {
            case: {pool: [round(one.per_s) for one in found] for pool, found in pools.items()}
            for case, pools in drained.items()
        },
        "messages": options.messages,
        "pools": {pool: " ".join(POOLS[pool]) for pool in options.pool},
        "commit": commit_mode(os.environ["DATABASE_URL"]),
        "hardware": hardware(),
    }


def mean_cpu(found: list[Drained]) -> dict[str, int]:
    return {name: round(statistics.mean(one.cpu_us[name] for one in found)) for name in found[0].cpu_us}


def ratio(rates: dict[str, dict[str, int]], other: str) -> dict[str, float]:
    if "ledgered" not in rates or other not in rates:
        return {}
    return {pool: round(rate / rates[other][pool], 2) for pool, rate in rates["ledgered"].items()}


def in_turn(cases: list[str], pools: list[str], rounds: int) -> Iterator[Run]:
    """Each round begins with another case."""
    for number in range(rounds):
        for pool in pools:
            shift = number % len(cases)
            yield from (Run(case, pool, number) for case in cases[shift:] + cases[:shift])


class Queues:
    """The run's queues on the broker."""

    def __init__(self, broker: kombu.Connection) -> None:
        from project.celery import queue_plan

        self._plan = queue_plan()
        self.channel: Any = broker.channel()

    def name(self, tenant: str) -> str:
        return self._plan.queue(tenant, "bulk").name

    def declare(self, tenant: str) -> None:
        arguments = dict(self._plan.queue(tenant, "bulk").arguments)
        self.channel.queue_declare(self.name(tenant), durable=True, auto_delete=False, arguments=arguments)

    def ready(self, tenant: str) -> int:
        return int(self.channel.queue_declare(self.name(tenant), passive=True).message_count)

    def hold(self, tenant: str, count: int) -> bool:
        return self.ready(tenant) == count


def prepare(options: argparse.Namespace, runs: list[Run], connection: psycopg.Connection[Any], queues: Queues) -> None:
    """Fill all queues."""
    from benchmarks.worker_path_tasks import MAKE_FLOOR
    from fairness.models import Tenant

    for tenant in [TRIPS, *(run.tenant for run in runs)]:
        Tenant.objects.create(slug=tenant, history_days=HISTORY_DAYS)
        queues.declare(tenant)
    make_history(connection)
    connection.execute(MAKE_FLOOR)
    for run in runs:
        if run.case != "ledgered":
            publish_celerys_own(TASKS[run.case], options.messages, queues, run.tenant)
    fired = {run.tenant: options.messages for run in runs if run.case == "ledgered"} | {TRIPS: TRACED}
    for tenant, count in fired.items():
        make_jobs(tenant, count)
    with nodes(1, options.log):
        for tenant, count in fired.items():
            until(partial(queues.hold, tenant, count), f"fires of {tenant}")
    connection.execute("VACUUM ANALYZE scheduling_job")
    connection.execute("CHECKPOINT")


def make_history(connection: psycopg.Connection[Any]) -> None:
    """The days that a deployment keeps."""
    from datetime import UTC, datetime, timedelta

    from scheduling.store.partitions import ensure

    today = datetime.now(UTC).date()
    ensure(connection, [(HISTORY_DAYS, today - timedelta(days=n)) for n in range(HISTORY_DAYS)])


def make_jobs(tenant: str, count: int) -> None:
    from scheduling.core.definition import JobDefinition
    from scheduling.models import Job, JobClock

    now = JobClock.objects.now()
    Job.objects.copy([JobDefinition.once_job(TASKS["ledgered"], now) for _ in range(count)], tenant=tenant)


def publish_celerys_own(task: str, count: int, queues: Queues, tenant: str) -> None:
    """What ``apply_async`` would send, each under an id of its own."""
    from project.celery import app

    for _ in range(count):
        task_id = str(uuid4())
        sent = app.amqp.as_task_v2(task_id, task, args=(), kwargs={}, ignore_result=task != TASKS["results"])
        message = amqp.Message(
            json.dumps(sent.body),
            content_type="application/json",
            content_encoding="utf-8",
            delivery_mode=2,
            application_headers=sent.headers,
            correlation_id=task_id,
        )
        queues.channel.basic_publish(message, routing_key=queues.name(tenant))
    until(partial(queues.hold, tenant, count), f"messages of {tenant}")


def drain(run: Run, options: argparse.Namespace, meters: Meters, queues: Queues) -> Drained:
    from django_celery_results.models import TaskResult

    TaskResult.objects.all()._raw_delete("default")
    with worker(run, queues.name(run.tenant), options.log) as process:
        until(lambda: queues.ready(run.tenant) <= 0.9 * options.messages, f"the start of {run.tenant}", every_s=0.02)
        before, began, messages = meters.read(process), time.monotonic(), queues.ready(run.tenant)
        until(partial(queues.hold, run.tenant, 0), f"the end of {run.tenant}", every_s=0.05)
        after, ended = meters.read(process), time.monotonic()
        until(lambda: executed(run, options.messages), f"all of {run.tenant}")
    spent = {name: (after[name] - before[name]) / messages * 1e6 for name in after}
    return Drained(messages / (ended - began), spent)


class Meters:
    """CPU seconds so far: of a worker with its processes, and of the whole servers."""

    def __init__(self, connection: psycopg.Connection[Any], amqp: str) -> None:
        self._servers = {"postgres": postmaster(connection), "rabbitmq": listener(amqp)}

    def read(self, process: subprocess.Popen[bytes]) -> dict[str, float]:
        servers = {name: cpu_of(pid) for name, pid in self._servers.items() if pid is not None}
        return {"worker": cpu_of(process.pid)} | servers


def executed(run: Run, count: int) -> bool:
    """Whether the worker, and the database where it should know, have them all."""
    from django_celery_results.models import TaskResult

    from project.celery import app
    from scheduling.models import Fire

    stats = app.control.inspect(timeout=2.0, destination=[f"{run.tenant}@bench"], limit=1).stats() or {}
    ran = [each["total"].get(TASKS[run.case]) for each in stats.values()]
    if run.case == "ledgered" and Fire.objects.filter(tenant__slug=run.tenant, state="succeeded").count() != count:
        return False
    if run.case == "results" and TaskResult.objects.count() != count:
        return False
    return ran == [count]


@contextmanager
def worker(run: Run, queue: str, log: str) -> Iterator[subprocess.Popen[bytes]]:
    options = ["-Q", queue, "-n", f"{run.tenant}@bench", "-l", "WARNING", *POOLS[run.pool]]
    command = [sys.executable, "-m", "celery", "-A", "benchmarks.worker_path_tasks", "worker", *options]
    environ = os.environ | {"BENCH_TENANT": run.tenant}
    if run.case == "results":
        environ["CELERY_RESULT_BACKEND"] = "django-db"
    with open(log, "ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environ)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGQUIT)  # at once: nothing runs any more
            process.wait(30)


def round_trips(queues: Queues) -> float:
    """Waits for Postgres in a run, once its statements are prepared: counted in this process."""
    from celery.app.trace import trace_task
    from django.db import connection as ours

    from benchmarks.worker_path_tasks import app

    def run_one() -> None:
        message = queues.channel.basic_get(queues.name(TRIPS), no_ack=True)
        request = message.headers | {"is_eager": False, "hostname": "w@bench", "delivery_info": {}}
        trace_task(app.tasks[TASKS["ledgered"]], request["id"], (), {}, request, app=app)

    for _ in range(TRACED // 2):
        run_one()
    with tempfile.TemporaryFile() as trace:
        ours.connection.pgconn.trace(trace.fileno())
        for _ in range(TRACED // 2):
            run_one()
        ours.connection.pgconn.untrace()
        trace.seek(0)
        trips = trace.read().count(b"ReadyForQuery")
    ours.close()
    return trips / (TRACED // 2)


def until(condition: Callable[[], bool], what: str, *, every_s: float = 0.1) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not there after {PATIENCE_S:g} s; see --log")
        time.sleep(every_s)


if __name__ == "__main__":
    main()
