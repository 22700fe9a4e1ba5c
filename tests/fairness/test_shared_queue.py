"""A real worker at a queue that many tenants share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kombu
import pytest
from django.utils import timezone

from fairness.models import TenantQueue
from fairness.queues import QueuePlan, choices
from scheduling.core import message
from tests.processes import eventually

pytestmark = [pytest.mark.rabbitmq, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def plan(unique: str) -> QueuePlan:
    return QueuePlan(prefix=unique, max_length=7)  # of another release: the worker knows it by its name


@pytest.fixture
def channel(rabbitmq_url: str, plan: QueuePlan) -> Iterator[Any]:
    with kombu.Connection(rabbitmq_url) as connection:
        yield connection.channel()
        channel: Any = connection.channel()
        channel.queue_delete(plan.shared_name(choices("acme", 16)[0], 16, "bulk"))


def test_it_runs_what_may_come_through_it_and_rejects_what_may_not(spawn, channel, plan, unique, rabbitmq_url):
    name = plan.shared_name(choices("acme", 16)[0], 16, "bulk")
    other = next(slug for slug in map(str, range(99)) if choices("acme", 16)[0] not in choices(slug, 16))
    TenantQueue.objects.create(name=name, lane="bulk", made_at=timezone.now(), used_at=timezone.now())
    worker = spawn(
        "celery", "-A", "project", "worker", "-P", "threads", "-c", "4", "-n", f"{unique}@%h", "-l", "INFO",
        "--without-gossip", "--without-mingle", "-I", "tests.worker.sample_tasks",
        ready=f"consuming {name}", CELERY_BROKER_URL=rabbitmq_url, FAIRBEAT_QUEUE_PREFIX=unique,
    )  # fmt: skip
    producer = kombu.Producer(channel)

    def publish(task_id: str, **headers: str) -> None:
        said = {"task": "tests.worker.ordinary", "id": task_id} | headers
        producer.publish([["done"], {}, None], exchange="", routing_key=name, headers=said)

    publish("anothers", **{message.TENANT: other})
    publish("nobodys")
    publish("acmes", **{message.TENANT: "acme"})

    worker.wait_for_line("tests.worker.ordinary[acmes] received")
    dead = plan.dead_letters("bulk")
    died = [eventually(lambda: channel.basic_get(dead.queue, no_ack=True)) for _ in range(2)]
    assert [letter.properties["application_headers"]["id"] for letter in died] == ["anothers", "nobodys"]
    assert "is rejected, it says that it is" in worker.output
    assert "tests.worker.ordinary[anothers] received" not in worker.output
