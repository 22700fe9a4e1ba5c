"""Real Celery workers: messages as a node sends them, through RabbitMQ and through Redis, into each kind of pool."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import kombu
import pytest
from django.db import connection

from fairness.queues import QueuePlan
from scheduling.core import message
from scheduling.models import DeadLetter, Fire, JobRun, WorkerTask
from tests.fires import NOON, claimed, headers_of, make_fire, make_job
from tests.processes import Spawned, eventually
from tests.queues_in_use import use

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
def start(spawn: Any, broker: str, unique: str, plan: QueuePlan, effects: Any) -> Iterator[Start]:
    """Start a worker that consumes the tenants' queues of this test alone. It is killed at the end, and not drained."""
    use(plan, "default")
    started: list[Spawned] = []

    def worker(*options: str, pool: str = "prefork", **environ: str) -> Spawned:
        process: Spawned = spawn(
            "celery", "-A", "project", "worker", "-I", TASKS, "-P", pool, "-c", "2", "-n", f"{unique}@%h", "-l", "INFO",
            "--without-gossip", "--without-mingle", *options,
            ready=f"consuming {unique}.default.bulk", CELERY_BROKER_URL=broker, FAIRBEAT_QUEUE_PREFIX=unique, **environ,
        )  # fmt: skip
        started.append(process)
        return process

    yield worker
    for process in started:
        process.send_signal(signal.SIGKILL)


@pytest.fixture
def send(broker: str, plan: QueuePlan) -> Iterator[Send]:
    """Publish the fire's message into its tenant's queue, `copies` times; a worker must have made the queue."""
    with kombu.Connection(broker) as link:
        producer = link.Producer()

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
    with kombu.Connection(broker) as link:
        if link.transport.driver_type == "amqp":
            channel: Any = link.default_channel
            for slug in ("default", "acme"):
                for lane in ("bulk", "transactional"):
                    channel.queue_delete(plan.queue_name(slug, lane))
                    channel.queue_delete(plan.dead_letters(lane).queue)
            channel.queue_delete(f"{plan.prefix}.default")
            channel.exchange_delete(plan.dead_letters("bulk").exchange)


def states() -> set[str]:
    return set(Fire.objects.values_list("state", flat=True))


def ask_to_stop(fire: Fire) -> None:
    Fire.objects.filter(id=fire.id).update(cancel_reason="no longer wanted")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify('fairbeat_cancel', %s)", [str(fire.id)])


