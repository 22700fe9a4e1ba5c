"""The parts of the worker's step, on a broker in memory; real workers: `test_worker_queues`, `test_worker_door`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import kombu
import pytest
from celery import Celery
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connection
from django.utils import timezone

import fairness.worker
from fairness.core.door import Figures
from fairness.models import Tenant, TenantQueue, WorkerReport
from fairness.queues import QueuePlan
from fairness.worker import Sharing, TenantQueues
from fairness.worker import clerk as clerks
from fairness.worker.clerk import Clerk, InUse, Known, Reports, Rows, read

LANES = ("transactional", "bulk")
PLAN = QueuePlan(prefix="mine")


class Worker(SimpleNamespace):
    """As much of Celery's consumer as the step uses, on a broker in memory; its timer and its loop run when told."""

    def __init__(self, app: Celery[Any]) -> None:
        link = kombu.Connection("memory://")
        super().__init__(app=app, connection=link, conninfo=link, hub=object(), qos_global=False)
        self.hostname, self.initial_prefetch_count, self.controller = "w@tests", 8, None
        self.blueprint = SimpleNamespace(state=1)
        self.task_consumer = link.Consumer(on_message=lambda message: message.ack())
        self.pool = SimpleNamespace(num_processes=2, active=True)
        self.ready: list[Callable[[], None]] = []
        self.ticks: list[Callable[[], None]] = []
        self.timer = SimpleNamespace(
            call_repeatedly=self._call_repeatedly,
            cancel=self.ticks.remove,
            call_after=lambda _secs, function: self.ready.append(function),
        )

    def _call_repeatedly(self, _secs: float, function: Callable[[], None]) -> object:
        self.ticks.append(function)
        return function

    def call_soon(self, function: Callable[..., None], *args: Any) -> None:
        self.ready.append(lambda: function(*args))

    def run(self) -> None:
        while self.ready:
            self.ready.pop(0)()

    def tick(self) -> None:
        for function in list(self.ticks):
            function()

    def add_task_queue(self, queue: str) -> None:
        self.by_hand = queue

    def cancel_task_queue(self, queue: str) -> None:
        self.by_hand = f"not {queue}"

    @property
    def consumed(self) -> set[str]:
        return {queue.name for queue in self.task_consumer.queues if self.task_consumer.consuming_from(queue.name)}


@pytest.fixture
def app() -> Celery[Any]:
    app: Celery[Any] = Celery("tests", set_as_current=False)
    fairness.worker.install(app, lanes=LANES, plan=lambda: PLAN, sharing=lambda: Sharing(is_fair=False))
    return app


@pytest.fixture
def worker(app) -> Any:
    return Worker(app)


@pytest.fixture
def step(app, worker, monkeypatch) -> TenantQueues:
    """The step in its worker; what it is told the test says in the place of its clerk."""
    monkeypatch.setattr(Clerk, "start", lambda *_: None)
    (kind,) = app.steps["consumer"]
    step: TenantQueues = kind(worker)
    return step


def known(*slugs: str) -> Known:
    return Known({PLAN.queue_name(slug, lane): InUse(lane, 1.0) for slug in slugs for lane in LANES}, {})


def names(*slugs: str) -> set[str]:
    return set(known(*slugs).queues)


def test_installing_adds_one_step_that_knows_its_lanes_and_asks_for_its_plan():
    app = Celery("tests", set_as_current=False)

    fairness.worker.install(app, lanes=LANES, plan=lambda: PLAN)

    (step,) = app.steps["consumer"]
    assert issubclass(step, TenantQueues)
    assert step.lanes == LANES
    assert step.plan().prefix == "mine"
    assert step.sharing() == Sharing()


def test_nothing_is_consumed_before_the_workers_loop_runs(step, worker):
    step.start(worker)
    step._told(known("acme"))
    assert worker.consumed == set()

    worker.run()
    assert worker.consumed == names("acme")


