"""Nodes as processes of their own that are ended, killed and frozen, from a row to a run."""

from __future__ import annotations

import signal
from collections import Counter
from datetime import timedelta
from uuid import UUID

import pytest
from django.conf import settings

from project.demo.models import Effect
from scheduling.conf import scheduling_settings
from scheduling.core.sharding import assign
from scheduling.models import Fire, Job, JobRun, Node, Shard
from tests.conftest import Spawn
from tests.processes import Spawned, eventually

TASK = "project.demo.tasks.effect"
NOWHERE = {"AMQP_URL": "", "CELERY_BROKER_URL": "amqp://127.0.0.1:1//", "REDIS_URL": "redis://127.0.0.1:1/0"}
SHARDS = scheduling_settings(settings).SHARDS
JOBS = 10

pytestmark = [pytest.mark.processes, pytest.mark.django_db(transaction=True)]


def owned(node: str) -> int:
    return Shard.objects.filter(owner=node).count()


def start_two(spawn: Spawn, rabbitmq_url: str) -> tuple[Spawned, Spawned]:
    """Two nodes that share the shards, and a worker."""
    broker = {"AMQP_URL": rabbitmq_url, "FAIRBEAT_STOP": "3"}
    worker = spawn("celery", "-A", "project", "worker", "-c", "2", "-l", "INFO", **broker)
    first, second = (spawn("manage.py", "scheduler", "--node-id", f"node-{n}", **broker) for n in (1, 2))
    for node in (first, second):
        node.wait_for_line("is running")
    worker.wait_for_line("ready.")
    eventually(lambda: min(owned("node-1"), owned("node-2")) > 10 and owned("node-1") + owned("node-2") == SHARDS)
    return first, second


def load(*, runs: int) -> list[UUID]:
    """Jobs that fire five times a second each."""
    step = timedelta(milliseconds=200)
    return [Job.objects.every(TASK, step, max_runs=runs, name=f"load {n}").pk for n in range(JOBS)]


def expect_each_to_have_run_once(jobs: list[UUID], *, runs: int) -> None:
    eventually(lambda: Effect.objects.count() >= len(jobs) * runs)
    eventually(lambda: set(Fire.objects.values_list("state", flat=True)) == {"succeeded"})
    assert set(Counter(Effect.objects.values_list("fire_id", flat=True)).values()) == {1}
    assert Counter(Effect.objects.values_list("job_id", flat=True)) == dict.fromkeys(jobs, runs)
    assert JobRun.objects.count() == len(jobs) * runs


@pytest.mark.rabbitmq
def test_a_node_that_is_ended_under_load_is_followed_by_the_other_and_nothing_is_lost_or_doubled(
    spawn: Spawn, rabbitmq_url: str
) -> None:
    _, ending = start_two(spawn, rabbitmq_url)
    jobs = load(runs=20)
    eventually(lambda: Effect.objects.count() > JOBS * 3)
    ending.send_signal(signal.SIGTERM)
    assert ending.wait() == 0
    eventually(lambda: owned("node-1") == SHARDS)
    expect_each_to_have_run_once(jobs, runs=20)


@pytest.mark.rabbitmq
def test_a_node_frozen_beyond_its_lease_publishes_nothing_that_runs_when_it_wakes(
    spawn: Spawn, rabbitmq_url: str
) -> None:
    _, frozen = start_two(spawn, rabbitmq_url)
    jobs = load(runs=30)
    eventually(lambda: Effect.objects.count() > JOBS * 3)
    frozen.send_signal(signal.SIGSTOP)
    eventually(lambda: owned("node-1") == SHARDS)
    frozen.send_signal(signal.SIGCONT)
    eventually(lambda: owned("node-2") > 10)
    expect_each_to_have_run_once(jobs, runs=30)
    frozen.wait_for_line("the lease had run out")


def test_with_one_group_one_node_owns_every_shard_and_the_other_takes_them_when_it_is_killed(spawn: Spawn) -> None:
    one_group = NOWHERE | {"FAIRBEAT_STOP": "3", "DJANGO_SETTINGS_MODULE": "tests.node.one_group"}
    capacities = {"node-1": 1.0, "node-2": 4.0}
    nodes = {
        name: spawn("manage.py", "scheduler", "--node-id", name, "--capacity", str(capacity), **one_group)
        for name, capacity in capacities.items()
    }
    for node in nodes.values():
        node.wait_for_line("is running")
    assert dict(Node.objects.values_list("id", "weight")) == capacities
    shares = assign(SHARDS, capacities, groups=1)
    active, standby = sorted(nodes, key=lambda name: len(shares[name]), reverse=True)
    eventually(lambda: owned(active) == SHARDS)
    nodes[active].send_signal(signal.SIGKILL)
    eventually(lambda: owned(standby) == SHARDS)