@pytest.mark.parametrize(
    ("broker", "pool"),
    [
        pytest.param("rabbitmq", "prefork", marks=pytest.mark.rabbitmq),
        *(pytest.param("redis", pool, marks=pytest.mark.redis) for pool in ("threads", "solo", "gevent")),
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

    leaving = [make_fire(make_job("tests.worker.leave")) for _ in range(3)]  # more than can run at a time
    for fire in leaving:
        send(fire)
    ids = [fire.id for fire in leaving]
    eventually(lambda: Fire.objects.filter(id__in=ids, state="retry_wait").count() == 3)

    if pool in ("threads", "gevent"):  # prefork: below
        stopped = make_fire(make_job("tests.worker.stop_when_asked", args=["stopped"]))
        send(stopped)
        eventually(lambda: "stopped" in effects())
        ask_to_stop(stopped)
        eventually(lambda: Fire.objects.by_id(stopped.id).reason == "cancelled")
    if pool == "gevent":  # of the others, prefork alone has time limits: below
        hung = make_fire(make_job("tests.worker.hang_once", args=["hung"], hard_timeout_s=0.2))
        send(hung)
        eventually(lambda: JobRun.objects.filter(fire_id=hung.id, state="timed_out").exists())


def test_what_becomes_of_fires_of_different_tasks_and_of_a_direct_call(start, send, effects, broker, unique):
    """By one worker, with results stored by django-celery-results."""
    plain = make_fire(make_job("tests.worker.plain", args=["plain"], name="nightly"))
    quiet = make_fire(make_job("tests.worker.write_in_job_task", args=["quiet"], name="hourly"))
    failing = make_fire(make_job("tests.worker.fail", args=["boom"]))
    dying = make_fire(make_job("tests.worker.fail", args=["last"], max_attempts=1))
    start(CELERY_RESULT_BACKEND="django-db")
    for fire in (plain, quiet, failing, dying):
        send(fire)
    with kombu.Connection(broker) as link:  # as by delay()
        headers = {"task": "tests.worker.ordinary", "id": "direct"}
        producer = link.Producer()
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


def test_what_children_do_not_survive_ends_at_once_and_runs_again(start, send, effects):
    """Of one worker; the test brings back what waits, as the owner of its shard would."""
    at_once = {"retry_base": timedelta(0), "retry_cap": timedelta(0)}

    def fire_of(task: str, what: str, **policy: Any) -> Fire:
        return make_fire(make_job(f"tests.worker.{task}", args=[what], **(at_once | policy)))

    fires = {
        "hung": fire_of("hang_once", "hung", hard_timeout_s=0.4),
        "died": fire_of("die_once", "died"),
        "half": fire_of("die_before_commit", "half", max_attempts=1),
        "poison": fire_of("poison", "poison", max_attempts=2),
        "steps": fire_of("die_between_steps", "step"),
        "snoozed": fire_of("snooze_once", "snoozed", max_attempts=1),
        "stopped": fire_of("stop_when_asked", "stopped"),
    }
    start("-c", "4")
    for fire in fires.values():
        send(fire)

    def all_have_ended() -> bool:
        for row in Fire.objects.filter(state="retry_wait").select_related("job__tenant"):
            Fire.objects.filter(id=row.id).update(state="claimed", wake_at=None)
            send(row)
        return not Fire.objects.filter(state__in=["claimed", "running", "retry_wait"]).exists()

    eventually(lambda: "stopped" in effects())
    ask_to_stop(fires["stopped"])
    eventually(all_have_ended)

    def history(name: str) -> tuple[str, list[str]]:
        row = Fire.objects.by_id(fires[name].id)
        runs = JobRun.objects.filter(fire_id=row.id).order_by("fence")
        return f"{row.state} {row.reason}".strip(), [run.state for run in runs]

    assert {name: history(name) for name in fires} == {
        "hung": ("succeeded", ["timed_out", "succeeded"]),
        "died": ("succeeded", ["lost", "succeeded"]),
        "half": ("dead attempts_exhausted", ["lost"]),
        "poison": ("dead attempts_exhausted", ["lost", "lost"]),
        "steps": ("succeeded", ["lost", "succeeded"]),
        "snoozed": ("succeeded", ["snoozed", "succeeded"]),
        "stopped": ("dead cancelled", ["cancelled"]),
    }
    once = ["died", "hung", "snoozed", "step 1", "step 2", "stopped"]
    assert Counter(effects()) == Counter([*once, "poison", "poison"])
    assert JobRun.objects.get(fire_id=fires["steps"].id, state="succeeded").result == "'step 1, step 2'"
    assert {letter.reason for letter in DeadLetter.objects.all()} == {"attempts_exhausted", "cancelled"}
    assert WorkerTask.objects.get(name="tests.worker.poison").is_guarded
    assert not WorkerTask.objects.get(name="tests.worker.plain").is_guarded


@pytest.mark.parametrize("broker", [REDIS], indirect=True)
def test_a_worker_follows_a_tenant_that_comes_while_it_runs(start, send, effects, unique, plan):
    worker = start()
    use(plan, "acme", weight=3)
    worker.wait_for_line(f"consuming {unique}.acme.transactional.v1")
    send(make_fire(make_job("tests.worker.write", tenant="acme", lane="transactional", args=["new"])))

    eventually(lambda: effects() == ["new"])
