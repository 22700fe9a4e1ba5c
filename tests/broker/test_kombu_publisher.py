"""The publisher over kombu's Redis transport: what a broken connection does, and which brokers it refuses."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from fairness.queues import QueuePlan
from scheduling.broker.kombu_publisher import KombuPublisher
from scheduling.core.errors import InvalidField
from scheduling.core.fire import Verdict
from tests.broker.outcomes import Outcomes, fire, fires, unknown, work
from tests.broker.proxy import Proxy

Make = Callable[..., KombuPublisher]


@pytest.fixture
def plan(unique: str) -> QueuePlan:
    return QueuePlan(prefix=unique)


@pytest.fixture
def make(plan: QueuePlan, redis_url: str) -> Iterator[Make]:
    made: list[KombuPublisher] = []

    def make(url: str = redis_url, **options: Any) -> KombuPublisher:
        values = {
            "origin": "gen1@test",
            "ignore_result": unknown,
            "queue_for": lambda one: plan.queue(one.work.tenant, one.work.lane),
            **options,
        }
        made.append(KombuPublisher(url, **values))
        return made[-1]

    yield make
    for publisher in made:
        publisher.stop(timeout_s=1)
    redis.Redis.from_url(redis_url).delete(plan.queue_name("acme", "bulk"))


def test_messages_are_in_the_list_of_their_queue(
    make: Make, plan: QueuePlan, outcomes: Outcomes, redis_url: str
) -> None:
    publisher = make()
    publisher.start(outcomes.report)
    outcomes.publish(publisher, fires(450))
    assert redis.Redis.from_url(redis_url).llen(plan.queue_name("acme", "bulk")) == 450


def test_a_fire_that_cannot_be_written_is_nacked_alone(make: Make, outcomes: Outcomes) -> None:
    publisher = make()
    publisher.start(outcomes.report)
    bad = fire(work(args='["\ud800"]'))
    assert outcomes.publish(publisher, [fire(), bad, fire()]) == {Verdict.CONFIRMED: 2, Verdict.NACKED: 1}
    assert outcomes.of(bad) == [Verdict.NACKED]


def test_a_connection_that_breaks_loses_the_batch_in_flight_and_is_made_anew(
    make: Make, outcomes: Outcomes, redis_url: str
) -> None:
    proxy = Proxy(redis_url)
    try:
        publisher = make(proxy.url, batch=10)
        publisher.start(outcomes.report)
        outcomes.publish(publisher, fires(1))
        before = proxy.sent
        proxy.hold_answers()
        publisher.publish(fires(25))
        proxy.wait_until_sent(before + 10 * 500)
        proxy.cut(refuse=True)
        assert outcomes.wait(26) == {Verdict.CONFIRMED: 1, Verdict.LOST: 10, Verdict.UNSENT: 15}
        assert outcomes.publish(publisher, fires(3)) == {Verdict.UNSENT: 3}
        proxy.accept_again()
        outcomes.publish_until(publisher, Verdict.CONFIRMED, attempts=100_000)
    finally:
        proxy.close()


def test_stop_gives_up_on_a_broker_that_does_not_answer(make: Make, outcomes: Outcomes, redis_url: str) -> None:
    proxy = Proxy(redis_url)
    try:
        publisher = make(proxy.url, batch=10)
        publisher.start(outcomes.report)
        outcomes.publish(publisher, fires(1))
        before = proxy.sent
        proxy.hold_answers()
        publisher.publish(fires(25))
        proxy.wait_until_sent(before + 10 * 500)
        publisher.stop(timeout_s=0.1)
        assert outcomes.verdicts == {Verdict.CONFIRMED: 1, Verdict.LOST: 10, Verdict.UNSENT: 15}
    finally:
        proxy.close()


def test_without_a_broker_start_returns_and_fires_are_unsent_at_once(
    make: Make, outcomes: Outcomes, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    publisher = make(f"redis://:secret@127.0.0.1:{port}/0")
    with caplog.at_level(logging.WARNING):
        publisher.start(outcomes.report)
    assert outcomes.publish(publisher, fires(3), timeout_s=2) == {Verdict.UNSENT: 3}
    assert "cannot reach the broker" in caplog.text
    assert "secret" not in caplog.text


def test_an_amqp_address_is_refused_because_there_would_be_no_confirms(make: Make) -> None:
    with pytest.raises(InvalidField, match="url"):
        make("amqp://guest:guest@127.0.0.1//")
