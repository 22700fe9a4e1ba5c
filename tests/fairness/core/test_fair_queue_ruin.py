"""What would ruin a fair queue: absurd numbers, masses, and the wrong moment."""

from __future__ import annotations

import gc
import random
import tracemalloc
from math import inf, nan

import pytest

from fairness.core.branch import Branch
from fairness.core.caps import Cap
from fairness.core.fair_queue import FairQueue
from fairness.core.node import MAX_WEIGHT, MIN_WEIGHT, UNIT, Ticket
from fairness.core.rate import Rate
from fairness.core.tree import below

A = ("bulk", "a", "")
B = ("bulk", "b", "")


@pytest.fixture
def queue() -> FairQueue[int]:
    return FairQueue(capacity=10)


@pytest.mark.parametrize("weight", [0, -1, nan, inf, -inf, 1e300, 5e-324, MIN_WEIGHT / 2, MAX_WEIGHT * 2])
def test_an_absurd_weight_is_refused_and_changes_nothing(queue: FairQueue[int], weight: float) -> None:
    queue.offer(1, A, 1.0)
    with pytest.raises(ValueError, match=r"weight .*: must be from 0\.001 to 10000"):
        queue.set_weight(A, weight)
    with pytest.raises(ValueError, match="weight"):
        queue.set_weight(("bulk", "never seen"), weight)
    assert queue.flows == 1
    queue.finished(queue.take(0.0, 1)[0], 1.0)
    assert queue.flows == 0


@pytest.mark.parametrize("cost", [0, -1, nan, inf, -inf, 1e300, 5e-324])
def test_an_absurd_cost_is_refused_and_changes_nothing(queue: FairQueue[int], cost: float) -> None:
    with pytest.raises(ValueError, match="cost .*: must be from 1e-06 to 1e"):
        queue.offer(1, A, cost)
    assert (len(queue), queue.flows) == (0, 0)


@pytest.mark.parametrize("cost", [-1, nan, -inf])
def test_an_absurd_cost_of_a_finish_is_refused_and_the_request_can_still_be_finished(
    queue: FairQueue[int], cost: float
) -> None:
    queue.offer(1, A, 1.0)
    ticket = queue.take(0.0, 1)[0]
    with pytest.raises(ValueError, match="cost .*: must be at least 0"):
        queue.finished(ticket, cost)
    queue.charge(ticket, cost)
    assert queue.finished(ticket, inf)


@pytest.mark.parametrize("capacity", [-1, nan, inf])
def test_an_absurd_capacity_is_refused(capacity: float) -> None:
    with pytest.raises(ValueError, match="capacity .*: must be from 0 to 1e"):
        FairQueue(capacity=capacity)


def test_a_park_without_a_time_is_refused(queue: FairQueue[int]) -> None:
    with pytest.raises(ValueError, match="until nan: must be a time, or inf"):
        queue.park(A, nan, "pause")


@pytest.mark.parametrize("path", [(), ("bulk", "a", "", "more")])
def test_a_path_that_nothing_can_have_is_refused(queue: FairQueue[int], path: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="path .*: must be a lane, a lane and a tenant, or these and a key"):
        queue.set_weight(path, 1.0)
    assert queue.forget(path) == []


def test_nobody_starves_beside_the_greatest_weight(queue: FairQueue[int]) -> None:
    queue.set_weight(A[:2], MAX_WEIGHT)
    queue.set_weight(B[:2], MIN_WEIGHT)
    queue.offer(0, B, 1.0)
    queue.offer(0, B, 1.0)
    for number in range(20_000):
        queue.offer(number, A, 1000.0)
    taken = queue.take(0.0, 20_002)
    assert [ticket.flow.path for ticket in taken].count(B) == 2
    queue.offer(0, B, 1.0)
    assert queue.next(0.0) is not None


def test_nobody_starves_beside_requests_that_take_no_time(queue: FairQueue[int]) -> None:
    for number in range(200):
        queue.offer(number, A, 1.0)
    queue.offer(-1, B, 1.0)
    queue.offer(-2, B, 1.0)
    last = 0
    for turn in range(40):
        ticket = queue.next(0.0)
        assert ticket is not None
        queue.finished(ticket, 0.0)
        last = turn if ticket.item == -2 else last
    assert 0 < last <= 12


def test_a_key_that_comes_back_does_not_starve_beside_keys_that_are_ever_new(queue: FairQueue[int]) -> None:
    queue.offer(-1, ("bulk", "a", "old"), 1.0)
    queue.finished(queue.take(0.0, 1)[0], 1.0)
    queue.offer(-1, ("bulk", "a", "old"), 1.0)
    turns = 0
    for number in range(1000):
        queue.offer(number, ("bulk", "a", f"new{number}"), 1.0)
        queue.offer(number, ("bulk", "a", f"newer{number}"), 1.0)
        ticket = queue.next(0.0)
        assert ticket is not None
        queue.finished(ticket, 1.0)
        turns += 1
        if ticket.item == -1:
            break
    assert turns < 20


def test_fifty_thousand_keys_at_once_leave_nothing_behind(queue: FairQueue[int]) -> None:
    rng = random.Random(1)
    for number in range(50_000):
        queue.offer(number, ("bulk", "a", number), 1.0 + number % 7)
    assert queue.flows == 50_000
    while tickets := queue.take(0.0, 1000):
        for ticket in tickets:
            queue.finished(ticket, rng.random())
    assert (len(queue), queue.flows, len(queue._tree.root.children)) == (0, 0, 0)


