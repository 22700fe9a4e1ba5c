"""A session against a broker that the test plays, event by event."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from fairness.queues import QueuePlan
from scheduling.broker.amqp_frames import MessageWriter
from scheduling.broker.amqp_reader import Answer, Blocked, ChannelClosed, Confirm, ConnectionClosed, Event, Returned
from scheduling.broker.rabbitmq_session import Session
from scheduling.broker.topology import REFUSED_S
from scheduling.core.fire import Fire, Outcome, Verdict
from tests.broker.outcomes import fire, fires, unknown, work

PLAN = QueuePlan()
PATIENCE_S = 30.0
DECLARED = [Answer(2, (40, 11)), Answer(2, (50, 11)), Answer(2, (50, 21)), Answer(2, (50, 11))]


class SilentLink:
    """Takes everything and says nothing."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.wants_to_write = False
        self.agreed = False

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def agree_to_close(self) -> None:
        self.agreed = True

    def take(self) -> bytes:
        data = b"".join(self.sent)
        self.sent.clear()
        return data


class Play:
    """The session under test, its inbox, and time."""

    def __init__(self, **options: Any) -> None:
        self.link = SilentLink()
        self.outcomes: list[Outcome] = []
        self.inbox: deque[Fire] = deque()
        self.missing: list[str] = []
        self.now_s = 0.0
        self.session = Session(
            self.link,  # type: ignore[arg-type]
            MessageWriter(origin="gen1@test", ignore_result=unknown, frame_max=131_072, channel=1),
            outcomes=self.outcomes,
            queue_for=lambda one: PLAN.queue(one.work.tenant, one.work.lane),
            **{"window": 100, "batch": 50, "patience_s": PATIENCE_S, "on_missing": self.missing.append, **options},
        )

    def publish(self, *batch: Fire) -> None:
        self.inbox.extend(batch)
        self.pump()

    def pump(self) -> None:
        self.session.pump(self.inbox, self.now_s)

    def hear(self, *events: Event) -> None:
        for event in events:
            self.session.handle([event], self.now_s)
            self.pump()

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.session.expire(self.now_s)
        self.pump()

    def decided(self) -> list[tuple[Fire, Verdict]]:
        told = [(outcome.fire, outcome.verdict) for outcome in self.outcomes]
        self.outcomes.clear()
        return told


@pytest.fixture
def play() -> Play:
    """A session whose queue of tenant acme is declared; tags start at 2."""
    made = Play()
    first = fire()
    made.publish(first)
    made.hear(*DECLARED, Confirm(1, multiple=False, accepted=True))
    assert made.decided() == [(first, Verdict.CONFIRMED)]
    made.link.take()
    return made


def no_route(one: Fire) -> Returned:
    return Returned(str(one.id), PLAN.queue_name(one.work.tenant, one.work.lane), "NO_ROUTE")


def ack(tag: int, *, multiple: bool = False) -> Confirm:
    return Confirm(tag, multiple=multiple, accepted=True)


def test_nothing_is_published_before_its_queue_is_declared() -> None:
    play = Play()
    one = fire()
    play.publish(one)
    play.hear(*DECLARED[:-1])
    assert str(one.id).encode() not in play.link.take()
    play.hear(DECLARED[-1])
    assert str(one.id).encode() in play.link.take()


def test_a_queue_is_declared_once_and_dead_letters_once_for_all(play: Play) -> None:
    play.publish(*fires(3), fire(work(tenant="other")))
    play.hear(ack(4, multiple=True))
    declarations = play.link.take()
    assert declarations.count(b"fairbeat.other.bulk.v1") == 1
    assert b"fairbeat-dead.bulk.v1" not in declarations
    play.hear(DECLARED[-1])
    assert play.link.take().count(b"fairbeat.other.bulk.v1") == 1  # the message itself
    play.publish(*fires(3), fire(work(tenant="other")))
    assert b"x-max-length" not in play.link.take()


def test_other_queues_go_on_while_one_is_declared(play: Play) -> None:
    waits, goes = fire(work(tenant="other")), fire()
    play.publish(waits, goes)
    assert str(goes.id).encode() in play.link.take()
    play.hear(ack(2))
    assert play.decided() == [(goes, Verdict.CONFIRMED)]


def test_an_ack_after_a_return_publishes_again_once_the_queue_is_declared(play: Play) -> None:
    one, two = fires(2)
    play.publish(one, two)
    play.hear(no_route(one), no_route(two), ack(3, multiple=True))
    assert play.missing == ["fairbeat.acme.bulk.v1"]  # told once
    assert play.decided() == []
    play.link.take()
    play.hear(*DECLARED)
    again = play.link.take()
    assert str(one.id).encode() in again
    assert str(two.id).encode() in again
    play.hear(ack(5, multiple=True))
    assert play.decided() == [(one, Verdict.CONFIRMED), (two, Verdict.CONFIRMED)]


def test_a_multiple_ack_confirms_around_a_returned_message(play: Play) -> None:
    one, two, three = fires(3)
    play.publish(one, two, three)
    play.hear(no_route(two), ack(4, multiple=True))
    assert play.decided() == [(one, Verdict.CONFIRMED), (three, Verdict.CONFIRMED)]
    assert not play.session.is_idle


def test_a_fire_that_no_queue_ever_takes_is_nacked_in_the_end(play: Play) -> None:
    one = fire()
    play.publish(one)
    for tag in (2, 3, 4):
        assert play.decided() == []
        play.hear(no_route(one), ack(tag))
        if tag < 4:
            play.hear(*DECLARED)
    assert play.decided() == [(one, Verdict.NACKED)]
    assert play.session.is_idle


