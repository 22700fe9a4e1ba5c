"""The gate before the task handler, with a consumer that is as much of Celery's as it uses; a real one:
`test_worker_dead_letters`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import kombu
import pytest
from celery import Celery
from django.core.exceptions import ImproperlyConfigured

import fairness.worker
from fairness.queues import QueuePlan, choices
from fairness.unreadable import Gate
from fairness.worker import Sharing

PLAN = QueuePlan(prefix="mine")
TENANT = "x_tenant"
ACMES, ANOTHERS = choices("acme", 4)[0], next(n for n in range(4) if n not in choices("acme", 4))
TAGS = {
    PLAN.queue_name("acme", "bulk"): "1",
    "celery": "2",
    PLAN.shared_name(ACMES, 4, "bulk"): "3",
    PLAN.shared_name(ANOTHERS, 4, "bulk"): "4",
}


class Message(SimpleNamespace):
    """A message of the queue with this tag, that says what became of it."""

    def __init__(self, tag: str, payload: Any = ([], {}, None), **headers: Any) -> None:
        super().__init__(
            delivery_info={"consumer_tag": tag},
            payload=payload,
            headers={"task": "send", "id": "7"} | headers,
            became="",
        )

    def reject_log_error(self, _log: object, _errors: object) -> None:
        self.became = "rejected"


class Consumer(SimpleNamespace):
    """Celery's consumer; what gets through is handled, or acknowledged where it cannot be decoded."""

    def __init__(self) -> None:
        super().__init__(connection_errors=(), task_consumer=SimpleNamespace(_active_tags=TAGS, on_decode_error=None))

    def create_task_handler(self) -> Any:
        return lambda message: setattr(message, "became", "handled")

    def on_decode_error(self, message: Message, _error: Exception) -> None:
        message.became = "acknowledged"


@pytest.fixture
def consumer() -> Any:
    consumer = Consumer()
    Gate(tenant_header=TENANT).open(consumer, PLAN)
    return consumer


@pytest.mark.parametrize(
    ("message", "became"),
    [
        (Message("1"), "handled"),
        (Message("1", **{TENANT: "acme"}), "handled"),
        (Message("1", **{TENANT: "other"}), "rejected"),
        (Message("1", **{TENANT: 5}), "rejected"),
        (Message("1", payload=5), "rejected"),
        (Message("2", payload=5), "handled"),
        (Message("2", **{TENANT: "other"}), "handled"),
        (Message("1", **{TENANT: None}), "rejected"),
        (Message("3", **{TENANT: "acme"}), "handled"),
        (Message("3", payload=5, **{TENANT: "acme"}), "rejected"),
        (Message("3"), "rejected"),
        (Message("3", **{TENANT: None}), "rejected"),
        (Message("4", **{TENANT: "acme"}), "rejected"),
    ],
)
def test_of_a_tenants_queue_what_a_worker_would_end_at_is_rejected_and_nothing_else(consumer, message, became):
    consumer.create_task_handler()(message)
    assert message.became == became


@pytest.mark.parametrize(("tenant", "became"), [("acme", "handled"), ("other", "rejected")])
def test_what_a_worker_asked_for_is_judged_by_the_queue_that_it_names(consumer, tenant, became):
    message = Message("", **{TENANT: tenant})
    message.delivery_info = {"exchange": "", "routing_key": PLAN.queue_name("acme", "bulk")}
    consumer.create_task_handler()(message)
    assert message.became == became


@pytest.mark.parametrize(("tag", "became"), [("1", "rejected"), ("2", "acknowledged")])
def test_what_cannot_be_decoded_is_rejected_if_it_came_from_a_tenants_queue(consumer, tag, became):
    message = Message(tag)
    consumer.task_consumer.on_decode_error(message, ValueError("no gzip"))
    assert message.became == became


def test_behind_a_reconnect_a_queue_is_known_by_its_new_tag_and_the_gate_stands_there_once():
    consumer, gate = Consumer(), Gate()
    gate.open(consumer, PLAN)
    handle = consumer.create_task_handler
    consumer.create_task_handler()(Message("1"))
    consumer.task_consumer = SimpleNamespace(_active_tags={name: TAGS[name] + "0" for name in TAGS} | {"celery": "1"})
    gate.open(consumer, PLAN)

    assert consumer.create_task_handler is handle
    old, new = Message("1", payload=5), Message("10", payload=5)
    for message in (old, new):
        consumer.create_task_handler()(message)
    assert (old.became, new.became) == ("handled", "rejected")


def test_no_worker_consumes_the_dead_letters_even_if_told_to():
    app: Celery[Any] = Celery("tests", set_as_current=False)
    fairness.worker.install(app, lanes=("bulk",), plan=lambda: PLAN, sharing=lambda: Sharing(is_fair=False))
    (kind,) = app.steps["consumer"]
    app.amqp.queues.select([PLAN.dead_letters("bulk").queue])
    link = kombu.Connection("memory://")
    worker = SimpleNamespace(app=app, conninfo=link, hub=None, add_task_queue=None, cancel_task_queue=None)

    with pytest.raises(ImproperlyConfigured, match="dead letters are for scheduler nodes"):
        kind(worker).start(worker)
