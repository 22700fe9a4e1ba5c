"""Real workers with the fair door, on RabbitMQ: Celery's own features go on working, and long tasks are not hoarded."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import amqp
import kombu
import pytest
from celery import Celery

from fairness.models import WorkerReport
from fairness.queues import QueuePlan
from tests.processes import PATIENCE_S, Spawned, eventually
from tests.proxy import Proxy
from tests.queues_in_use import LANES, use

pytestmark = [pytest.mark.rabbitmq, pytest.mark.django_db(transaction=True)]

TASK = "tests.worker.hold"
SLUGS = ("default", "acme", "abc")

Send = Callable[..., None]
Start = Callable[..., Spawned]


@pytest.fixture
def plan(unique: str) -> QueuePlan:
    return QueuePlan(prefix=unique)


@pytest.fixture
def channel(rabbitmq_url: str, plan: QueuePlan) -> Iterator[Any]:
    """A channel of ours; the queues of this test are removed by it in the end."""
    with kombu.Connection(rabbitmq_url) as connection:
        channel: Any = connection.channel()
        yield channel
        names = [plan.queue_name(slug, lane) for slug in SLUGS for lane in LANES]
        for name in (*names, *(plan.dead_letters(lane).queue for lane in LANES), f"{plan.prefix}.default"):
            channel.queue_delete(name)
        channel.exchange_delete(plan.dead_letters("bulk").exchange)


@pytest.fixture
def start(channel: Any, spawn: Any, plan: QueuePlan, rabbitmq_url: str, unique: str) -> Iterator[Start]:
    """A worker that consumes both tenants' queues. It is killed in the end, whatever it runs."""
    for slug in SLUGS:
        use(plan, slug)
    started: list[Spawned] = []

    def worker(pool: str, slots: int, url: str = rabbitmq_url) -> Spawned:
        process: Spawned = spawn(
            "celery", "-A", "project", "worker", "-I", "tests.worker.sample_tasks", "-P", pool, "-c", str(slots),
            "-n", f"{unique}@%h", "-l", "INFO", "--without-gossip", "--without-mingle",
            "--", "worker.pool_restarts=True",
            ready=f"consuming {unique}.default.transactional.v1",  # the last one, in the order of the rows
            CELERY_BROKER_URL=url, FAIRBEAT_QUEUE_PREFIX=unique, FAIRBEAT_FAIRNESS="fair", FAIRBEAT_STOP="3",
        )  # fmt: skip
        started.append(process)
        return process

    yield worker
    for process in started:
        process.send_signal(signal.SIGKILL)


@pytest.fixture
def send(channel: Any, plan: QueuePlan) -> Send:
    """A message of a task that holds its slot until there is such a file."""

    def publish(task_id: str, path: Path, slug: str = "default", lane: str = "bulk", **headers: Any) -> None:
        message = amqp.Message(
            json.dumps([[str(path)], {}, None]),
            content_type="application/json",
            content_encoding="utf-8",
            application_headers={"task": TASK, "id": task_id, "fb_tenant": slug, **headers},
        )
        channel.basic_publish(message, routing_key=plan.queue_name(slug, lane))

    return publish


class Control:
    """Celery's remote control of the one worker, and of no other at the same broker."""

    def __init__(self, url: str, name: str) -> None:
        self._app: Celery[Any] = Celery("tests", broker=url, set_as_current=False)
        self._of_it: dict[str, Any] = {"pattern": f"{name}@*", "matcher": "glob"}

    def tell(self, what: str, *arguments: Any) -> None:
        getattr(self._app.control, what)(*arguments, **self._of_it)

    def restart_pool(self) -> None:
        self._app.control.broadcast(
            "pool_restart", arguments={"reload": False}, reply=True, timeout=PATIENCE_S, limit=1, **self._of_it
        )

    def limit_rate(self, rate: str) -> None:
        """Of the task; returns when it is done."""
        self._app.control.rate_limit(TASK, rate, reply=True, timeout=PATIENCE_S, limit=1, **self._of_it)

    def ask(self, what: str) -> Any:
        inspect = self._app.control.inspect(timeout=PATIENCE_S, limit=1, **self._of_it)
        answers = eventually(getattr(inspect, what))
        return next(iter(answers.values()))

    def ids(self, what: str) -> set[str]:
        return {request["id"] for request in self.ask(what)}


@pytest.fixture
def control(rabbitmq_url: str, unique: str) -> Control:
    return Control(rabbitmq_url, unique)


