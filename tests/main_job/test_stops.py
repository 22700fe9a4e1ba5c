"""Each stop of the staircase, from a row to a run: the same jobs, the same task, other parts."""

from __future__ import annotations

import signal
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from project.demo.models import Effect
from scheduling.models import Entry, Fire, Job, JobClock, JobRun, Node, Shard
from scheduling.services.backfill import backfill
from scheduling.services.pause import pause
from scheduling.services.resume import resume
from scheduling.services.run_now import run_now
from tests.conftest import Spawn
from tests.processes import eventually

TASK = "project.demo.tasks.effect"
NOWHERE = {"AMQP_URL": "", "CELERY_BROKER_URL": "amqp://127.0.0.1:1//", "REDIS_URL": "redis://127.0.0.1:1/0"}

pytestmark = [pytest.mark.main_job, pytest.mark.processes, pytest.mark.django_db(transaction=True)]


def test_stop_1_is_one_process_and_nothing_but_postgres(spawn: Spawn) -> None:
    spawn("manage.py", "scheduler", "--node-id", "lone", ready="is running", FAIRBEAT_STOP="1", **NOWHERE)
    paused = make_paused()
    expect_effects(make_jobs())
    expect_what_people_ask_for(paused)
    assert Node.objects.count() == 1


def test_stop_1_ends_when_a_second_one_is_started_by_mistake(spawn: Spawn) -> None:
    first = spawn("manage.py", "scheduler", "--node-id", "first", ready="took over 64", FAIRBEAT_STOP="1", **NOWHERE)
    spawn("manage.py", "scheduler", "--node-id", "second", ready="took over 64", FAIRBEAT_STOP="1", **NOWHERE)
    assert first.wait() == 1
    assert "only one may run at stop 1" in first.output
    assert "Traceback" not in first.output
    expect_effects(make_jobs())


@pytest.mark.rabbitmq
def test_stop_2_is_any_number_of_pollers_without_owners(spawn: Spawn, rabbitmq_url: str, unique: str) -> None:
    broker = {"AMQP_URL": rabbitmq_url, "FAIRBEAT_STOP": "2", "FAIRBEAT_QUEUE_PREFIX": unique}
    for number in (1, 2):
        spawn("manage.py", "scheduler", "--node-id", f"poller-{number}", ready="is running", **broker)
    spawn("celery", "-A", "project", "worker", "-c", "2", "-l", "INFO", ready="ready.", **broker)
    jobs = make_jobs()
    expect_effects(jobs)
    assert not Shard.objects.exclude(owner=None).exists()
    assert set(Fire.objects.values_list("confirmed", flat=True)) == {True}


@pytest.mark.rabbitmq
def test_stop_3_shares_the_shards_among_its_nodes(spawn: Spawn, rabbitmq_url: str, unique: str) -> None:
    broker = {"AMQP_URL": rabbitmq_url, "FAIRBEAT_STOP": "3", "FAIRBEAT_QUEUE_PREFIX": unique}
    for number in (1, 2):
        spawn("manage.py", "scheduler", "--node-id", f"node-{number}", ready="is running", **broker)
    spawn("celery", "-A", "project", "worker", "-c", "2", "-l", "INFO", ready="ready.", **broker)
    eventually(lambda: min(shards_of("node-1"), shards_of("node-2")) > 10 and not Shard.objects.filter(owner=None))
    expect_effects(make_jobs())


@pytest.mark.rabbitmq
@pytest.mark.etcd
def test_with_etcd_the_shards_of_a_killed_node_are_taken_over_and_nothing_is_lost_or_doubled(
    spawn: Spawn, rabbitmq_url: str, etcd_url: str, unique: str
) -> None:
    services = {"AMQP_URL": rabbitmq_url, "FAIRBEAT_STOP": "3", "FAIRBEAT_COORDINATOR": "etcd", "ETCD_URL": etcd_url}
    nodes = [
        spawn("manage.py", "scheduler", "--node-id", f"node-{number}", ready="is running", **services)
        for number in (1, 2)
    ]
    spawn("celery", "-A", "project", "worker", "-c", "2", "-l", "INFO", ready="ready.", **services)
    eventually(lambda: min(shards_of("node-1"), shards_of("node-2")) > 10 and not Shard.objects.filter(owner=None))
    jobs = make_jobs()
    eventually(Effect.objects.exists)
    nodes[0].send_signal(signal.SIGKILL)
    eventually(lambda: shards_of("node-2") == Shard.objects.count())
    ran = Effect.objects.count()
    eventually(lambda: Effect.objects.count() > ran + 10)
    expect_effects(jobs)
    assert unaccounted_seconds(Job.objects.filter(kind="interval")) == 0