def test_queues_that_come_into_use_are_consumed_and_those_that_go_are_not(step, worker):
    step.start(worker)
    worker.run()
    assert worker.consumed == set()

    step._told(known("acme", "other"))
    worker.run()
    assert worker.consumed == names("acme", "other")

    step._told(known("other"))
    worker.run()
    assert worker.consumed == names("other")


def test_after_a_reconnect_it_starts_from_nothing(step, app, worker):
    step.start(worker)
    step._told(known("acme"))
    worker.run()
    step.stop(worker)
    assert worker.ticks == []
    worker.task_consumer = kombu.Connection("memory://").Consumer()

    step.start(worker)
    worker.run()

    assert worker.consumed == names("acme")
    assert len(worker.ticks) == 1


def test_a_worker_told_by_q_what_to_consume_consumes_that_only(step, app, worker):
    app.amqp.queues.select(["mine.special"])

    step.start(worker)
    step._told(known("acme"))
    worker.run()
    assert worker.consumed == set()


def test_without_an_event_loop_the_timers_thread_leaves_the_channel_to_the_consumers(step, worker):
    worker.hub = None
    step.start(worker)
    worker.run()
    step._known = known("acme")

    worker.tick()
    assert worker.consumed == set()
    worker.run()
    assert worker.consumed == names("acme")


def test_on_rabbitmq_a_global_prefetch_is_refused_with_the_setting_to_change(step, worker):
    worker.qos_global = True
    step._is_amqp = True

    with pytest.raises(ImproperlyConfigured, match="CELERY_TASK_DEFAULT_QUEUE_TYPE"):
        step.start(worker)


def test_a_queue_that_a_person_cancels_is_not_consumed_until_it_is_added_again(step, worker):
    step.start(worker)
    step._told(known("acme"))
    worker.run()
    cancelled = PLAN.queue_name("acme", "bulk")

    worker.cancel_task_queue(cancelled)
    worker.tick()
    worker.run()
    assert worker.consumed == names("acme") - {cancelled}

    worker.add_task_queue(cancelled)
    worker.tick()
    worker.run()
    assert worker.consumed == names("acme")


def test_a_persons_own_queues_are_celerys_affair(step, worker):
    worker.add_task_queue("special")
    assert worker.by_hand == "special"

    worker.cancel_task_queue("special")
    assert worker.by_hand == "not special"


def test_of_a_pool_whose_ends_are_not_known_the_order_is_celerys(worker):
    app = Celery("tests", set_as_current=False)
    fairness.worker.install(app, lanes=LANES, plan=lambda: PLAN)
    worker.on_task_request = celerys = object()
    (kind,) = app.steps["consumer"]

    kind(worker)

    assert worker.on_task_request is celerys


def test_many_queues_are_begun_in_slices_between_which_the_loop_goes_on(step, worker, monkeypatch):
    monkeypatch.setattr("fairness.worker.consumers.SLICE_S", 0.0)  # a slice is one step at least
    step.start(worker)
    step._told(known(*(f"t{number}" for number in range(116))))
    turns = 0

    while worker.ready:
        worker.ready.pop(0)()
        turns += 1

    assert len(worker.consumed) == 232
    assert turns > 232


def test_two_ticks_in_a_row_begin_nothing_twice(step, worker):
    step.start(worker)
    step._known = known("acme")
    worker.tick()
    worker.tick()
    worker.run()
    tags = dict(worker.task_consumer._active_tags)

    worker.tick()
    worker.run()

    assert worker.task_consumer._active_tags == tags
    assert len(tags) == 2


# -- what it reads and writes ---------------------------------------------------------------------------------------


def in_use(name: str, tenant: Tenant | None, lane: str = "bulk", **row: Any) -> None:
    TenantQueue.objects.create(
        name=name, tenant=tenant, lane=lane, made_at=timezone.now(), used_at=timezone.now(), **row
    )


