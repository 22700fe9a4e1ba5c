"""A real RabbitMQ: queues that vanish, fill up or cannot be declared, and connections that break."""

from __future__ import annotations

import logging
import socket
import threading
from typing import Any

import pytest
from amqp.serialization import dumps

from fairness.queues import QueuePlan
from scheduling.broker.amqp_frames import method
from scheduling.broker.rabbitmq import RabbitMQPublisher
from scheduling.core.fire import Verdict
from tests.broker.conftest import MakeRabbitMQ, Queues
from tests.broker.outcomes import Outcomes, fire, fires, unknown, work
from tests.broker.proxy import Proxy
from tests.processes import PATIENCE_S

BLOCKED = method(0, (10, 60), dumps("s", ("low on memory",)))
UNBLOCKED = method(0, (10, 61))


def test_twenty_thousand_fires_are_confirmed_once_each_and_are_in_their_queues(
    rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes
) -> None:
    publisher = rabbitmq_publisher()
    publisher.start(outcomes.report)
    works = [work(tenant=f"tenant-{number}") for number in range(8)]
    batch = [fire(works[number % 8]) for number in range(20_000)]
    for at in range(0, 20_000, 700):
        publisher.publish(batch[at : at + 700])
    assert outcomes.wait(20_000, timeout_s=90) == {Verdict.CONFIRMED: 20_000}
    assert outcomes.per_fire() == {one.id: 1 for one in batch}
    assert [queues.size(f"tenant-{number}") for number in range(8)] == [2500] * 8


def test_a_message_larger_than_a_frame_arrives_whole(
    rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes
) -> None:
    publisher = rabbitmq_publisher()
    publisher.start(outcomes.report)
    text = "".join(str(number) for number in range(80_000))
    assert outcomes.publish(publisher, [fire(work(args=f'["{text}"]')), fire()]) == {Verdict.CONFIRMED: 2}
    assert queues.get("acme").body == f'["{text}"], {{"three": 3.5}}'.join(
        ("[", ', {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]')
    )
    assert queues.get("acme").body.startswith('[[1, "two"]')


def test_a_queue_is_declared_as_the_plan_says_with_its_dead_letters(
    rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes
) -> None:
    publisher = rabbitmq_publisher()
    publisher.start(outcomes.report)
    outcomes.publish(publisher, fires(1))
    spec = queues.of("acme")
    # The broker refuses to declare it anew with other arguments, so this holds them all.
    queues.channel.queue_declare(spec.name, durable=True, auto_delete=False, arguments=dict(spec.arguments))
    message = queues.channel.basic_get(spec.name)
    queues.channel.basic_reject(message.delivery_tag, requeue=False)
    dead = spec.dead_letters
    assert dead is not None
    died: list[Any] = []
    queues.channel.basic_consume(dead.queue, consumer_tag="dead", callback=died.append, no_ack=True)
    while not died:
        queues.channel.connection.drain_events(timeout=PATIENCE_S)
    queues.channel.basic_cancel("dead")
    assert died[0].headers["x-death"][0]["reason"] == "rejected"


def test_a_queue_that_was_deleted_is_declared_again_and_nothing_is_lost(
    rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes
) -> None:
    publisher = rabbitmq_publisher()
    publisher.start(outcomes.report)
    outcomes.publish(publisher, fires(1))
    queues.channel.queue_delete(queues.of("acme").name)
    assert outcomes.publish(publisher, fires(1500)) == {Verdict.CONFIRMED: 1500}
    assert queues.size("acme") == 1500


def test_a_full_queue_nacks_and_holds_exactly_what_was_confirmed(
    rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes
) -> None:
    queues.plan = QueuePlan(prefix=queues.plan.prefix, max_length=20)
    publisher = rabbitmq_publisher()
    publisher.start(outcomes.report)
    outcomes.publish_until(publisher, Verdict.NACKED)
    outcomes.publish(publisher, fires(200))
    assert outcomes.verdicts[Verdict.NACKED] > 100
    assert outcomes.verdicts[Verdict.CONFIRMED] == queues.size("acme") >= 20


def test_a_queue_that_cannot_be_declared_refuses_its_own_fires_only(
    rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes, caplog: pytest.LogCaptureFixture
) -> None:
    queues.channel.queue_declare(queues.of("acme").name, durable=True, auto_delete=False)  # classic: other arguments
    publisher = rabbitmq_publisher()
    publisher.start(outcomes.report)
    other = work(tenant="other")
    assert outcomes.publish(publisher, [*fires(5), *fires(5, other)]) == {Verdict.NACKED: 5, Verdict.CONFIRMED: 5}
    assert outcomes.publish(publisher, [*fires(5), *fires(5, other)]) == {Verdict.NACKED: 5, Verdict.CONFIRMED: 5}
    refusals = [record for record in caplog.records if queues.of("acme").name in record.getMessage()]
    assert len(refusals) == 1
    assert "PRECONDITION_FAILED" in refusals[0].getMessage()
    assert queues.size("acme") == 0


def test_a_fire_that_cannot_be_written_is_nacked_alone(
    rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes
) -> None:
    publisher = rabbitmq_publisher()
    publisher.start(outcomes.report)
    bad = fire(work(args='["\ud800"]'))
    assert outcomes.publish(publisher, [fire(), bad, fire()]) == {Verdict.CONFIRMED: 2, Verdict.NACKED: 1}
    assert outcomes.of(bad) == [Verdict.NACKED]


