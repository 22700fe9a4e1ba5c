"""What a node does with its shards, step by step, without a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from scheduling.coordination.port import Assignment
from scheduling.core.effects import TakeAgain
from scheduling.core.engine import Engine
from scheduling.core.fire import Fire
from scheduling.node.steering import Steering
from scheduling.node.storekeeper import Order, Take
from scheduling.testing.clock import ManualClock
from tests.engine_desk import LIMITS

MINE = frozenset({1, 2})
NONE: frozenset[int] = frozenset()


class Wheelhouse:
    """A steering, and what it has asked for."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.engine = Engine(self.clock, LIMITS)
        self.published: list[Sequence[Fire]] = []
        self.orders: list[Order] = []
        self.released: list[tuple[frozenset[int], Callable[[], None]]] = []
        self.renewals = 0
        self.steering = Steering(
            self.engine,
            self.clock,
            publish=self.published.append,
            order=self.orders.append,
            release=lambda shards, then: self.released.append((shards, then)),
            renew_soon=self._renew_soon,
        )

    def _renew_soon(self) -> None:
        self.renewals += 1

    def assign(self, mine: frozenset[int], leaving: frozenset[int] = NONE, *, lease_s: float = 2.0) -> None:
        self.steering.assigned(Assignment(self.clock.monotonic() + lease_s, mine, leaving))

    def takes(self) -> list[frozenset[int]]:
        """What was ordered to be taken over, since the last call."""
        takes = [order.shards for order in self.orders if isinstance(order, Take)]
        self.orders.clear()
        return takes

    def take(self, shards: frozenset[int]) -> None:
        """A take-over that was ordered ends well."""
        self.engine.taken(dict.fromkeys(shards, 1), [])
        self.steering.taken(shards)


@pytest.fixture
def node() -> Wheelhouse:
    return Wheelhouse()


def test_what_is_assigned_is_taken_once_until_the_outcome_is_known(node: Wheelhouse) -> None:
    node.assign(MINE)
    assert node.takes() == [MINE]
    node.assign(MINE)
    assert node.takes() == []
    node.take(MINE)
    node.assign(MINE)
    assert node.takes() == []


def test_a_take_over_that_failed_asks_whether_it_is_still_wanted(node: Wheelhouse) -> None:
    node.assign(MINE)
    node.takes()
    node.steering.not_taken(MINE)
    assert (node.renewals, node.takes()) == (1, [])
    node.assign(frozenset({2}))
    assert node.takes() == [frozenset({2})]


def test_a_shard_in_doubt_is_taken_again_at_once_but_not_again_and_again(node: Wheelhouse) -> None:
    """What is in doubt each time, as where every claim fails, is left to the renewals: two a second."""
    node.assign(MINE)
    node.take(MINE)
    node.clock.advance(10)
    node.takes()
    node.steering.carry_out([TakeAgain(MINE)])
    assert node.takes() == [MINE]
    node.take(MINE)
    node.clock.advance(0.1)
    node.engine.drop(MINE)
    node.steering.carry_out([TakeAgain(MINE)])
    assert node.takes() == []
    node.assign(MINE)
    assert node.takes() == [MINE]


def test_an_assignment_that_is_read_when_its_lease_is_out_takes_nothing(node: Wheelhouse) -> None:
    """The node was frozen in between: others own its shards by now, and a take-over would end what they do."""
    node.assign(MINE, lease_s=-0.1)
    assert (node.takes(), node.renewals) == ([], 1)
    node.assign(MINE)
    assert node.takes() == [MINE]


def test_what_is_being_released_is_not_taken_until_that_is_over(node: Wheelhouse) -> None:
    node.assign(MINE)
    node.take(MINE)
    node.takes()
    node.assign(NONE, leaving=frozenset({1}))
    node.steering.carry_out(node.engine.advance())
    ((shards, then),) = node.released
    assert shards == {1}
    assert node.engine.shards == {2}
    node.assign(MINE)
    assert node.takes() == []
    then()
    node.assign(MINE)
    assert node.takes() == [frozenset({1})]


def test_a_node_that_ends_hands_over_all_takes_nothing_and_waits_for_a_take_over_under_way(node: Wheelhouse) -> None:
    node.assign(MINE)
    assert not node.steering.drain()
    node.take(MINE)
    node.takes()
    assert not node.steering.drain()
    node.steering.carry_out(node.engine.advance())
    assert node.steering.drain()
    node.assign(MINE)
    assert node.takes() == []
    assert node.released == [], "leaving frees them all at once"