def test_celerys_own_features_go_on_working_beside_the_door(start, send, control, plan, rabbitmq_url, tmp_path):
    """One worker, since to start one takes longest."""
    proxy = Proxy(("127.0.0.1", 5672))
    worker = start("prefork", 1, proxy.through(rabbitmq_url))
    release, never, now = tmp_path / "release", tmp_path / "never", tmp_path / "now"
    now.touch()

    # a lost connection: what waited is delivered again, what ran ends in its own time, and no slot is lost
    send("runs", release, slug="abc")
    worker.wait_for_line("[runs] received")
    send("waits", release, slug="abc", lane="transactional")
    worker.wait_for_line("[waits] received")
    proxy.cut()
    worker.wait_for_line("Connection to broker lost")
    eventually(lambda: worker.output.count("[waits] received") == 2)
    release.touch()
    worker.wait_for_line("[waits] succeeded")
    eventually(lambda: worker.output.count("[runs] succeeded") == 2)  # it was not acknowledged
    eventually(lambda: control.ask("stats")["fair_door"] == {"slots": 1, "running": 0, "waiting": 0})

    # inspect, revoke, pool_grow; the first task runs from now on all the time
    send("first", never)
    worker.wait_for_line("[first] received")

    send("second", now, slug="acme")
    send("third", now, lane="transactional")
    send("fourth", now, slug="acme", lane="transactional")
    eventually(lambda: control.ids("reserved") == {"second", "third", "fourth"})
    assert control.ids("active") == {"first"}
    assert control.ask("stats")["fair_door"] == {"slots": 1, "running": 1, "waiting": 3}
    eventually(lambda: WorkerReport.objects.filter(slots=1, busy=1, waiting=3, is_leaving=False).exists())
    control.tell("revoke", "second")
    control.tell("pool_grow", 1)
    worker.wait_for_line("Discarding revoked task: tests.worker.hold[second]")
    worker.wait_for_line("[third] succeeded")
    worker.wait_for_line("[fourth] succeeded")
    assert control.ids("active") == {"first"}

    # a limit of time, which kills the child
    send("too long", tmp_path / "no such", slug="acme", timelimit=[0.2, None])
    worker.wait_for_line("Hard time limit (0.2s) exceeded for tests.worker.hold[too long]")

    # cancel_consumer, add_consumer
    cancelled = plan.queue_name("acme", "bulk")
    control.tell("cancel_consumer", cancelled)
    eventually(lambda: cancelled not in {queue["name"] for queue in control.ask("active_queues")})
    send("fifth", now, slug="acme")
    control.tell("add_consumer", plan.queue_name("nobody", "bulk"))
    control.tell("add_consumer", cancelled)
    worker.wait_for_line("[fifth] succeeded")
    worker.wait_for_line(f"{plan.queue_name('nobody', 'bulk')} is not consumed")

    # pool_restart, rate_limit
    control.restart_pool()
    control.limit_rate("1/m")
    send("sixth", now, slug="acme")
    worker.wait_for_line("[sixth] succeeded")
    send("seventh", now, slug="acme")
    worker.wait_for_line("[seventh] received")
    eventually(lambda: control.ask("stats")["fair_door"]["running"] == 1)

    worker.send_signal(signal.SIGTERM)
    eventually(lambda: WorkerReport.objects.filter(slots=1, busy=1, is_leaving=True).exists())
    never.touch()
    assert worker.wait() == 0
    assert "[first] succeeded" in worker.output
    assert "[seventh] succeeded" not in worker.output
    assert WorkerReport.objects.get().is_leaving  # it stays: nodes know by it how many slots there were


def test_of_long_tasks_a_worker_takes_no_more_than_it_has_slots(start, send, control, channel, plan, tmp_path):
    worker = start("threads", 2)
    queue, release = plan.queue_name("default", "bulk"), tmp_path / "release"

    def ready(name: str) -> int:
        return int(channel.queue_declare(name, passive=True).message_count)

    for number in range(6):
        send(f"long-{number}", release)

    worker.wait_for_line(f"asking {queue} for each message")
    eventually(lambda: len(control.ids("active")) == 2)
    assert control.ids("reserved") == set()
    assert ready(queue) == 4

    release.touch()
    for number in range(6):
        worker.wait_for_line(f"[long-{number}] succeeded")
    # Not before: a quorum queue counts whoever took a message as a consumer until that is acknowledged.
    eventually(lambda: channel.queue_declare(queue, passive=True).consumer_count == 0)

    # What a rate limit holds has no slot, and no prefetch bounds it: of that, too, there is no more.
    limited = plan.queue_name("acme", "bulk")
    control.limit_rate("1/h")
    for number in range(8):
        send(f"limited-{number}", tmp_path / "never", slug="acme")
    eventually(lambda: ready(limited) == 5)
    before = WorkerReport.objects.get().seen_at
    eventually(lambda: WorkerReport.objects.get().seen_at > before)
    assert ready(limited) == 5
    assert control.ids("active") == {"limited-0"}


def test_a_worker_that_ends_amid_short_tasks_waits_for_no_process_and_leaves_nothing_done_in_its_queue(
    start, send, channel, plan, tmp_path
):
    """Some process has always just begun. Unheard, it waits for half a minute, and so the worker for it."""
    now = tmp_path / "now"
    now.touch()
    worker = start("prefork", 4)
    tasks = 1500
    for number in range(tasks):
        send(f"short-{number}", now)
    worker.wait_for_line("[short-300] succeeded")
    worker.send_signal(signal.SIGTERM)

    assert worker.wait(timeout_s=20) == 0
    left = channel.queue_declare(plan.queue_name("default", "bulk"), passive=True).message_count
    assert worker.output.count("] succeeded in") + left == tasks