def test_a_connection_that_breaks_loses_what_is_open_and_is_made_anew(
    rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes, proxy: Proxy
) -> None:
    publisher = rabbitmq_publisher(proxy.url)
    publisher.start(outcomes.report)
    outcomes.publish(publisher, fires(1))
    before = proxy.sent
    proxy.hold_answers()
    publisher.publish(batch := fires(300))
    proxy.wait_until_sent(before + 300 * 700)
    proxy.cut(refuse=True)
    assert outcomes.wait(301) == {Verdict.CONFIRMED: 1, Verdict.LOST: 300}
    assert outcomes.per_fire()[batch[0].id] == 1
    assert outcomes.publish(publisher, fires(7)) == {Verdict.UNSENT: 7}
    proxy.accept_again()
    outcomes.publish_until(publisher, Verdict.CONFIRMED, attempts=100_000)
    assert outcomes.publish(publisher, fires(100)) == {Verdict.CONFIRMED: 100}


def test_fires_beyond_the_window_are_unsent_when_the_connection_breaks(
    rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes, proxy: Proxy
) -> None:
    publisher = rabbitmq_publisher(proxy.url, window=10)
    publisher.start(outcomes.report)
    outcomes.publish(publisher, fires(1))
    before = proxy.sent
    proxy.hold_answers()
    publisher.publish(fires(25))
    proxy.wait_until_sent(before + 10 * 700)
    proxy.cut()
    assert outcomes.wait(26) == {Verdict.CONFIRMED: 1, Verdict.LOST: 10, Verdict.UNSENT: 15}


def test_stop_gives_up_on_a_broker_that_does_not_answer(
    rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes, proxy: Proxy
) -> None:
    publisher = rabbitmq_publisher(proxy.url, window=10)
    publisher.start(outcomes.report)
    outcomes.publish(publisher, fires(1))
    before = proxy.sent
    proxy.hold_answers()
    publisher.publish(fires(25))
    proxy.wait_until_sent(before + 10 * 700)
    publisher.stop(timeout_s=0.2)
    assert outcomes.verdicts == {Verdict.CONFIRMED: 1, Verdict.LOST: 10, Verdict.UNSENT: 15}


def test_a_broker_that_falls_silent_is_left(
    rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes, proxy: Proxy
) -> None:
    publisher = rabbitmq_publisher(proxy.url, heartbeat_s=1)
    publisher.start(outcomes.report)
    outcomes.publish(publisher, fires(1))
    proxy.hold_answers()
    assert outcomes.publish(publisher, fires(3), timeout_s=10) == {Verdict.LOST: 3}


def test_an_idle_connection_is_kept_alive_by_heartbeats(
    rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes, proxy: Proxy
) -> None:
    publisher = rabbitmq_publisher(proxy.url, heartbeat_s=1)
    publisher.start(outcomes.report)
    outcomes.publish(publisher, fires(1))
    proxy.wait_until_sent(proxy.sent + 8 * 8)  # eight heartbeats: four intervals, twice what the broker would tolerate
    assert outcomes.publish(publisher, fires(1)) == {Verdict.CONFIRMED: 1}
    assert proxy.connections == 1


def test_while_the_broker_is_blocked_fires_are_unsent(
    rabbitmq_publisher: MakeRabbitMQ, queues: Queues, outcomes: Outcomes, proxy: Proxy
) -> None:
    publisher = rabbitmq_publisher(proxy.url)
    publisher.start(outcomes.report)
    outcomes.publish(publisher, fires(1))
    proxy.inject(BLOCKED)
    outcomes.publish_until(publisher, Verdict.UNSENT)
    assert outcomes.publish(publisher, fires(9)) == {Verdict.UNSENT: 9}
    proxy.inject(UNBLOCKED)
    outcomes.publish_until(publisher, Verdict.CONFIRMED)
    assert proxy.connections == 1


def test_without_a_broker_start_returns_and_fires_are_unsent_at_once(
    outcomes: Outcomes, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    plan = QueuePlan()
    publisher = RabbitMQPublisher(
        f"amqp://guest:secret@127.0.0.1:{port}//",
        origin="gen1@test",
        ignore_result=unknown,
        queue_for=lambda one: plan.queue(one.work.tenant, one.work.lane),
    )
    with caplog.at_level(logging.WARNING):
        publisher.start(outcomes.report)
    assert outcomes.publish(publisher, fires(3), timeout_s=2) == {Verdict.UNSENT: 3}
    publisher.stop(timeout_s=5)
    assert "cannot reach the broker" in caplog.text
    assert "secret" not in caplog.text


def test_a_wrong_password_is_told_in_the_log(
    rabbitmq_publisher: MakeRabbitMQ, rabbitmq_url: str, outcomes: Outcomes, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = rabbitmq_publisher(rabbitmq_url.replace("guest:guest", "guest:wrong"))
    with caplog.at_level(logging.WARNING):
        publisher.start(outcomes.report)
    assert outcomes.publish(publisher, fires(1)) == {Verdict.UNSENT: 1}
    assert "ACCESS_REFUSED" in caplog.text


def test_the_next_address_is_tried_when_one_does_not_answer(
    rabbitmq_publisher: MakeRabbitMQ, rabbitmq_url: str, queues: Queues, outcomes: Outcomes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = f"amqp://guest:guest@127.0.0.1:{closed.getsockname()[1]}//"
    publisher = rabbitmq_publisher(f"{dead};{rabbitmq_url}")
    publisher.start(outcomes.report)
    outcomes.publish_until(publisher, Verdict.CONFIRMED, attempts=100_000)


def test_the_thread_ends_with_stop(rabbitmq_publisher: MakeRabbitMQ, outcomes: Outcomes) -> None:
    before = threading.active_count()
    publisher = rabbitmq_publisher()
    publisher.start(outcomes.report)
    publisher.stop(timeout_s=5)
    assert threading.active_count() == before
