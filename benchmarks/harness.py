"""What the benchmarks share: a database and queues of the run's own, jobs, and scheduler nodes as processes.

Nothing here is a stub: the database is a real one on the server of ``DATABASE_URL``, the queues are the quorum queues
that a deployment would have, and the nodes are ``manage.py scheduler``. Only the workers are missing. The harness
empties the queues every second, because a consumer in Python drains slower than a node fires.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import kombu
import psycopg

STOP = os.environ.get("FAIRBEAT_STOP") or "4"  # the preset that is measured
SERVER = "postgresql://127.0.0.1:5432/postgres"
AMQP = "amqp://guest:guest@127.0.0.1:5672//"
WARM_UP_S = 3.0
NODES_START_WITHIN_S = 30.0
CLOCK_STARTS_S = 1.0  # two renewals of a node's lease, at which it reads the clock's row
NODE_STOPS_S = 15.0
ENDS_WITHIN_S = 60.0  # from an interrupt; a large database takes a while to drop
OWNERS = "SELECT count(DISTINCT owner_id), count(*) FILTER (WHERE owner_id IS NULL) FROM scheduling_shard"
PLAIN_TASK = "bench.sent"  # nobody registers it: it is sent, and the ledger does not guard it


def parser(doc: str | None) -> argparse.ArgumentParser:
    """With the options of every benchmark that runs nodes."""
    arguments = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    arguments.add_argument("--tenants", type=int, default=20)
    arguments.add_argument("--nodes", type=int, default=1)
    arguments.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of SCHEDULING")
    arguments.add_argument("--amqp", default=os.environ.get("AMQP_URL") or AMQP)
    arguments.add_argument("--log", default=os.devnull, help="of the nodes")
    return arguments


def given_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """``KEY=VALUE`` of the command line; a value is read as JSON where it is some."""
    given = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise SystemExit(f"--set {pair}: is not KEY=VALUE")
        try:
            given[key] = json.loads(value)
        except ValueError:
            given[key] = value
    return given


def given_options(options: argparse.Namespace) -> list[str]:
    """The options of ``parser``, as they are said to another process."""
    said = ["--tenants", str(options.tenants), "--nodes", str(options.nodes), "--amqp", options.amqp]
    return [*said, "--log", options.log, *(part for pair in options.set for part in ("--set", pair))]


def in_a_process(benchmark: str, *arguments: str) -> dict[str, Any]:
    """The last line of a benchmark that runs in a process of its own: Django is set up for one database in each."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.{benchmark}", *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        output, _ = process.communicate()
    except KeyboardInterrupt:
        process.wait(ENDS_WITHIN_S)  # it was interrupted as well, and removes what it made
        raise
    if process.returncode != 0:
        raise SystemExit(process.returncode)  # it has said why
    figures: dict[str, Any] = json.loads(output.splitlines()[-1])
    return figures


@dataclass(frozen=True, slots=True)
class Installation:
    """A migrated database, and the broker beside it."""

    url: str
    amqp: str

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            yield connection


@contextmanager
def installation(amqp: str, settings: dict[str, Any] | None = None) -> Iterator[Installation]:
    """Django is set up on a database of the run's own; its queues are gone afterwards. Once in a process."""
    import django
    from django.core.management import call_command

    with database() as url:
        prefix = f"bench{os.getpid()}"
        os.environ |= {
            "DATABASE_URL": url,
            "AMQP_URL": amqp,
            "CELERY_BROKER_URL": "",
            "CELERY_DEFAULT_QUEUE": f"{prefix}.default",
            "DJANGO_SETTINGS_MODULE": "benchmarks.settings",
            "FAIRBEAT_BENCH_SCHEDULING": json.dumps(settings or {}),
            "FAIRBEAT_QUEUE_PREFIX": prefix,
            "FAIRBEAT_STOP": STOP,
        }
        django.setup()
        call_command("migrate", verbosity=0)
        with deleted_queues(amqp):
            yield Installation(url, amqp)


@contextmanager
def database() -> Iterator[str]:
    """A database of the run's own, on the server of ``DATABASE_URL``."""
    server = os.environ.get("DATABASE_URL") or SERVER
    name = f"fairbeat_bench_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def create_tenants(count: int) -> list[Any]:
    from fairness.models import Tenant

    return [Tenant.objects.create(slug=f"bench-{number}") for number in range(count)]


def create_jobs(rate: int, tenants: Sequence[Any], *, every_s: int = 1) -> float:
    """Jobs that are due once in ``every_s`` each, evenly spread, ``rate`` of them in a second; returns the seconds
    that COPY took.
    """
    from scheduling.core.definition import JobDefinition
    from scheduling.models import Job, JobClock

    every, count, now = timedelta(seconds=every_s), rate * every_s, JobClock.objects.now()
    began = time.monotonic()
    for number, tenant in enumerate(tenants):
        Job.objects.copy(
            [
                JobDefinition.interval_job(PLAIN_TASK, every, anchor=now + every * (n / count), name=f"job-{n}")
                for n in range(number, count, len(tenants))
            ],
            tenant=tenant,
        )
    return time.monotonic() - began


def stop_job_clock() -> None:
    """Job time stands still from now on, so that nothing comes due while jobs are created and nodes start."""
    from scheduling.models import JobClock

    JobClock.objects.create(job_origin=JobClock.objects.now())


