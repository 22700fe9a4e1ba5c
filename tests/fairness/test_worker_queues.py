"""Real workers on RabbitMQ: the arguments of tenants' queues, the prefetch of their consumers, a deleted queue; and
what becomes of messages that they cannot execute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import amqp
import kombu
import pytest

from fairness.queues import QueuePlan
from tests.processes import Spawned, eventually
from tests.queues_in_use import use
from tests.worker import unknown_tag

pytestmark = [pytest.mark.rabbitmq, pytest.mark.django_db(transaction=True)]

LANES = ("transactional", "bulk")
SLUGS = ("default", "acme", "odd")


@pytest.fixture
def plan(unique: str) -> QueuePlan:
    return QueuePlan(prefix=unique)


@pytest.fixture
def channel(rabbitmq_url: str, plan: QueuePlan) -> Iterator[Any]:
    """A channel of ours; the queues of this test are removed by it in the end."""
    with kombu.Connection(rabbitmq_url) as connection:
        yield connection.channel()
        channel: Any = connection.channel()
        names = [plan.queue_name(slug, lane) for slug in SLUGS for lane in LANES]
        for name in (*names, *(plan.dead_letters(lane).queue for lane in LANES), f"{plan.prefix}.default"):
            channel.queue_delete(name)
        channel.exchange_delete(plan.dead_letters("bulk").exchange)


@pytest.fixture
def start(channel: Any, plan: QueuePlan, spawn: Any, rabbitmq_url: str, unique: str) -> Callable[..., Spawned]:
    use(plan, "default")

    def worker(*options: str) -> Spawned:
        process: Spawned = spawn(
            "celery", "-A", "project", "worker", "-P", "threads", "-c", "4", "-n", f"{unique}@%h", "-l", "INFO",
            "--without-gossip", "--without-mingle", *options,
            ready=f"consuming {unique}.default.transactional.v1",  # the last one, in the order of the rows
            CELERY_BROKER_URL=rabbitmq_url, FAIRBEAT_QUEUE_PREFIX=unique,
        )  # fmt: skip
        return process

    return worker


def test_the_queues_are_those_of_the_publisher_with_their_dead_letters(start, channel, plan):
    start()

    for lane in LANES:
        spec = plan.queue("default", lane)
        channel.queue_declare(spec.name, durable=True, auto_delete=False, arguments=dict(spec.arguments))
        dead = plan.dead_letters(lane)
        channel.queue_declare(dead.queue, durable=True, auto_delete=False, arguments=dict(dead.arguments))
        channel.basic_publish(amqp.Message("x"), exchange=dead.exchange, routing_key=dead.routing_key)
        eventually(lambda dead=dead: channel.basic_get(dead.queue, no_ack=True))  # type: ignore[misc]


def test_a_queue_that_the_broker_refuses_costs_that_queue_alone(start, channel, plan, unique):
    odd = plan.queue_name("odd", "bulk")
    channel.queue_declare(odd, durable=True, auto_delete=False)
    use(plan, "odd")
    worker = start()

    worker.wait_for_line(f"queue {odd} cannot be consumed")
    worker.wait_for_line(f"consuming {unique}.odd.transactional.v1")
    use(plan, "acme")
    worker.wait_for_line(f"consuming {unique}.acme.bulk.v1")


@pytest.mark.parametrize("is_settled", [False, True])
def test_a_queue_that_was_deleted_is_made_and_consumed_again(start, channel, plan, is_settled):
    """Celery takes a cancelled consumer for a lost connection; but not one that is cancelled as it starts."""
    worker = start()
    name = plan.queue_name("default", "bulk")
    eventually(lambda: channel.queue_declare(name, passive=True).consumer_count == 1)  # it asks without waiting
    if is_settled:
        use(plan, "acme")
        worker.wait_for_line(f"consuming {plan.queue_name('acme', 'bulk')}")

    channel.queue_delete(name)

    eventually(lambda: worker.output.count(f"consuming {name}") == 2)
    eventually(lambda: channel.queue_declare(name, passive=True).consumer_count == 1)


GOOD = {"task": "tests.worker.ordinary", "id": "good"}
BODY = b"[[], {}, null]"
IMPOSSIBLE: dict[str, tuple[dict[str, Any], bytes, dict[str, str]]] = {
    "no JSON": (GOOD, b"{", {}),
    "of a type that is not accepted": (GOOD, BODY, {"content_type": "application/x-python-serialize"}),
    "not what it says that it is compressed with": (GOOD | {"compression": "application/x-gzip"}, BODY, {}),
    "a number": (GOOD, b"5", {}),
    "an eta that is a number": (GOOD | {"eta": 5}, BODY, {}),
    "a limit that is no pair": (GOOD | {"timelimit": 5}, BODY, {}),
    "no task": ({}, BODY, {}),
    "no id": ({"task": "tests.worker.ordinary"}, BODY, {}),
    "an unknown task": (GOOD | {"task": "tests.no.such.task"}, BODY, {}),
    "an eta that is none": (GOOD | {"eta": "soon"}, BODY, {}),
    "another tenant's": (GOOD | {"fb_tenant": "acme"}, BODY, {}),
}


def test_what_a_worker_cannot_execute_goes_to_the_dead_letters_and_the_worker_goes_on(start, channel, plan, unique):
    worker = start("-I", "tests.worker.sample_tasks")
    queue, dead = plan.queue_name("default", "bulk"), plan.dead_letters("bulk")

    def publish(to: str, headers: dict[str, Any], body: bytes, **properties: str) -> None:
        given = {"content_type": "application/json", "content_encoding": "utf-8"} | properties
        channel.basic_publish(amqp.Message(body, application_headers=headers, **given), exchange="", routing_key=to)

    for what, (headers, body, properties) in IMPOSSIBLE.items():
        publish(queue, headers | {"what": what}, body, **properties)
    publish(f"{unique}.default", GOOD, b"{")  # of the user's own queue: as Celery has it
    publish(queue, GOOD, b'[["done"], {}, null]')

    died: dict[str, str] = {}
    while len(died) < len(IMPOSSIBLE):
        one = eventually(lambda: channel.basic_get(dead.queue, no_ack=True))
        headers = one.properties["application_headers"]
        died[headers["what"]] = headers["x-death"][0]["reason"]
    assert died == dict.fromkeys(IMPOSSIBLE, "rejected")
    worker.wait_for_line("Can't decode message body")
    worker.wait_for_line("tests.worker.ordinary[good] received")
    assert channel.basic_get(dead.queue, no_ack=True) is None
    assert worker.process.poll() is None


def test_a_channel_that_the_broker_closes_is_a_lost_connection_and_not_the_workers_end(start, channel, plan):
    worker = start("-I", "tests.worker.sample_tasks,tests.worker.unknown_tag")
    queue = plan.queue_name("default", "bulk")

    headers = {"task": "tests.worker.plain", "id": unknown_tag.ID, "fb_tenant": "default"}
    message = amqp.Message(
        "[[], {}, null]", content_type="application/json", content_encoding="utf-8", application_headers=headers
    )
    channel.basic_publish(message, routing_key=queue)

    worker.wait_for_line("Connection to broker lost")
    eventually(lambda: worker.output.count(f"[{unknown_tag.ID}] received") == 2)
