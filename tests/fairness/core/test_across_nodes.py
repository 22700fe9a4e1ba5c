"""What the nodes that share a lane tell each other, and take over."""

from __future__ import annotations

import pytest

from fairness.core.exchange import Charge
from fairness.core.fair_queue import FairQueue
from fairness.core.node import UNIT

LANE = "bulk"


@pytest.fixture
def queue() -> FairQueue[str]:
    queue: FairQueue[str] = FairQueue(capacity=10)
    queue.share(LANE)
    return queue


def offer(queue: FairQueue[str], tenant: int, times: int = 1, *, cost: float = 1.0, key: str = "") -> None:
    for number in range(times):
        queue.offer(f"{tenant}.{number}", (LANE, tenant, key), cost)


def tenants(queue: FairQueue[str], limit: int) -> list[object]:
    return [ticket.path[1] for ticket in queue.take(0.0, limit)]


def test_what_was_charged_is_told_once_over_the_weight_and_settlements_with_it(queue: FairQueue[str]) -> None:
    queue.set_weight((LANE, 7), 2)
    offer(queue, 7, 3)
    first, _ = queue.take(0.0, 2)
    assert queue.charges(LANE) == {7: Charge(1.0, came=True)}
    queue.finished(first, 0.25)
    assert queue.charges(LANE) == {7: Charge(-0.375)}
    assert queue.charges(LANE) == {}


def test_a_request_that_was_given_back_was_not_charged(queue: FairQueue[str]) -> None:
    offer(queue, 7)
    queue.refund(queue.take(0.0, 1)[0])
    assert queue.charges(LANE) == {7: Charge(0.0, came=True)}


def test_who_has_run_dry_and_has_more_has_come_anew(queue: FairQueue[str]) -> None:
    offer(queue, 7)
    queue.take(0.0, 1)
    queue.charges(LANE)
    offer(queue, 7, 2)
    assert queue.charges(LANE) == {7: Charge(0.0, came=True)}
    offer(queue, 7)
    assert queue.charges(LANE) == {}


def test_the_lowest_that_may_go_are_told(queue: FairQueue[str]) -> None:
    queue.set_weight((LANE, 2), 4)
    offer(queue, 1, 3, cost=2.0)
    offer(queue, 2, 3, cost=2.0)
    offer(queue, 3, 3)
    offer(queue, 3, 2, key="other")
    queue.take(0.0, 2)
    queue.park((LANE, 3), 5.0, "pause")
    rows = queue.rows(LANE)
    assert [(row.tenant_id, row.tag, row.waiting, row.in_flight) for row in rows] == [(2, 0.5, 2, 1), (1, 2.0, 2, 1)]
    assert [(row.weight, row.cost) for row in rows] == [(4.0, 2.0), (1.0, 2.0)]
    queue.unpark((LANE, 3))
    assert [(row.tenant_id, row.waiting) for row in queue.rows(LANE, 1)] == [(3, 5)]


def test_many_are_told_in_the_order_of_their_tags_though_some_have_moved(queue: FairQueue[str]) -> None:
    for tenant in range(200):
        offer(queue, tenant, 3, cost=1.0 + tenant * 7 % 31)
    for ticket in queue.take(0.0, 150):
        queue.finished(ticket, float(ticket.path[1] % 13))  # type: ignore[operator]
    rows = queue.rows(LANE, 50)
    everybody = sorted(queue.tag((LANE, tenant)) / UNIT for tenant in range(200))
    assert [row.tag for row in rows] == everybody[:50]


def test_who_was_charged_on_other_nodes_waits_for_it(queue: FairQueue[str]) -> None:
    offer(queue, 1, 9)
    offer(queue, 2, 9)
    queue.charges(LANE)
    queue.adopt(LANE, {1: 3.0, 2: 0.0}, 0.0)
    assert tenants(queue, 6) == [2, 2, 2, 1, 2, 1]


def test_what_was_charged_since_it_was_told_is_not_forgotten_for_an_answer(queue: FairQueue[str]) -> None:
    offer(queue, 1, 9)
    offer(queue, 2, 9)
    queue.charges(LANE)
    assert tenants(queue, 4) == [1, 2, 1, 2]
    queue.adopt(LANE, {1: 0.0, 2: 1.0}, 0.0)
    assert queue.tag((LANE, 1)) == 2 * UNIT
    assert queue.tag((LANE, 2)) == 3 * UNIT


def test_who_was_given_something_back_elsewhere_goes_sooner(queue: FairQueue[str]) -> None:
    offer(queue, 1, 9)
    offer(queue, 2, 9)
    queue.take(0.0, 6)
    queue.charges(LANE)
    queue.adopt(LANE, {1: 1.0}, 0.0)
    assert tenants(queue, 4) == [1, 1, 2, 1]


def test_virtual_time_of_all_moves_that_of_the_node_on_but_never_back(queue: FairQueue[str]) -> None:
    offer(queue, 1, 2)
    queue.adopt(LANE, {}, 50.0)
    offer(queue, 2, 2)
    assert queue.tag((LANE, 2)) == 50 * UNIT
    queue.adopt(LANE, {}, 20.0)
    assert queue.virtual_time((LANE,)) == 50 * UNIT


def test_who_has_come_since_is_not_owed_what_others_say_of_it(queue: FairQueue[str]) -> None:
    offer(queue, 1, 5)
    queue.charges(LANE)
    offer(queue, 2, 5)
    queue.adopt(LANE, {1: 40.0, 2: 3.0}, 40.0)
    assert queue.tag((LANE, 2)) == 40 * UNIT


def test_a_new_weight_restates_what_was_not_told_yet(queue: FairQueue[str]) -> None:
    offer(queue, 1, 5)
    queue.take(0.0, 2)
    queue.set_weight((LANE, 1), 4)
    assert queue.charges(LANE) == {1: Charge(0.5, came=True)}


def test_a_lane_that_is_not_shared_keeps_no_books() -> None:
    queue: FairQueue[str] = FairQueue()
    offer(queue, 1, 5)
    queue.take(0.0, 2)
    queue.adopt(LANE, {1: 40.0}, 40.0)
    assert (queue.charges(LANE), queue.charges("none"), queue.rows("none")) == ({}, {}, [])
    assert queue.tag((LANE, 1)) == 2 * UNIT


def test_tenants_that_are_not_here_are_passed_by(queue: FairQueue[str]) -> None:
    queue.adopt(LANE, {99: 5.0}, 1.0)
    queue.adopt("none", {99: 5.0}, 1.0)
    assert queue.flows == 0
