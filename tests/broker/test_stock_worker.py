"""A worker of Celery that has never heard of us executes what we publish."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from celery import Celery
from celery._state import get_current_app
from celery.contrib.testing.worker import start_worker
from kombu import Exchange, Queue

from fairness.queues import QueuePlan
from scheduling.broker.kombu_publisher import KombuPublisher
from scheduling.core import message
from scheduling.core.fire import Verdict
from tests.broker.conftest import MakeRabbitMQ, Queues
from tests.broker.outcomes import Outcomes, fire, unknown, work
from tests.processes import PATIENCE_S

TASK = "tests.broker.echo"
COUNT = 20


class Executions:
    """What a stock task saw of its calls."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self._changed = threading.Condition()

    def add(self, one: dict[str, Any]) -> None:
        with self._changed:
            self.seen.append(one)
            self._changed.notify_all()

    def wait(self, count: int) -> list[dict[str, Any]]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= count, PATIENCE_S), f"{len(self.seen)} executions"
        return self.seen


@contextmanager
def stock_worker(url: str, queue: Queue) -> Iterator[Executions]:
    # Without Celery's care for Django: it would close the connections of this process at each task from now on.
    app = Celery("stock", broker=url, set_as_current=False, fixups=[])
    app.conf.update(
        task_queues=[queue],
        task_default_queue=queue.name,
        worker_hijack_root_logger=False,
        broker_heartbeat=2,  # its loop looks up at each: so it ends soon
    )
    executions = Executions()

    @app.task(name=TASK, bind=True, acks_late=True, shared=False)
    def echo(task: Any, *args: Any, **kwargs: Any) -> None:
        request = task.request
        executions.add(
            {"id": request.id, "args": args, "kwargs": kwargs, "headers": request.headers, "retries": request.retries}
        )

    with _as_before(), start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=30):
        yield executions
    app.close()


@contextmanager
def _as_before() -> Iterator[None]:
    """Celery makes the worker's app the process's own, and lets the process log errors only: not beyond its end."""
    root, app = logging.getLogger(), get_current_app()
    level, handlers = root.level, root.handlers[:]
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
        app.set_current()
        app.set_default()


FIRES = [fire(work(args=f'[{number}, "é"]', kwargs='{"key": [1, null]}')) for number in range(COUNT)]


def assert_all_ran_once(seen: list[dict[str, Any]]) -> None:
    ran = {one["id"]: one for one in seen}
    assert sorted(ran) == sorted(str(one.id) for one in FIRES)
    assert len(seen) == COUNT
    for number, sent in enumerate(FIRES):
        one = ran[str(sent.id)]
        assert (one["args"], one["kwargs"], one["retries"]) == ((number, "é"), {"key": [1, None]}, 0)
        assert one["headers"][message.FENCE] == sent.fence
        assert one["headers"][message.SCHEDULED_FOR] == message.instant(sent.scheduled_for)
        assert one["headers"][message.JOB_NAME] == sent.work.name


@pytest.mark.rabbitmq
def test_it_executes_what_comes_over_rabbitmq(
    rabbitmq_publisher: MakeRabbitMQ, rabbitmq_url: str, queues: Queues, outcomes: Outcomes
) -> None:
    publisher = rabbitmq_publisher()
    publisher.start(outcomes.report)
    assert outcomes.publish(publisher, FIRES) == {Verdict.CONFIRMED: COUNT}
    spec = queues.of("acme")
    queue = Queue(spec.name, Exchange(""), queue_arguments=dict(spec.arguments))
    with stock_worker(rabbitmq_url, queue) as executions:
        assert_all_ran_once(executions.wait(COUNT))


@pytest.mark.redis
def test_it_executes_what_comes_over_redis(redis_url: str, unique: str, outcomes: Outcomes) -> None:
    spec = QueuePlan(prefix=unique).queue("acme", "bulk")
    publisher = KombuPublisher(redis_url, origin="gen1@test", ignore_result=unknown, queue_for=lambda _: spec)
    publisher.start(outcomes.report)
    assert outcomes.publish(publisher, FIRES) == {Verdict.CONFIRMED: COUNT}
    publisher.stop(timeout_s=5)
    try:
        with stock_worker(redis_url, Queue(spec.name)) as executions:
            assert_all_ran_once(executions.wait(COUNT))
    finally:
        client = redis.Redis.from_url(redis_url)
        client.delete(*client.scan_iter(f"*{unique}*", count=10_000), spec.name)