def start_job_clock(connection: psycopg.Connection[Any], *, nodes: int) -> None:
    """Once ``nodes`` own all shards, job time runs on; they hear of it before it does."""
    await_owners(connection, nodes=nodes)
    connection.execute(
        "UPDATE scheduling_jobclock SET real_origin = clock_timestamp() + %s * interval '1 second'", [CLOCK_STARTS_S]
    )
    time.sleep(CLOCK_STARTS_S)


def await_owners(connection: psycopg.Connection[Any], *, nodes: int) -> None:
    """Returns when so many nodes own all shards."""
    deadline = time.monotonic() + NODES_START_WITHIN_S
    while connection.execute(OWNERS).fetchone() != (nodes, 0):
        if time.monotonic() > deadline:
            raise SystemExit(f"{nodes} nodes did not own all shards within {NODES_START_WITHIN_S:g} s; see --log")
        time.sleep(0.05)


@contextmanager
def nodes(
    count: int, log: str, *, name: str = "bench", ended_by: signal.Signals = signal.SIGTERM
) -> Iterator[list[int]]:
    """Scheduler nodes as processes of their own; their process ids. By default they are drained in the end."""
    with open(log, "ab") as output:
        processes = [
            subprocess.Popen(
                [sys.executable, "manage.py", "scheduler", "--node-id", f"{name}-{number}"],
                stdout=output,
                stderr=output,
            )
            for number in range(count)
        ]
        try:
            yield [process.pid for process in processes]
        finally:
            for process in processes:
                process.send_signal(ended_by)
            for process in processes:
                _ended(process)


def _ended(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(NODE_STOPS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class RunQueues:
    """The queues of the run's tenants; one connection, used by one thread."""

    def __init__(self, amqp: str) -> None:
        from project.celery import queue_plan

        self._plan = queue_plan()
        self._broker = kombu.Connection(amqp)
        self._channel: Any = self._broker.channel()

    def __enter__(self) -> RunQueues:
        return self

    def __exit__(self, *_: object) -> None:
        self._broker.release()

    def purge(self) -> None:
        from fairness.models import TenantQueue
        from scheduling.core.fire import Lane

        in_use = TenantQueue.objects.filter(lane=Lane.BULK)  # where the benchmarks' jobs go
        self._on_each("queue_purge", in_use.values_list("name", flat=True))

    def purge_until(self, deadline: float, *, each_second: Callable[[], None] = lambda: None) -> None:
        """Empty them every second until ``deadline`` (monotonic)."""
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(1.0, left))
            self.purge()
            each_second()

    def delete(self) -> None:
        """Them, and what their declaration made beside them."""
        from fairness.models import Tenant, TenantQueue
        from scheduling.core.fire import Lane

        in_use = set(TenantQueue.objects.values_list("name", flat=True))
        slugs = Tenant.objects.values_list("slug", flat=True)  # a benchmark may have declared theirs itself
        self._on_each("queue_delete", in_use | {self._plan.queue_name(slug, lane) for slug in slugs for lane in Lane})
        for lane in Lane:
            self._ask("queue_delete", self._plan.dead_letters(lane).queue)
        self._ask("queue_delete", f"{self._plan.prefix}.default")
        for name in (f"{self._plan.prefix}-dead", f"{self._plan.prefix}.default"):
            self._ask("exchange_delete", name)

    def _on_each(self, verb: str, names: Iterable[str]) -> None:
        for name in names:
            self._ask(verb, name)

    def _ask(self, verb: str, name: str) -> None:
        # a queue to which nothing was published: the broker closes the channel, and py-amqp opens it again
        with suppress(*self._broker.channel_errors):
            try:
                getattr(self._channel, verb)(name)
            except self._broker.connection_errors:  # as RabbitMQ 3.10 answers where a purge takes it too long
                self._broker.collect()
                self._channel = self._broker.channel()
                getattr(self._channel, verb)(name)


@contextmanager
def deleted_queues(amqp: str) -> Iterator[None]:
    """Afterwards the run's queues are gone."""
    try:
        yield
    finally:
        with RunQueues(amqp) as queues:
            queues.delete()


@contextmanager
def running(options: argparse.Namespace, installed: Installation) -> Iterator[tuple[list[int], RunQueues, Any]]:
    """Nodes that fire: their process ids, the queues, and a connection to look with. In the end they are killed: what
    they would still do is not measured.
    """
    with ExitStack() as stack:
        queues = stack.enter_context(RunQueues(options.amqp))
        connection = stack.enter_context(installed.connection())
        pids = stack.enter_context(nodes(options.nodes, options.log, ended_by=signal.SIGKILL))
        yield pids, queues, connection


@contextmanager
def selected_store(node: str) -> Iterator[Any]:
    """The schedule's store that ``SCHEDULING`` selects, for a member of the fleet called ``node``."""
    from django.conf import settings
    from django.db import connection

    from project.wiring import build_store
    from scheduling.conf import scheduling_settings
    from scheduling.coordination.postgres import PostgresCoordinator
    from scheduling.store.connection import connector

    ours = scheduling_settings(settings)
    connect = connector(connection.get_connection_params(), name=node)
    member = PostgresCoordinator(connect, node=node, region="", shards=ours.SHARDS, lease_s=3600)
    member.join()
    store = build_store(ours, connect)
    try:
        yield store
    finally:
        store.close()
        member.leave()