def test_keys_that_are_ever_new_are_forgotten_though_their_tenant_is_never_idle(queue: FairQueue[int]) -> None:
    under_way: list[Ticket[int]] = []
    for number in range(20_000):
        queue.offer(number, ("bulk", "a", number), 1.0)
        if number % 100 == 99:
            tickets, under_way = under_way, queue.take(0.0, 100)
            for ticket in tickets:
                queue.finished(ticket, 1.0)
            assert queue.flows <= 400


def test_the_memory_of_ten_thousand_keys_is_freed(queue: FairQueue[int]) -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(10_000):
            queue.offer(0, ("bulk", "a", number), 1.0)
        full, _ = tracemalloc.get_traced_memory()
        while ticket := queue.next(0.0):
            queue.finished(ticket, 0.5)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (full - before) / 10_000 < 1000
    assert after - before < 100_000


def test_refusals_without_end_take_no_memory(queue: FairQueue[int]) -> None:
    for number in range(100):
        queue.offer(number, A, 1.0)
        queue.offer(number, B, 1.0)
    for turn in range(200):
        for ticket in reversed(queue.take(turn, 200)):
            queue.refund(ticket)
        queue.park(A[:1], turn + 0.5, "broker")
    branches = [node for node in below(queue._tree.root) if isinstance(node, Branch)]
    assert max(len(list(branch.others or ())) for branch in branches) < 200
    assert len(queue._parking._until._heap) < 200
    assert [ticket.item for ticket in queue.take(1e9, 4)] == [0, 0, 1, 1]


def test_a_tenant_can_be_deleted_while_it_is_parked(queue: FairQueue[int]) -> None:
    cap = Cap(1, lease_s=60)
    queue.set_gates(A[:2], [cap])
    for number in range(3):
        queue.offer(number, A, 1.0)
    queue.offer(10, B, 1.0)
    running, _ = queue.take(0.0, 9)
    assert queue.why(A) == ("cap", 60.0)
    assert queue.forget(A[:2]) == [1, 2]
    assert queue.next_wake() == inf
    assert (len(queue), queue.flows) == (0, 1)
    assert queue.take(100.0, 9) == []
    queue.offer(7, A, 1.0)  # another of that name, of whom nothing is known
    assert [ticket.item for ticket in queue.take(100.0, 9)] == [7]
    assert queue.finished(running, 5.0)
    assert len(cap) == 0


@pytest.mark.parametrize("path", [A[:1], A[:2], A], ids=["lane", "tenant", "flow"])
def test_what_is_deleted_while_it_is_paused_leaves_nothing(queue: FairQueue[int], path: tuple[str, ...]) -> None:
    queue.park(path, 5.0, "pause")
    queue.offer(1, A, 1.0)
    assert queue.forget(path) == [1]
    assert queue.take(6.0, 9) == []
    assert (len(queue), queue.flows, queue.next_wake()) == (0, 0, inf)
    assert not queue._tree.root.children


def test_a_request_of_a_deleted_tenant_does_not_wait_again(queue: FairQueue[int]) -> None:
    queue.offer(1, A, 1.0)
    ticket = queue.take(0.0, 1)[0]
    queue.forget(A[:2])
    assert not queue.refund(ticket)
    assert not queue.finished(ticket, 1.0)
    assert (len(queue), queue.take(0.0, 9)) == (0, [])


def test_a_limit_can_fall_below_what_is_in_flight(queue: FairQueue[int]) -> None:
    cap = Cap(5, lease_s=60)
    queue.set_gates(A[:2], [cap])
    for number in range(10):
        queue.offer(number, A, 1.0)
    running = queue.take(0.0, 9)
    assert len(running) == 5
    cap.limit = 2
    for number, ticket in enumerate(running[:3]):
        assert queue.take(1.0, 9) == [], number
        queue.finished(ticket, 1.0)
    assert queue.take(1.0, 9) == []
    queue.finished(running[3], 1.0)
    assert len(queue.take(1.0, 9)) == 1


def test_tags_stay_exact_after_years(queue: FairQueue[int]) -> None:
    """A tag of ten million slot-years still tells a microsecond of the greatest weight."""
    queue.set_weight(A[:2], MIN_WEIGHT)
    for _ in range(100):
        queue.offer(0, A, 1e7)
        queue.take(0.0, 1)
    queue.offer(0, A, 1e7)
    queue.set_weight(B[:2], MAX_WEIGHT)
    for number in range(100):
        queue.offer(number, B, 1e-6)
    before = queue.tag(B[:2])
    assert before > 1e11 * UNIT
    queue.take(0.0, 50)
    assert queue.tag(B[:2]) > before


def test_a_clock_that_stands_still_or_goes_back_lets_nothing_through_that_is_limited(queue: FairQueue[int]) -> None:
    queue.set_gates(A[:2], [Rate(10.0, burst=3)])
    for number in range(20):
        queue.offer(number, A, 1.0)
    assert len(queue.take(100.0, 9)) == 3
    assert queue.take(100.0, 9) == []
    assert queue.take(50.0, 9) == []
    assert len(queue.take(100.1, 9)) == 1
