"""Real Celery workers: messages as a node sends them, through RabbitMQ and through Redis, into each kind of pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import kombu
import pytest

from fairness.models import Tenant
from fairness.queues import QueuePlan
from scheduling.core import message
from scheduling.models import Fire, JobRun
from tests.fires import NOON, claimed, headers_of, make_fire, make_job
from tests.processes import Spawned, eventually

TASKS = "tests.worker.sample_tasks"

Start = Callable[..., Spawned]
Send = Callable[..., None]


RABBITMQ = pytest.param("rabbitmq", marks=pytest.mark.rabbitmq)
REDIS = pytest.param("redis", marks=pytest.mark.redis)


@pytest.fixture(params=[RABBITMQ])
def broker(request: pytest.FixtureRequest) -> str:
    """The address of the broker that the test names."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def plan(unique: str) -> QueuePlan:
    return QueuePlan(prefix=unique)


@pytest.fixture
def start(spawn: Any, broker: str, unique: str, effects: Any) -> Start:
    """Start a worker that consumes the tenants' queues of this test alone."""

    def worker(*options: str, pool: str = "prefork", **environ: str) -> Spawned:
        process: Spawned = spawn(
            "celery", "-A", "project", "worker", "-I", TASKS, "-P", pool, "-c", "2", "-n", f"{unique}@%h", "-l", "INFO",
            "--without-gossip", "--without-mingle", *options,
            ready=f"consuming {unique}.default.bulk", CELERY_BROKER_URL=broker, FAIRBEAT_QUEUE_PREFIX=unique, **environ,
        )  # fmt: skip
        return process

    return worker


@pytest.fixture
def send(broker: str, plan: QueuePlan) -> Iterator[Send]:
    """Publish the fire's message into its tenant's queue, `copies` times; a worker must have made the queue."""
    with kombu.Connection(broker) as connection:
        producer = connection.Producer()

        def publish(fire: Fire, *, copies: int = 1) -> None:
            work = claimed(fire).work
            name = plan.queue_name(work.tenant, work.lane)
            for _ in range(copies):
                producer.publish(
                    message.body(work.args, work.kwargs), exchange="", routing_key=name, headers=headers_of(fire),
                    content_type="application/json", content_encoding="utf-8", correlation_id=str(fire.id), priority=0,
                )  # fmt: skip

        yield publish


@pytest.fixture(autouse=True)
def _remove_queues(request: pytest.FixtureRequest, broker: str, plan: QueuePlan) -> Iterator[None]:
    yield
    with kombu.Connection(broker) as connection:
        if connection.transport.driver_type == "amqp":
            channel: Any = connection.default_channel
            for slug in ("default", "acme"):
                for lane in ("bulk", "transactional"):
                    channel.queue_delete(plan.queue_name(slug, lane))
                    channel.queue_delete(plan.dead_letters(lane).queue)
            channel.queue_delete(f"{plan.prefix}.default")
            channel.exchange_delete(plan.dead_letters("bulk").exchange)


def states() -> set[str]:
    return set(Fire.objects.values_list("state", flat=True))


@pytest.mark.parametrize(
    ("broker", "pool"),
    [
        pytest.param("rabbitmq", "prefork", marks=pytest.mark.rabbitmq),
        *(pytest.param("redis", pool, marks=pytest.mark.redis) for pool in ("prefork", "threads", "solo")),
    ],
    indirect=["broker"],
)
def test_a_worker_runs_each_fire_once_whatever_copies_of_it_come(start, send, effects, pool):
    job = make_job("tests.worker.write", args=["paid"])
    fires = [make_fire(job, NOON.replace(minute=minute)) for minute in range(5)]
    worker = start(pool=pool)
    for fire in fires:
        send(fire, copies=3)

    eventually(lambda: worker.output.count("not run: ") == 10)
    assert states() == {"succeeded"}
    assert effects() == ["paid"] * 5
    assert JobRun.objects.count() == 5


def test_what_becomes_of_fires_of_different_tasks_and_of_a_direct_call(start, send, effects, broker, unique):
    """By one worker, with results stored by django-celery-results."""
    plain = make_fire(make_job("tests.worker.plain", args=["plain"], name="nightly"))
    quiet = make_fire(make_job("tests.worker.write_in_job_task", args=["quiet"], name="hourly"))
    failing = make_fire(make_job("tests.worker.fail", args=["boom"]))
    dying = make_fire(make_job("tests.worker.fail", args=["last"], max_attempts=1))
    start(CELERY_RESULT_BACKEND="django-db")
    for fire in (plain, quiet, failing, dying):
        send(fire)
    with kombu.Connection(broker) as connection:  # as by delay()
        headers = {"task": "tests.worker.ordinary", "id": "direct"}
        producer = connection.Producer()
        producer.publish([["direct"], {}, None], exchange="", routing_key=f"{unique}.default", headers=headers)
    eventually(lambda: len(effects()) == 5)
    assert "direct None False" in effects()

    def row(fire: Fire) -> tuple[str, str, int]:
        found = Fire.objects.by_id(fire.id)
        return found.state, found.reason, found.fence

    eventually(lambda: row(dying)[0] == "dead" and row(failing)[0] == "retry_wait" and row(quiet)[0] == "succeeded")
    assert row(plain) == ("claimed", "", 1), "sent: the ledger does not follow a plain task"
    assert row(failing) == ("retry_wait", "failed", 2)
    assert row(dying) == ("dead", "attempts_exhausted", 2)

    from django_celery_results.models import TaskResult

    def stored() -> dict[str, tuple[str, str | None]]:
        rows = TaskResult.objects.values_list("task_id", "status", "periodic_task_name")
        return {task_id: (status, name) for task_id, status, name in rows}

    eventually(lambda: len(stored()) == 5)
    assert stored() == {
        str(plain.id): ("SUCCESS", "nightly"),
        str(quiet.id): ("SUCCESS", "hourly"),
        str(failing.id): ("RETRY", ""),
        str(dying.id): ("FAILURE", ""),
        "direct": ("SUCCESS", None),
    }


def test_a_child_that_dies_inside_commit_leaves_neither_the_write_nor_the_completion(start, send, effects):
    fire = make_fire(make_job("tests.worker.die_before_commit", args=["half"]))
    worker = start()
    send(fire)

    worker.wait_for_line("WorkerLostError")
    assert effects() == []
    assert not JobRun.objects.exists()
    assert states() == {"running"}, "its lease runs out, and its owner takes it back"

    good = make_fire(make_job("tests.worker.write", args=["after"]))
    send(good)
    eventually(lambda: effects() == ["after"])


@pytest.mark.parametrize("broker", [REDIS], indirect=True)
def test_a_worker_follows_a_tenant_that_comes_while_it_runs(start, send, effects, unique):
    worker = start()
    Tenant.objects.create(slug="acme", weight=3)
    worker.wait_for_line(f"consuming {unique}.acme.transactional.v1")
    send(make_fire(make_job("tests.worker.write", tenant="acme", lane="transactional", args=["new"])))

    eventually(lambda: effects() == ["new"])
