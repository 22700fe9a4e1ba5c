"""The worker's step that consumes the tenants' queues, on a broker in memory; a real one: `test_worker_queues`."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import kombu
import pytest
from celery import Celery
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError

import fairness.worker
from fairness.models import Tenant
from fairness.queues import QueuePlan
from fairness.worker import TenantQueues, shares

LANES = ("transactional", "bulk")


@pytest.mark.parametrize(
    ("weights", "slots", "expected"),
    [
        ({"a": 1}, 4, {"a": 8}),
        ({"a": 1, "b": 3}, 4, {"a": 2, "b": 6}),
        ({"a": 1, "b": 1, "c": 1000}, 2, {"a": 1, "b": 1, "c": 4}),
        ({}, 4, {}),
    ],
)
def test_the_queues_share_twice_the_slots_by_weight_and_have_one_at_least(weights, slots, expected):
    assert shares(weights, slots) == expected


def test_installing_adds_one_step_that_knows_its_lanes_and_asks_for_its_plan():
    app = Celery("tests", set_as_current=False)

    fairness.worker.install(app, lanes=LANES, plan=lambda: QueuePlan(prefix="mine"))

    (step,) = app.steps["consumer"]
    assert issubclass(step, TenantQueues)
    assert step.lanes == LANES
    assert step.plan().prefix == "mine"


class Worker(SimpleNamespace):
    """As much of Celery's consumer as the step uses, on a broker in memory; its timer and its loop run when told."""

    def __init__(self, app: Celery[Any]) -> None:
        connection = kombu.Connection("memory://")
        super().__init__(app=app, connection=connection, hub=object(), qos_global=False, initial_prefetch_count=8)
        self.task_consumer = connection.Consumer(on_message=lambda message: message.ack())
        self.pool = SimpleNamespace(num_processes=2, active=True)
        self.ready: list[Callable[[], None]] = []
        self.ticks: list[Callable[[], None]] = []
        self.timer = SimpleNamespace(call_repeatedly=self._call_repeatedly, cancel=self.ticks.remove)

    def _call_repeatedly(self, _secs: float, function: Callable[..., None], args: tuple[Any, ...]) -> object:
        def tick() -> None:
            function(*args)

        self.ticks.append(tick)
        return tick

    def call_soon(self, function: Callable[..., None], *args: Any) -> None:
        self.ready.append(lambda: function(*args))

    def run(self) -> None:
        while self.ready:
            self.ready.pop(0)()

    def tick(self) -> None:
        for function in list(self.ticks):
            function()

    @property
    def consumed(self) -> set[str]:
        return {queue.name for queue in self.task_consumer.queues if self.task_consumer.consuming_from(queue.name)}


@pytest.fixture
def app() -> Celery[Any]:
    app: Celery[Any] = Celery("tests", set_as_current=False)
    fairness.worker.install(app, lanes=LANES, plan=lambda: QueuePlan(prefix="mine"))
    return app


@pytest.fixture
def worker(app) -> Any:
    return Worker(app)


@pytest.fixture
def step(app, worker, db, monkeypatch) -> TenantQueues:
    """The step in its worker; its database connection is the test's, and is not closed."""
    monkeypatch.setattr("django.db.close_old_connections", lambda: None)
    (kind,) = app.steps["consumer"]
    step: TenantQueues = kind(worker)
    return step


def names(*slugs: str) -> set[str]:
    return {f"mine.{slug}.{lane}.v1" for slug in slugs for lane in LANES}


def test_nothing_is_consumed_before_the_workers_loop_runs(step, worker):
    step.start(worker)
    assert worker.consumed == set()

    worker.run()
    assert worker.consumed == names("default")


def test_tenants_that_come_are_consumed_and_those_that_go_are_not(step, worker):
    step.start(worker)
    worker.run()

    acme = Tenant.objects.create(slug="acme")
    worker.tick()
    assert worker.consumed == names("default", "acme")

    acme.delete()
    worker.tick()
    assert worker.consumed == names("default")


def test_after_a_reconnect_it_starts_from_nothing(step, app, worker):
    step.start(worker)
    worker.run()
    step.stop(worker)
    assert worker.ticks == []

    again = Worker(app)
    step.start(again)
    again.run()
    assert again.consumed == names("default")
    assert len(again.ticks) == 1


def test_a_database_that_does_not_answer_changes_nothing(step, worker, monkeypatch):
    step.start(worker)
    worker.run()

    def down(*_):
        raise DatabaseError("down")

    with monkeypatch.context() as patch:
        patch.setattr(Tenant.objects, "values_list", down)
        worker.tick()
    assert worker.consumed == names("default")

    Tenant.objects.create(slug="acme")
    worker.tick()
    assert worker.consumed == names("default", "acme")


def test_a_worker_told_by_q_what_to_consume_consumes_that_only(step, app, worker):
    app.amqp.queues.select(["mine.special"])

    step.start(worker)
    worker.run()
    assert worker.consumed == set()
    assert worker.ticks == []


def test_without_an_event_loop_the_timers_thread_leaves_the_channel_to_the_consumers(step, worker):
    worker.hub = None
    step.start(worker)
    worker.run()
    Tenant.objects.create(slug="acme")

    worker.tick()
    assert worker.consumed == names("default")
    worker.run()
    assert worker.consumed == names("default", "acme")


def test_on_rabbitmq_a_global_prefetch_is_refused_with_the_setting_to_change(step, worker):
    worker.qos_global = True
    worker.connection.transport.driver_type = "amqp"

    with pytest.raises(ImproperlyConfigured, match="CELERY_TASK_DEFAULT_QUEUE_TYPE"):
        step.start(worker)