def test_the_queues_in_use_are_read_with_the_weights_of_their_tenants(db):
    acme = Tenant.objects.create(slug="acme", weight=2, transactional_weight=5)
    met = Tenant.objects.create(slug="met", weight=3)
    Tenant.objects.create(slug="stranger", weight=4)
    in_use("acme.bulk", acme)
    in_use("acme.transactional", acme, "transactional")
    in_use("shared.bulk", None)
    in_use("retired.bulk", acme, retired_at=timezone.now())

    found = clerks.known(read([met.slug]), LANES)

    assert found.queues == {
        "acme.bulk": InUse("bulk", 2),
        "acme.transactional": InUse("transactional", 5),
        "shared.bulk": InUse("bulk", 1),
    }
    assert found.weights == {
        ("transactional", "acme"): 5,
        ("bulk", "acme"): 2,
        ("transactional", "met"): 3,
        ("bulk", "met"): 3,
    }


def test_what_is_the_same_as_before_is_told_once(db):
    told: list[Known] = []
    clerk = Clerk(LANES, tell=told.append, tenants=tuple, figures=None)
    acme = Tenant.objects.create(slug="acme", weight=2)
    in_use("acme.bulk", acme)
    clerk._look()
    clerk._look()
    assert len(told) == 1

    Tenant.objects.filter(slug="acme").update(weight=3)
    clerk._look()

    assert [each.weights["bulk", "acme"] for each in told] == [2, 3]


def test_a_database_that_does_not_answer_is_said_once_and_changes_nothing(monkeypatch, caplog):
    told: list[Known] = []
    clerk = Clerk(LANES, tell=told.append, tenants=tuple, figures=None)
    answers: list[Any] = [DatabaseError("down"), DatabaseError("down"), Rows([], [("acme", 2.0, None)])]

    def answer(*_: Any) -> Rows:
        if isinstance(found := answers.pop(0), Exception):
            raise found
        return found

    monkeypatch.setattr("fairness.worker.clerk.read", answer)
    for _ in range(3):
        clerk._try(clerk._look)

    assert told == [Known({}, {("transactional", "acme"): 2.0, ("bulk", "acme"): 2.0})]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


FIGURES = Figures(slots=4, busy=3, waiting=2, interval_s=1.0, idle_s=0.5, ran=7, ran_s=3.5)


def test_a_worker_has_one_report_which_it_rewrites(db):
    reports = Reports("w@host")

    reports.write(FIGURES, is_leaving=False)
    first = WorkerReport.objects.get()
    assert (first.name, first.slots, first.busy, first.waiting, first.is_leaving) == ("w@host", 4, 3, 2, False)
    assert (first.interval_s, first.idle_s, first.ran, first.ran_s) == (1.0, 0.5, 7, 3.5)

    reports.write(FIGURES, is_leaving=True)
    again = WorkerReport.objects.get()
    assert again.is_leaving
    assert again.seen_at >= first.seen_at


def test_a_worker_that_ends_leaves_how_many_slots_it_had(db):
    given = [FIGURES, replace(FIGURES, slots=0, busy=0)]
    clerk = Clerk(LANES, tell=lambda _: None, tenants=tuple, figures=lambda: given.pop(0))
    clerk._reports = Reports("w@host")
    clerk.leaving()
    clerk._report()
    clerk._report()
    assert WorkerReport.objects.get().slots == 4


def test_reports_of_workers_that_are_gone_are_forgotten_after_an_hour(db):
    reports = Reports("w@host")
    reports.write(FIGURES, is_leaving=False)

    reports.forget_the_gone()
    assert WorkerReport.objects.count() == 1

    with connection.cursor() as cursor:
        cursor.execute("UPDATE fairness_workerreport SET seen_at = seen_at - interval '61 minutes'")
    reports.forget_the_gone()
    assert WorkerReport.objects.count() == 0
