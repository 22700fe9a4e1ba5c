"""Nodes and workers that kill themselves at each step, all in the same two seconds of load: nothing is lost, and no
effect is doubled.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from project.demo.models import Effect
from scheduling.core.definition import JobDefinition
from scheduling.failpoints import VARIABLE, Point
from scheduling.models import Fire, Job, JobClock, JobRun, Shard
from scheduling.models.job_run import RunState
from tests.conftest import Spawn
from tests.processes import Spawned, eventually

SCHEDULING = {"LEASE_S": 1.0, "RENEW_S": 0.2, "FIRE_LEASE_S": 1.0, "FIRE_GRACE_S": 0.2}
LOAD_S = 2.0
DYING_NODES = [
    Point.CLAIM_BEFORE,
    Point.CLAIM_COMMITTED,
    Point.PUBLISH_BEFORE,
    Point.PUBLISH_SENT,
    Point.PUBLISH_CONFIRMED,
    Point.RECORD_BEFORE,
    Point.HAND_OVER_DRAINED,
]
DYING_WORKERS = [Point.ACQUIRE_BEFORE, Point.ACQUIRE_COMMITTED, Point.COMPLETE_BEFORE, Point.COMPLETE_COMMITTED]

Start = Callable[..., Spawned]

pytestmark = [pytest.mark.processes, pytest.mark.rabbitmq, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def start(spawn: Spawn, rabbitmq_url: str) -> Start:
    """Start a node or a worker, with short leases, that dies at the so many-th time at a point, if one is given."""

    def started(*command: str, dies_at: Point | None = None, hit: int = 1, **environ: str) -> Spawned:
        return spawn(
            *command,
            DJANGO_SETTINGS_MODULE="benchmarks.settings",  # takes the next one
            FAIRBEAT_BENCH_SCHEDULING=json.dumps(SCHEDULING),
            AMQP_URL=rabbitmq_url,
            **{VARIABLE: f"{dies_at}=kill#{hit}" if dies_at else ""},
            **environ,
        )

    return started


def start_node(start: Start, name: str, **options: object) -> Spawned:
    return start("manage.py", "scheduler", "--node-id", name, **options)


def start_worker(start: Start, **options: object) -> Spawned:
    """Of one process: where that dies, the broker has what it had not acknowledged."""
    return start("celery", "-A", "project", "worker", "-P", "solo", "-l", "INFO", **options)


def await_owners(count: int) -> None:
    """So many nodes own all shards."""

    def owners() -> set[str | None]:
        return set(Shard.objects.values_list("owner_id", flat=True))

    eventually(lambda: len(found := owners()) == count and None not in found)


def make_load(count: int) -> set[UUID]:
    """Jobs that fire once each, from a moment on and for ``LOAD_S``; their ids."""
    begins = JobClock.objects.now() + timedelta(seconds=0.3)
    at = [begins + timedelta(seconds=LOAD_S * number / count) for number in range(count)]
    task = "project.demo.tasks.effect"
    Job.objects.copy([JobDefinition.once_job(task, moment, max_attempts=9) for moment in at], tenant="default")
    return set(Job.objects.values_list("id", flat=True))


def expect_one_effect_each(jobs: set[UUID]) -> None:
    """Every occurrence ends with exactly one effect."""
    eventually(lambda: set(Effect.objects.values_list("job_id", flat=True)) == jobs)
    eventually(lambda: set(Fire.objects.values_list("state", flat=True)) == {"succeeded"})
    assert Counter(Fire.objects.values_list("job_id", flat=True)) == Counter(jobs)
    assert Counter(Effect.objects.values_list("job_id", flat=True)) == Counter(jobs)


@pytest.mark.parametrize("stop", ["3", "4"])
def test_nodes_that_die_at_each_step_lose_and_double_nothing(stop: str, start: Start) -> None:
    worker = start_worker(start)
    survivor = start_node(start, "survivor", FAIRBEAT_STOP=stop)
    dying = {point: start_node(start, point, dies_at=point, hit=3, FAIRBEAT_STOP=stop) for point in DYING_NODES[:-1]}
    await_owners(1 + len(dying))
    # The last to come hands nothing over but when it is told to end.
    leaving = start_node(start, "leaving", dies_at=DYING_NODES[-1], FAIRBEAT_STOP=stop)
    await_owners(2 + len(dying))
    worker.wait_for_line("ready.")

    jobs = make_load(300)
    eventually(lambda: Effect.objects.count() > 20)
    leaving.send_signal(signal.SIGTERM)

    for point, node in {**dying, DYING_NODES[-1]: leaving}.items():
        assert node.wait() == -signal.SIGKILL, f"the node went on beyond {point}"
    expect_one_effect_each(jobs)
    assert survivor.process.poll() is None


def test_workers_that_die_at_each_step_lose_and_double_nothing(start: Start) -> None:
    start_node(start, "node")
    dying = {point: start_worker(start, dies_at=point, hit=2) for point in DYING_WORKERS}
    survivor = start_worker(start)
    for worker in (*dying.values(), survivor):
        worker.wait_for_line("ready.")
    await_owners(1)

    jobs = make_load(60)

    for point, worker in dying.items():
        assert worker.wait() == -signal.SIGKILL, f"the worker went on beyond {point}"
    expect_one_effect_each(jobs)
    assert survivor.process.poll() is None
    lost = JobRun.objects.filter(state=RunState.LOST).count()
    assert lost == 2, "the runs of those that died between acquire and complete, and no others"