@pytest.mark.rabbitmq
def test_stop_4_keeps_what_recurs_in_time_buckets_and_stop_3_takes_it_back(
    spawn: Spawn, rabbitmq_url: str, unique: str
) -> None:
    broker = {"AMQP_URL": rabbitmq_url, "FAIRBEAT_STOP": "4", "FAIRBEAT_QUEUE_PREFIX": unique}
    node = spawn("manage.py", "scheduler", "--node-id", "node-1", ready="took over 64", **broker)
    spawn("celery", "-A", "project", "worker", "-c", "2", "-l", "INFO", ready="ready.", **broker)
    expect_effects(make_jobs())
    recurring = Job.objects.filter(kind="interval")
    assert set(recurring.values_list("in_bucket", "next_fire_at")) == {(True, None)}
    assert Entry.objects.count() == recurring.count()

    node.send_signal(signal.SIGTERM)
    assert node.wait() == 0
    ran = Effect.objects.count()
    spawn("manage.py", "scheduler", "--node-id", "node-1", ready="took over 64", **broker | {"FAIRBEAT_STOP": "3"})
    eventually(lambda: Effect.objects.count() > ran + 10)
    assert not Entry.objects.exists()
    assert not recurring.filter(in_bucket=True).exists()
    assert set(Counter(Effect.objects.values_list("fire_id", flat=True)).values()) == {1}
    assert unaccounted_seconds(recurring) == 0


def unaccounted_seconds(jobs: Any) -> int:
    """How many occurrences of these jobs, a second apart, have no row between their first and their last."""
    missing = 0
    for job in jobs:
        times = list(Fire.objects.filter(job=job).order_by("scheduled_for").values_list("scheduled_for", "covers"))
        missing += (times[-1][0] - times[0][0]).seconds + 1 - sum(covers for _, covers in times)
    return missing


def shards_of(node: str) -> int:
    return Shard.objects.filter(owner=node).count()


def make_jobs() -> list[Job]:
    """Some that are due now, and some every second."""
    now = JobClock.objects.now()
    once = [Job.objects.once(TASK, now, name=f"once-{n}") for n in range(20)]
    return once + [Job.objects.every(TASK, timedelta(seconds=1), name=f"every-{n}") for n in range(5)]


def make_paused() -> Job:
    with transaction.atomic():
        job = Job.objects.every(TASK, timedelta(seconds=1), name="paused")
        pause([job], reason="a release", by="anna")
    return job


def expect_what_people_ask_for(paused: Job) -> None:
    """Nothing runs of a paused job but what is asked for by hand; once resumed it goes on with the newest it missed."""
    effects = Effect.objects.filter(job_id=paused.id)
    assert not effects.exists()
    now = JobClock.objects.now()
    [started] = run_now([paused], by="ben")
    filled = backfill(paused, start=now - timedelta(seconds=3), until=now, by="ben", rate_per_s=10)
    eventually(lambda: effects.count() == 1 + filled.made)
    assert effects.filter(fire_id=started.fire_id).count() == 1
    assert set(Fire.objects.filter(job=paused, origin="").values_list("state", "reason")) == {("skipped", "paused")}

    resume([paused], by="ben", catch_up="latest")
    eventually(lambda: Fire.objects.filter(job=paused, origin="", state="succeeded").count() > 1)
    caught_up = Fire.objects.filter(job=paused, origin="", state="succeeded").earliest("scheduled_for")
    assert caught_up.fence == 2  # its row was one that the pause had skipped
    assert set(Counter(effects.values_list("fire_id", flat=True)).values()) == {1}


def expect_effects(jobs: list[Job]) -> None:
    """Each job has run, repeating ones several times; no fire had two effects."""
    counts = eventually(lambda: enough(jobs))
    assert set(counts) == {job.id for job in jobs}
    assert set(Counter(Effect.objects.values_list("fire_id", flat=True)).values()) == {1}
    assert all(counts[job.id] == 1 for job in jobs if job.kind == "once")
    assert JobRun.objects.exclude(state="succeeded").count() == 0


def enough(jobs: list[Job]) -> Counter[object]:
    counts: Counter[object] = Counter(Effect.objects.values_list("job_id", flat=True))
    done = all(counts[job.id] >= (1 if job.kind == "once" else 3) for job in jobs)
    return counts if done else Counter()
