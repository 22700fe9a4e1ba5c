"""What a worker's fair door hands ahead to a pool with a queue of its own."""

from __future__ import annotations

from typing import Any

import pytest

from fairness.core.door import MOST_AHEAD, Door, Figures
from tests.fairness.core.doors import door, drain, go, offer


def used_to(took_s: float, *, slots: int = 1, **options: Any) -> Door[str]:
    """A door before a pool with a queue, whose tasks have taken so long so far; it is time 0."""
    fair = door(slots, can_queue=True, **options)
    offer(fair, "before", *(["x"] * 200))
    drain(fair, -1000.0, each_s=took_s)
    fair.tick(0.0)
    fair.figures(0.0)
    return fair


def give(door: Door[str], now: float = 0.0) -> list[str]:
    """All that may go now."""
    requests = []
    while (ticket := door.next(now)) is not None:
        requests.append(str(ticket.item.request))
    return requests


@pytest.mark.parametrize(("took_s", "each"), [(0.0, 2), (0.001, 2), (0.009, 2), (0.015, 1), (0.021, 0), (1.0, 0)])
def test_of_short_tasks_a_few_are_handed_ahead_of_each_slot(took_s, each):
    fair = used_to(took_s, slots=3)
    offer(fair, "acme", *"abcdefghijkl")

    assert len(give(fair)) == 3 + 3 * each


def test_nothing_is_handed_ahead_before_it_is_known_what_tasks_take():
    fair = door(slots=2, can_queue=True)
    fair.tick(0.0)
    offer(fair, "acme", *"abcdef")

    assert len(give(fair)) == 2


def test_nothing_is_handed_ahead_to_a_pool_that_keeps_no_order():
    fair = door(slots=1)
    offer(fair, "acme", *(["x"] * 200))
    drain(fair, each_s=0.001)
    fair.tick(1.0)
    offer(fair, "acme", *"abc")

    assert give(fair, 1.0) == ["a"]


def test_who_comes_anew_waits_behind_what_was_handed_ahead_and_nothing_else():
    fair = used_to(0.001)
    offer(fair, "flood", *(["flood"] * 50))
    ahead = give(fair)
    first = fair.running[0]
    assert ahead == ["flood"] * (1 + MOST_AHEAD)

    offer(fair, "light", "light")
    fair.ended(first, 0.001)

    assert give(fair, 0.001)[0] == "light"


def test_what_is_expected_to_take_long_waits_for_a_slot_that_is_free():
    fair = door(slots=1, can_queue=True)
    offer(fair, "slow", "x", task="slow")
    drain(fair, -1000.0, each_s=0.09)
    offer(fair, "before", *(["x"] * 200))
    drain(fair, -900.0, each_s=0.005)
    fair.tick(0.0)
    offer(fair, "acme", "short")
    assert give(fair) == ["short"]

    offer(fair, "slow", "slow", "slow", task="slow")
    assert give(fair) == []
    assert fair.waiting == 2

    fair.ended(fair.running[0], 0.005)
    assert give(fair, 0.005) == ["slow"]


def test_nothing_is_handed_ahead_where_a_queue_is_asked():
    fair = used_to(0.001, slots=2)
    offer(fair, "acme", *"abcdef")
    fair.ask("queue", "bulk", "other", mean_s=1.0)

    assert len(give(fair)) == 2
    fair.tick(0.0)
    assert give(fair) == []


def test_what_was_handed_ahead_takes_its_time_from_when_the_one_before_it_has_ended():
    """And the eldest of it begins first."""
    fair = used_to(0.001)
    offer(fair, "acme", *"abc")
    a, b, c = (go(fair) for _ in range(3))
    assert fair.running == (a,)
    assert (fair.free, fair.waiting) == (0, 2)

    assert fair.ended(a, 3.0) == 3.0
    assert fair.running == (b,)
    assert fair.ended(b, 5.0) == 2.0
    assert fair.ended(c, 5.5) == 0.5
    assert fair.figures(6.0) == Figures(slots=1, busy=0, waiting=0, interval_s=6.0, idle_s=0.5, ran=3, ran_s=5.5)


def test_what_the_pool_drops_before_it_has_begun_has_not_run():
    fair = used_to(0.001)
    offer(fair, "acme", *"abc")
    a, b, c = (go(fair) for _ in range(3))

    assert fair.ended(c, 1.0) == 0.0
    assert fair.given == (a, b)
    assert fair.ended(a, 2.0) == 2.0
    assert fair.running == (b,)
    assert fair.figures(2.0).ran == 1


def test_it_is_short_of_messages_where_more_could_be_handed_ahead_than_is_here():
    fair = used_to(0.001)
    offer(fair, "acme", "a", "b")
    give(fair)
    assert fair.was_short()

    offer(fair, "acme", "c", "d")
    give(fair)
    assert not fair.was_short()


def test_what_was_handed_ahead_begins_where_slots_are_added():
    fair = used_to(0.001)
    offer(fair, "acme", *"abc")
    a, b, c = (go(fair) for _ in range(3))

    fair.resize(2, 1.0)

    assert set(fair.running) == {a, b}
    assert fair.given[-1] is c
    assert fair.free == 0


def test_once_tasks_are_long_nothing_more_is_handed_ahead():
    fair = used_to(0.001)
    offer(fair, "acme", *(["x"] * 10))
    give(fair)
    for now in (1.0, 2.0):
        fair.ended(fair.running[0], now)
        fair.tick(now)
    assert give(fair, 2.0) == []

    fair.ended(fair.running[0], 3.0)
    assert give(fair, 3.0) == ["x"]
