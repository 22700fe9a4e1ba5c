"""How much a node takes in, and of whom nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from scheduling.core.appetite import CROWDED_S, FULL_S, PRECEDENCE, Appetite
from scheduling.core.engine_limits import EngineLimits
from scheduling.core.fire_wheel import FireWheel
from scheduling.core.gates import BROKER, Gates
from scheduling.core.hand_over import HandOvers
from scheduling.core.marks import Marks, number_of
from scheduling.core.outstanding import Outstanding
from scheduling.testing.clock import ManualClock
from tests.claims import make_fire, make_work

LIMITS = EngineLimits(window_s=1.0, poll_s=0.1, batch=10, ahead=16, backlog=3)


class Turns:
    """Who is full by them."""

    def __init__(self, full: Collection[int], *, twice: Collection[int] = ()) -> None:
        self.now_full, self.twice = full, twice
        self.rooms: Mapping[str, Any] = {}

    def full_and_most(self, now: float) -> tuple[frozenset[int], Mapping[int, int]]:  # noqa: ARG002
        return frozenset(self.now_full), {9: 4}

    def full(self, now: float, times: int) -> frozenset[int]:  # noqa: ARG002
        return frozenset(self.twice if times == PRECEDENCE else self.now_full)


class Node:
    def __init__(self, turns: Turns | None = None) -> None:
        clock = ManualClock()
        self.outstanding, self.gates = Outstanding(), Gates()
        self.wheel = FireWheel(clock, HandOvers(self.outstanding, Marks()))
        self.appetite = Appetite(
            LIMITS,
            outstanding=self.outstanding,
            wheel=self.wheel,
            gates=self.gates,
            turns=turns,  # type: ignore[arg-type]
        )

    def has(self, count: int, *, tenant: int = 1) -> None:
        """In its wheel."""
        for number in range(count):
            self.wheel.add(make_fire(make_work(number, tenant_id=tenant)))

    def has_sent(self, count: int) -> None:
        fires = [make_fire(seq=1 + number) for number in range(count)]
        self.outstanding.in_flight.update((number_of(fire), fire) for fire in fires)


def test_there_is_room_for_a_batch_and_no_more_than_may_be_ahead() -> None:
    node = Node()
    assert node.appetite.room(0.0) == LIMITS.batch
    node.has(LIMITS.ahead - 3)
    node.has_sent(1)
    assert node.appetite.room(0.0) == 2


def test_there_is_none_while_too_much_is_with_the_broker() -> None:
    node = Node()
    node.has_sent(LIMITS.backlog)
    assert not node.appetite.takes_more(0.0)
    assert node.appetite.room(0.0) == 0


def test_there_is_none_while_the_broker_takes_nothing() -> None:
    node = Node()
    node.gates.close(BROKER, 0.0)
    opens_at = node.gates.opens_at(BROKER)
    assert [node.appetite.room(now) for now in (0.0, opens_at)] == [0, LIMITS.batch]


def test_who_is_full_is_asked_once_in_a_while_and_told_when_somebody_is_so_no_longer() -> None:
    turns = Turns({1, 2})
    appetite = Node(turns).appetite
    assert not appetite.ask(0.0)
    assert appetite.full == {1, 2}
    assert appetite.most == {9: 4}
    turns.now_full = (2, 3)
    assert not appetite.ask(FULL_S / 2)
    assert appetite.full == {1, 2}
    assert appetite.ask(FULL_S)
    assert appetite.full == {2, 3}
    turns.now_full = (2, 3, 4)
    assert not appetite.ask(2 * FULL_S)


def test_what_waits_of_a_full_tenant_is_read_until_twice_as_much_is_here() -> None:
    appetite = Node(Turns({1, 2}, twice={2})).appetite
    appetite.ask(0.0)
    assert appetite.overfull(0.0) == {2}


def test_once_the_wheel_is_half_full_who_has_a_quarter_of_it_is_full_too() -> None:
    node = Node(Turns({2}))
    node.has(LIMITS.ahead // 4 + 1, tenant=1)
    node.has(LIMITS.ahead // 4 - 1, tenant=3)
    node.appetite.ask(0.0)
    assert node.appetite.full == {2}
    node.has(1, tenant=3)
    node.appetite.ask(CROWDED_S)
    assert node.appetite.full == {1, 2}
    assert node.appetite.overfull(0.0) == {1}
