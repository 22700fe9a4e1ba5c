"""Message by message beside Celery's own: we put into a queue what `send_task` puts there, and our headers behind."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from struct import unpack_from
from typing import Any

import pytest
import redis
from amqp.serialization import decode_properties_basic, loads
from celery import Celery
from celery.utils.nodenames import anon_nodename
from kombu import Exchange, Queue

from fairness.queues import QueuePlan
from scheduling.broker.kombu_publisher import KombuPublisher
from scheduling.core import message
from scheduling.core.fire import Fire, Verdict
from tests.broker.conftest import MakeRabbitMQ, Queues
from tests.broker.outcomes import Outcomes, fire, unknown, work
from tests.broker.proxy import Proxy

OURS = [
    message.BEAT,
    message.JOB_NAME,
    message.JOB,
    message.FENCE,
    message.SCHEDULED_FOR,
    message.ORIGIN,
    message.TENANT,
    message.KEEP,
]
FIRES = {
    "plain": work(args='[1, "two", null, true, 2.5]', kwargs='{"a": {"b": [1, 2]}}'),
    "empty": work(args="[]", kwargs="{}"),
    "with timeouts": work(args="[]", kwargs="{}", soft_timeout_s=1.5, hard_timeout_s=60.0),
    "beyond ascii": work(args=message.canonical_json(["é", "日本", "\U0001f600"]), kwargs="{}", name="Prüfung"),
    "larger than a frame": work(args=message.canonical_json(["x" * 300_000]), kwargs="{}"),
}


@pytest.fixture(params=FIRES)
def sent(request: pytest.FixtureRequest) -> Fire:
    return fire(FIRES[request.param])


def app_at(url: str, queue: Queue) -> Celery:
    app = Celery("stock", broker=url, set_as_current=False)
    app.conf.update(task_queues=[queue], task_default_queue=queue.name)
    if url.startswith("amqp"):
        app.conf.broker_transport_options = {
            "confirm_publish": True
        }  # so that it is in the queue when the call returns
    return app


def send_by_celery(app: Celery, one: Fire, *, ignore_result: bool | None = None) -> None:
    """By name; or, where it is known what the task says of its result, by the registered task."""
    options = {
        "args": json.loads(one.work.args),
        "kwargs": json.loads(one.work.kwargs),
        "task_id": str(one.id),
        "time_limit": one.work.hard_timeout_s,
        "soft_time_limit": one.work.soft_timeout_s,
        "argsrepr": one.work.args[: message.REPR_LIMIT],
        "kwargsrepr": one.work.kwargs[: message.REPR_LIMIT],
    }
    if ignore_result is None:
        app.send_task(one.work.task, **options)
    else:

        @app.task(name=one.work.task, ignore_result=ignore_result, shared=False, typing=False)
        def registered() -> None: ...

        registered.apply_async(**options)
    app.close()


def assert_same_headers(ours: dict[str, Any], celerys: dict[str, Any]) -> None:
    """Names, order, values and types (False is not 0, 1 is not 1.0); behind them, only our own."""
    assert list(map(repr, ours.items()))[: -len(OURS)] == list(map(repr, celerys.items()))
    assert list(ours)[-len(OURS) :] == OURS


def test_the_origin_is_written_as_celery_writes_it() -> None:
    assert anon_nodename() == f"gen{os.getpid()}@{socket.gethostname()}"


def published(said: bytearray) -> tuple[list[Any], dict[str, Any], bytes]:
    """The one message in what a client said: arguments of its basic.publish, properties in their order, body."""
    at = len(b"AMQP\x00\x00\x09\x01")
    arguments: list[Any] = []
    properties: dict[str, Any] = {}
    body = b""
    while at < len(said):
        kind, _channel, size = unpack_from(">BHI", said, at)
        payload, at = bytes(said[at + 7 : at + 7 + size]), at + size + 8
        if kind == 1 and payload[:4] == b"\x00\x3c\x00\x28":
            arguments = loads("Bssbb", payload, 4)[0]
        elif kind == 2:
            properties = decode_properties_basic(payload, 12)[0]
        elif kind == 3:
            body += payload
    return arguments, properties, body


@pytest.mark.parametrize("ignore_result", [None, False, True])
def test_what_rabbitmq_gets_is_field_by_field_what_celery_sends(
    sent: Fire,
    ignore_result: bool | None,
    rabbitmq_publisher: MakeRabbitMQ,
    proxy: Proxy,
    queues: Queues,
    outcomes: Outcomes,
) -> None:
    spec = queues.queue_for(sent)
    publisher = rabbitmq_publisher(proxy.url, origin=anon_nodename(), ignore_result={sent.work.task: ignore_result}.get)
    publisher.start(outcomes.report)
    assert outcomes.publish(publisher, [sent]) == {Verdict.CONFIRMED: 1}
    app = app_at(proxy.url, Queue(spec.name, Exchange(""), queue_arguments=dict(spec.arguments)))
    send_by_celery(app, sent, ignore_result=ignore_result)

    in_queue = [queues.get("acme").body for _ in range(2)]
    assert in_queue[0] == in_queue[1]
    (our_call, ours, our_body), (their_call, theirs, their_body) = map(published, proxy.recorded)
    assert our_body == their_body
    assert (our_call[:3], our_call[3]) == (their_call[:3], True)  # exchange and routing key; ours is mandatory
    assert_same_headers(ours.pop("application_headers"), theirs.pop("application_headers"))
    assert (ours.pop("reply_to"), theirs.pop("reply_to")) == ("", app.thread_oid)  # nobody waits for a reply to ours
    assert list(map(repr, ours.items())) == list(map(repr, theirs.items()))


@pytest.fixture
def redis_queue(redis_url: str, unique: str) -> Iterator[tuple[redis.Redis, str]]:
    name = QueuePlan(prefix=unique).queue_name("acme", "bulk")
    client = redis.Redis.from_url(redis_url)
    yield client, name
    client.delete(name, *client.scan_iter(f"*{unique}*", count=10_000))


def test_what_redis_gets_is_field_by_field_what_celery_sends(
    sent: Fire, redis_queue: tuple[redis.Redis, str], redis_url: str, unique: str, outcomes: Outcomes
) -> None:
    client, name = redis_queue
    plan = QueuePlan(prefix=unique)
    publisher = KombuPublisher(
        redis_url,
        origin=anon_nodename(),
        ignore_result=unknown,
        queue_for=lambda one: plan.queue(one.work.tenant, one.work.lane),
    )
    publisher.start(outcomes.report)
    assert outcomes.publish(publisher, [sent]) == {Verdict.CONFIRMED: 1}
    publisher.stop(timeout_s=5)
    send_by_celery(app_at(redis_url, Queue(name, Exchange(""))), sent)

    popped: Any = client.rpop(name, 2)
    ours, celerys = map(json.loads, popped)
    assert_same_headers(ours.pop("headers"), celerys.pop("headers"))
    for one in (ours, celerys):
        del one["properties"]["delivery_tag"], one["properties"]["reply_to"]  # both random, or of no use
    for option in ("argsrepr", "kwargsrepr"):  # Celery leaves options that it was given among the properties
        del celerys["properties"][option]
    assert ours == celerys
