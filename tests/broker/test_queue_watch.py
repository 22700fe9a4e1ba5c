"""Which queues hold nothing that waits, by a real broker's word."""

from __future__ import annotations

import kombu
import pytest

from fairness.queues import QueuePlan
from scheduling.broker.port import BrokerSilent
from scheduling.broker.queue_watch import KombuQueueWatch
from scheduling.core.fire import Fire
from scheduling.core.gates import lane_of
from tests.broker.conftest import MakeRabbitMQ, Queues
from tests.broker.outcomes import Outcomes
from tests.claims import make_fire, make_work


def fire_of(tenant: int) -> Fire:
    return make_fire(make_work(tenant, tenant_id=tenant))


def test_a_queue_with_messages_is_not_empty_and_one_without_or_that_is_missing_is(
    rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes, rabbitmq_url: str
) -> None:
    full, drained, missing = fire_of(1), fire_of(2), fire_of(3)
    publisher = rabbitmq_publisher()
    publisher.start(outcomes.report)
    outcomes.publish(publisher, [full, drained])
    assert queues.get("tenant-2") is not None
    watch = KombuQueueWatch(rabbitmq_url, queues_of=queues.names_of)
    for _ in range(2):  # a missing queue closes a channel: what is asked behind it is answered all the same
        assert watch.empty([missing, full, drained]) == {lane_of(drained), lane_of(missing)}
        assert watch.empty([]) == frozenset()


def test_a_lane_has_nothing_that_waits_only_if_none_of_its_queues_has(
    rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes, rabbitmq_url: str
) -> None:
    others, ours = fire_of(1), fire_of(2)
    publisher = rabbitmq_publisher()
    publisher.start(outcomes.report)
    outcomes.publish(publisher, [others])
    shared, own = queues.of("tenant-1").name, queues.of("tenant-2").name
    assert KombuQueueWatch(rabbitmq_url, queues_of=lambda _: [own, shared]).empty([ours]) == frozenset()
    assert queues.get("tenant-1") is not None
    assert KombuQueueWatch(rabbitmq_url, queues_of=lambda _: [own, shared]).empty([ours]) == {lane_of(ours)}
    assert KombuQueueWatch(rabbitmq_url, queues_of=lambda _: []).empty([ours]) == {lane_of(ours)}


def test_messages_that_a_worker_has_prefetched_do_not_wait(
    rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes, rabbitmq_url: str
) -> None:
    fire = fire_of(1)
    publisher = rabbitmq_publisher()
    publisher.start(outcomes.report)
    outcomes.publish(publisher, [fire])
    assert queues.channel.basic_get(queues.of("tenant-1").name, no_ack=False) is not None
    assert KombuQueueWatch(rabbitmq_url, queues_of=queues.names_of).empty([fire]) == {lane_of(fire)}


def test_a_broker_that_does_not_answer_says_nothing_of_any_queue() -> None:
    watch = KombuQueueWatch("amqp://guest@127.0.0.1:1//", queues_of=lambda _: ["fairbeat.t.bulk.v1"])
    with pytest.raises(BrokerSilent, match="does not tell"):
        watch.empty([fire_of(1)])


def test_redis_tells_it_too(redis_url: str, unique: str) -> None:
    plan = QueuePlan(prefix=unique)

    def name_of(fire: Fire) -> str:
        return plan.queue_name(fire.work.tenant, fire.work.lane)

    full, missing = fire_of(1), fire_of(2)
    with kombu.Connection(redis_url) as connection:
        with connection.SimpleQueue(name_of(full)) as queue:
            queue.put("x")
        assert KombuQueueWatch(redis_url, queues_of=lambda fire: [name_of(fire)]).empty([full, missing]) == {
            lane_of(missing)
        }
        with connection.SimpleQueue(name_of(full)) as queue:
            queue.clear()
