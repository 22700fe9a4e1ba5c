"""Plays the demo, once the services run and Django is set up: set the stage, start everybody, watch, settle, count."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from fairness.models import Tenant, TenantQueue
from fairness.queues import QueuePlan
from project.celery import app, queue_plan
from project.demo import queues, report, stage
from project.demo.children import ROOT, Children, children
from project.demo.options import Options
from project.demo.view import View, open_view, take_snapshot
from project.environment.process import free_port
from project.environment.urls import is_amqp
from scheduling import JobTask
from scheduling.conf import scheduling_settings
from scheduling.core.errors import ServiceUnreachable
from scheduling.models import Job, Node, Shard

NODES = ("demo-1", "demo-2")
CONCURRENCY = 8  # a run of the demo's task is mostly waiting for the disk, twice
READY_S = 60.0
SETTLE_S = 60.0  # without any progress
SETTLE_POLL_S = 0.5
REPORT_S = 2.0  # a node writes its figures at each renewal of its lease
BUSY = 20  # a look takes at most a 20th of the time
SHOWN = 5  # refused lines


def play(options: Options, environ: Mapping[str, str], *, run_dir: Path, empty_first: bool) -> int:
    """The exit status: 1 where an occurrence was lost or an effect doubled.

    Raises ChildFailed, NoTables, NoJobs, ImportConflict, ServiceUnreachable.
    """
    stage.make_tables(empty_first=empty_first)
    clock = stage.set_clock(options)
    refused = stage.bring_jobs(options.jobs)
    stage.give_terms(options)
    broker_url = settings.CELERY_BROKER_URL
    plan = queue_plan()
    slugs = _slugs()
    queues.remove(broker_url, plan, slugs)
    address = f"127.0.0.1:{free_port()}"
    header = [
        *(f"not imported: {verdict}" for verdict in refused[:SHOWN]),
        *([f"not imported: {len(refused) - SHOWN} more lines"] if len(refused) > SHOWN else []),
        f"admin: http://{address}/admin/   user: {stage.USER}   password: {stage.make_login()}",
        *_questions(environ),
    ]
    try:
        with children(run_dir / "demo", environ) as family:
            wanted = stage.put_queues_in_use(plan, limit=scheduling_settings(settings).DEDICATED_QUEUES)
            _start(family, address, wanted=wanted)
            until = stage.start_clock(options)
            span = report.Span(after=clock.job_origin, until=until, plain=_plain_tasks())
            with closing(open_view(header)) as view:
                _watch(family, view, until=until)
                _settle(family, view, span)
    finally:
        app.close()
        _clean(broker_url, plan)
    found = report.build(span, broker="rabbitmq" if is_amqp(broker_url) else "redis")
    connection.close()
    print(json.dumps(found), flush=True)
    return 1 if found["lost"] or found["duplicate_effects"] else 0


def _start(family: Children, address: str, *, wanted: set[str]) -> None:
    """Start all processes, and wait until every shard is owned and the worker consumes all ``wanted`` queues."""
    manage = str(ROOT / "manage.py")
    worker = f"fairbeat-demo-{os.getpid()}@{socket.gethostname()}"
    for node in NODES:
        family.start(node, manage, "scheduler", "--node-id", node)
    family.start(
        "worker", "-m", "celery", "-A", "project", "worker", "--hostname", worker, "--concurrency", str(CONCURRENCY),
        "--loglevel", "WARNING", "--without-gossip", "--without-mingle",
    )  # fmt: skip
    family.start("web", manage, "runserver", "--noreload", "--insecure", address)
    family.wait_until(_all_shards_owned, what="not all shards are owned", timeout_s=READY_S)
    family.wait_until(
        lambda: _consumes(worker, wanted), what="the worker does not consume all queues", timeout_s=READY_S
    )
    family.wait_until(lambda: _listens(address), what="the web admin does not listen", timeout_s=READY_S)


def _questions(environ: Mapping[str, str]) -> list[str]:
    """What to type in another terminal, to see who gets what, and why something waits."""
    manage = f"{shlex.quote(os.path.relpath(sys.executable))} manage.py"
    return [
        f"in another terminal: export FAIRBEAT_STOP={environ['FAIRBEAT_STOP']}"
        f" DATABASE_URL={shlex.quote(environ['DATABASE_URL'])}",
        f"who gets what: {manage} shares   why it waits: {manage} explain {shlex.quote(stage.a_job())}"
        "   (give its tenant a rate of 1 in the admin, and ask again)",
    ]


def _slugs() -> list[str]:
    return list(Tenant.objects.values_list("slug", flat=True))


def _clean(broker_url: str, plan: QueuePlan) -> None:
    """Leave the broker as it was; what cannot be removed changes nothing of what the demo found."""
    connection.close()  # a signal may have come in the middle of a query: nothing more can be asked there
    try:
        shared = TenantQueue.objects.filter(tenant=None).values_list("name", flat=True)
        queues.remove(broker_url, plan, _slugs(), also=shared)
    except ServiceUnreachable as problem:
        sys.stderr.write(f"{problem}\n")


def _all_shards_owned() -> bool:
    alive = set(Node.objects.filter(lease_until__gt=Now()).values_list("id", flat=True))
    return alive == set(NODES) and not Shard.objects.exclude(owner__in=alive).exists()


def _consumes(worker: str, wanted: set[str]) -> bool:
    """Asked only once it answers to a ping, which costs the workers of others on this broker nothing."""
    if not app.control.ping(destination=[worker], timeout=0.5, limit=1):
        return False
    told = app.control.inspect(destination=[worker], timeout=5, limit=1).active_queues() or {}
    return wanted <= {queue["name"] for queue in told.get(worker, [])}


def _listens(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def _plain_tasks() -> list[str]:
    """Tasks of the jobs that are no JobTask: nobody tells when they end."""
    app.loader.import_default_modules()
    names = Job.objects.order_by().values_list("task", flat=True).distinct()
    return [name for name in names if name in app.tasks and not isinstance(app.tasks[name], JobTask)]


def _watch(family: Children, view: View, *, until: datetime) -> None:
    """Show what happens, until job time has got to its end."""
    while True:
        family.check()
        before = time.monotonic()
        snapshot = take_snapshot()
        view.show(snapshot)
        if snapshot.job_time >= until:
            return
        time.sleep(max(0.25, (time.monotonic() - before) * BUSY))


def _settle(family: Children, view: View, span: report.Span) -> None:
    """Job time stands still: wait until everything due has come to an end, and the nodes have written their figures."""
    left, since = -1, time.monotonic()
    while (now_left := report.count_unsettled(span)) and time.monotonic() - since < SETTLE_S:
        family.check()
        if now_left != left:
            left, since = now_left, time.monotonic()
        view.show(take_snapshot())
        time.sleep(SETTLE_POLL_S)
    view.show(take_snapshot())
    deadline = time.monotonic() + REPORT_S
    before = -1
    while (fires := report.confirmed_fires()) != before and time.monotonic() < deadline:
        before = fires
        time.sleep(REPORT_S / 2)
