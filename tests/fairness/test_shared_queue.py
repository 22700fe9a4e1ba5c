"""A real worker at a queue that many tenants share, and that goes out of use and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import kombu
import pytest
from django.db import connection
from django.utils import timezone

from fairness.models import TenantQueue
from fairness.queue_janitor import Janitor
from fairness.queues import QueuePlan, choices
from scheduling.broker.broker_queues import KombuQueues
from scheduling.core import message
from scheduling.store.connection import connector
from tests.processes import Spawned, eventually

pytestmark = [pytest.mark.rabbitmq, pytest.mark.django_db(transaction=True)]

DAY = timedelta(days=1, seconds=1)


@pytest.fixture
def name(unique: str) -> str:
    """Of a release with other sizes: the worker knows the queue by its name."""
    return QueuePlan(prefix=unique, max_length=7).shared_name(choices("acme", 16)[0], 16, "bulk")


@pytest.fixture
def channel(rabbitmq_url: str, name: str) -> Iterator[Any]:
    with kombu.Connection(rabbitmq_url) as broker:
        yield broker.channel()
        channel: Any = broker.channel()
        channel.queue_delete(name)


@pytest.fixture
def worker(spawn: Any, channel: Any, name: str, unique: str, rabbitmq_url: str) -> Spawned:
    put_in_use(name)
    process: Spawned = spawn(
        "celery", "-A", "project", "worker", "-P", "threads", "-c", "4", "-n", f"{unique}@%h", "-l", "INFO",
        "--without-gossip", "--without-mingle", "-I", "tests.worker.sample_tasks",
        ready=f"consuming {name}", CELERY_BROKER_URL=rabbitmq_url, FAIRBEAT_QUEUE_PREFIX=unique,
    )  # fmt: skip
    return process


def put_in_use(name: str) -> None:
    TenantQueue.objects.create(name=name, lane="bulk", made_at=timezone.now(), used_at=timezone.now())


def test_it_runs_what_may_come_through_it_and_goes_on_when_the_queue_goes(worker, channel, name, unique, rabbitmq_url):
    other = next(slug for slug in map(str, range(99)) if choices("acme", 16)[0] not in choices(slug, 16))
    producer = kombu.Producer(channel)

    def publish(task_id: str, **headers: str) -> None:
        said = {"task": "tests.worker.ordinary", "id": task_id} | headers
        producer.publish([["done"], {}, None], exchange="", routing_key=name, headers=said)

    publish("anothers", **{message.TENANT: other})
    publish("nobodys")
    publish("acmes", **{message.TENANT: "acme"})

    worker.wait_for_line("tests.worker.ordinary[acmes] received")
    dead = QueuePlan(prefix=unique).dead_letters("bulk")
    died = [eventually(lambda: channel.basic_get(dead.queue, no_ack=True)) for _ in range(2)]
    assert [letter.properties["application_headers"]["id"] for letter in died] == ["anothers", "nobodys"]
    assert "is rejected, it says that it is" in worker.output

    janitor = Janitor(connector(connection.get_connection_params(), name="janitor"), KombuQueues(rabbitmq_url))
    TenantQueue.objects.update(used_at=timezone.now() - DAY)
    assert janitor.tidy().retired == [name]
    worker.wait_for_line(f"no longer consuming {name}")
    TenantQueue.objects.update(retired_at=timezone.now() - DAY)
    eventually(lambda: janitor.tidy().deleted == [name])  # once the broker has heard that nobody consumes it
    janitor._rows.close()
    put_in_use(name)
    with KombuQueues(rabbitmq_url)() as broker:
        eventually(lambda: (state := broker.state(name)) is not None and state.consumers)
    publish("again", **{message.TENANT: "acme"})
    worker.wait_for_line("tests.worker.ordinary[again] received")
    assert "Connection to broker lost" not in worker.output
    assert "tests.worker.ordinary[anothers] received" not in worker.output