def test_a_nack_settles_lower_ones_too_when_it_is_multiple(play: Play) -> None:
    batch = fires(3)
    play.publish(*batch)
    play.hear(Confirm(3, multiple=True, accepted=False), ack(4))
    assert play.decided() == [
        (batch[0], Verdict.NACKED),
        (batch[1], Verdict.NACKED),
        (batch[2], Verdict.CONFIRMED),
    ]


def test_a_refused_queue_nacks_what_waits_and_what_follows_and_is_tried_again_later(play: Play) -> None:
    bad = work(tenant="bad")
    one, two, three = fires(3, bad)
    play.publish(one)
    play.hear(ChannelClosed(2, 406, "PRECONDITION_FAILED"))
    play.publish(two)
    assert play.decided() == [(one, Verdict.NACKED), (two, Verdict.NACKED)]
    play.now_s += REFUSED_S
    play.publish(three)
    play.link.take()
    play.hear(Answer(2, (20, 11)))  # the channel is open again
    assert b"fairbeat.bad.bulk.v1" in play.link.take()
    play.hear(DECLARED[-1], ack(2))
    assert play.decided() == [(three, Verdict.CONFIRMED)]


def test_a_refusal_does_not_stop_the_declarations_behind_it(play: Play) -> None:
    bad, good = fire(work(tenant="bad")), fire(work(tenant="good"))
    play.publish(bad, good)
    play.hear(ChannelClosed(2, 406, "PRECONDITION_FAILED"), Answer(2, (20, 11)), DECLARED[-1], ack(2))
    assert play.decided() == [(bad, Verdict.NACKED), (good, Verdict.CONFIRMED)]


def test_at_most_a_window_is_open_and_a_batch_at_a_time() -> None:
    play = Play(window=7, batch=3)
    play.publish(fire())
    play.hear(*DECLARED, ack(1))
    play.inbox.extend(fires(20))
    sizes = []
    for _ in range(5):
        play.pump()
        sizes.append(play.session.open_messages)
    assert sizes == [3, 6, 7, 7, 7]
    play.hear(ack(3, multiple=True))
    assert play.session.open_messages == 7


def test_nothing_is_rendered_while_the_socket_is_full(play: Play) -> None:
    play.link.wants_to_write = True
    play.publish(fire())
    assert play.link.sent == []
    play.link.wants_to_write = False
    play.pump()
    assert len(play.link.sent) == 1


def test_what_was_sent_is_lost_and_what_waits_is_unsent_when_the_connection_ends(play: Play) -> None:
    sent, waits = fire(), fire(work(tenant="other"))
    play.publish(sent, waits)
    play.session.abandon()
    assert play.decided() == [(sent, Verdict.LOST), (waits, Verdict.UNSENT)]
    assert play.session.is_idle


@pytest.mark.parametrize(
    "event",
    [
        ChannelClosed(1, 406, "message too large"),
        ConnectionClosed(320, "CONNECTION_FORCED"),
        Returned(str(fire().id), "somewhere", "NO_ROUTE"),
    ],
)
def test_what_leaves_the_open_messages_in_doubt_ends_the_connection(play: Play, event: Event) -> None:
    with pytest.raises(ConnectionError):
        play.hear(event)


def test_what_is_not_confirmed_in_time_is_lost_and_makes_room() -> None:
    play = Play(window=3)
    play.publish(fire())
    play.hear(*DECLARED, ack(1))
    play.decided()
    stuck, fine, late = fires(3)
    play.publish(stuck, fine)
    play.hear(ack(3))
    play.wait(PATIENCE_S / 2)
    play.publish(late)
    assert play.decided() == [(fine, Verdict.CONFIRMED)]
    play.wait(PATIENCE_S / 2)
    assert play.decided() == [(stuck, Verdict.LOST)]
    assert play.session.open_messages == 1
    play.hear(ack(2), ack(4))
    assert play.decided() == [(late, Verdict.CONFIRMED)]


def test_messages_expire_at_the_deadline_that_was_announced(play: Play) -> None:
    one, two = fires(2)
    play.publish(one)
    play.now_s += PATIENCE_S / 20
    play.publish(two)
    for _ in range(10):
        if play.session.is_idle:
            break
        assert play.session.deadline_s > play.now_s
        play.wait(play.session.deadline_s - play.now_s)
    assert play.decided() == [(one, Verdict.LOST), (two, Verdict.LOST)]
    assert play.now_s <= PATIENCE_S * 1.1


def test_a_declaration_without_an_answer_ends_the_connection(play: Play) -> None:
    waits = fire(work(tenant="other"))
    play.publish(waits)
    play.wait(PATIENCE_S * 0.9)
    with pytest.raises(ConnectionError, match="declaration"):
        play.wait(PATIENCE_S * 0.2)
    play.session.abandon()
    assert play.decided() == [(waits, Verdict.UNSENT)]


def test_a_blocked_broker_has_all_time_to_declare_but_not_to_confirm(play: Play) -> None:
    waits, sent = fire(work(tenant="other")), fire()
    play.publish(waits, sent)
    play.hear(Blocked("low on memory"))
    play.session.drop_waiting()
    play.wait(PATIENCE_S * 3)
    assert play.decided() == [(waits, Verdict.UNSENT), (sent, Verdict.LOST)]
    play.hear(Blocked(None))
    play.wait(PATIENCE_S * 0.9)
    assert play.session.deadline_s > play.now_s
    play.hear(DECLARED[-1])
    assert play.session.is_idle
