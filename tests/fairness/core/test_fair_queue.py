"""What a fair queue answers, step by step."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import pytest

from fairness.core.caps import Cap
from fairness.core.fair_queue import FairQueue
from fairness.core.node import UNIT, Ticket
from fairness.core.rate import Rate
from fairness.core.tree import FlowPath


def flow(tenant: str, key: str = "", lane: str = "bulk") -> FlowPath:
    return lane, tenant, key


def offer(queue: FairQueue[str], tenant: str, items: str, *, cost: float = 1.0) -> None:
    for item in items.split():
        queue.offer(item, flow(tenant), cost)


def items(tickets: Iterable[Ticket[str]]) -> str:
    return " ".join(ticket.item for ticket in tickets)


@pytest.fixture
def queue() -> FairQueue[str]:
    return FairQueue(capacity=10)


def test_nothing_comes_from_an_empty_queue(queue: FairQueue[str]) -> None:
    assert queue.next(0.0) is None
    assert queue.take(0.0, 10) == []
    assert (len(queue), queue.flows, queue.next_wake()) == (0, 0, inf)


def test_the_requests_of_one_flow_come_in_the_order_of_their_offers(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1 a2 a3 a4")
    assert items(queue.take(0.0, 3)) == "a1 a2 a3"
    assert len(queue) == 1


def test_equal_tenants_take_turns(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1 a2 a3")
    offer(queue, "b", "b1 b2 b3")
    assert items(queue.take(0.0, 6)) == "a1 b1 a2 b2 a3 b3"


def test_twice_the_weight_is_twice_the_turns(queue: FairQueue[str]) -> None:
    queue.set_weight(("bulk", "b"), 2)
    offer(queue, "a", "a1 a2 a3", cost=6)
    offer(queue, "b", "b1 b2 b3 b4", cost=6)
    assert items(queue.take(0.0, 6)) == "a1 b1 b2 a2 b3 b4"


def test_half_the_cost_is_twice_the_turns(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1 a2 a3", cost=2)
    offer(queue, "b", "b1 b2 b3 b4", cost=1)
    assert items(queue.take(0.0, 6)) == "a1 b1 b2 a2 b3 b4"


def test_lanes_share_before_tenants_and_tenants_before_keys(queue: FairQueue[str]) -> None:
    for path in [flow("a", lane="transactional"), flow("b"), flow("c", "x"), flow("c", "y")]:
        for number in range(20):
            queue.offer(f"{path[0]}/{path[1]}{path[2]}{number}", path, 1.0)
    taken = [ticket.item for ticket in queue.take(0.0, 16)]
    counts = [sum(item.startswith(prefix) for item in taken) for prefix in ["trans", "bulk/b", "bulk/cx", "bulk/cy"]]
    assert counts == [8, 4, 2, 2]


def test_who_costs_less_than_estimated_has_another_turn_sooner(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1 a2 a3", cost=6)
    offer(queue, "b", "b1 b2 b3", cost=6)
    a1, b1 = queue.take(0.0, 2)
    queue.finished(a1, 6.0)
    queue.finished(b1, 2.0)
    assert items(queue.take(0.0, 2)) == "b2 a2"


def test_who_costs_more_than_estimated_waits_for_it(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1 a2 a3")
    offer(queue, "b", "b1 b2 b3 b4")
    queue.finished(queue.take(0.0, 1)[0], 3.5)
    assert items(queue.take(0.0, 5)) == "b1 b2 b3 b4 a2"


def test_a_long_request_is_paid_for_while_it_runs(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1 a2")
    offer(queue, "b", "b1 b2 b3")
    a1 = queue.take(0.0, 1)[0]
    queue.started(a1)
    queue.charge(a1, 2.5)
    queue.charge(a1, 0.5)  # told late: it had cost more by then
    assert items(queue.take(0.0, 4)) == "b1 b2 b3 a2"
    assert queue.tag(("bulk", "a")) == 3.5 * UNIT


def test_a_finish_of_unknown_cost_leaves_what_was_charged(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1 a2")
    ticket = queue.take(0.0, 1)[0]
    queue.started(ticket)
    queue.charge(ticket, 3.0)
    assert queue.finished(ticket)
    assert queue.tag(("bulk", "a")) == 3 * UNIT


def test_no_request_is_free(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1 a2")
    queue.finished(queue.take(0.0, 1)[0], 0.0)
    assert queue.tag(("bulk", "a")) == pytest.approx(UNIT / 10)


def test_a_request_ends_once(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1 a2")
    ticket = queue.take(0.0, 1)[0]
    assert queue.finished(ticket, 2.0)
    assert not queue.finished(ticket, 9.0)
    assert not queue.refund(ticket)
    assert not queue.started(ticket)
    queue.charge(ticket, 9.0)
    assert queue.tag(("bulk", "a")) == 2 * UNIT


def test_a_refund_leaves_everything_as_it_was(queue: FairQueue[str]) -> None:
    queue.set_weight(("bulk", "a"), 0.7)
    offer(queue, "a", "a1 a2 a3", cost=0.3)
    offer(queue, "b", "b1", cost=50)
    queue.take(0.0, 2)
    paths = [("bulk",), ("bulk", "a"), ("bulk", "a", "")]
    before = [queue.tag(path) for path in paths]
    taken = queue.take(0.0, 2)
    assert items(taken) == "a2 a3"
    assert all(queue.refund(ticket) for ticket in taken)
    assert [queue.tag(path) for path in paths] == before
    assert items(queue.take(0.0, 9)) == "a2 a3"


def test_what_is_refunded_goes_before_all_younger_ones_of_its_flow(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1 a2 a3 a4")
    a1, a2, a3 = queue.take(0.0, 3)
    for ticket in (a3, a1, a2):
        queue.refund(ticket)
    offer(queue, "a", "a5")
    assert items(queue.take(0.0, 9)) == "a1 a2 a3 a4 a5"


def test_what_has_started_cannot_be_refunded(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1")
    ticket = queue.take(0.0, 1)[0]
    assert queue.started(ticket)
    assert not queue.refund(ticket)
    assert queue.finished(ticket, 1.0)


def test_who_comes_anew_starts_now_and_is_not_owed_the_past(queue: FairQueue[str]) -> None:
    offer(queue, "a", " ".join(f"a{n}" for n in range(1, 9)))
    queue.take(0.0, 5)
    offer(queue, "b", "b1 b2 b3")
    assert items(queue.take(0.0, 6)) == "b1 a6 b2 a7 b3 a8"


def test_a_new_weight_counts_for_what_waits_already(queue: FairQueue[str]) -> None:
    offer(queue, "a", " ".join(f"a{n}" for n in range(20)))
    offer(queue, "b", " ".join(f"b{n}" for n in range(20)))
    queue.take(0.0, 10)
    queue.set_weight(("bulk", "b"), 3)
    taken = items(queue.take(0.0, 12))
    assert (taken.count("a"), taken.count("b")) == (3, 9)


def test_a_debt_is_restated_at_a_new_weight(queue: FairQueue[str]) -> None:
    queue.set_weight(("bulk", "a"), 0.001)
    offer(queue, "a", "a1 a2 a3")
    offer(queue, "b", "b1 b2 b3")
    queue.take(0.0, 1)
    assert queue.tag(("bulk", "a")) == 1000 * UNIT
    queue.set_weight(("bulk", "a"), 1)
    assert queue.tag(("bulk", "a")) == UNIT
    assert items(queue.take(0.0, 4)) == "b1 a2 b2 a3"


def test_a_parked_tenant_waits_until_its_time(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1")
    offer(queue, "b", "b1 b2")
    queue.park(("bulk", "a"), 5.0, "pause")
    assert queue.why(("bulk", "a", "")) == ("pause", 5.0)
    assert items(queue.take(0.0, 9)) == "b1 b2"
    assert queue.next_wake() == 5.0
    assert queue.take(4.9, 9) == []
    assert items(queue.take(5.0, 9)) == "a1"
    assert queue.next_wake() == inf


@pytest.mark.parametrize("path", [("bulk",), ("bulk", "a"), ("bulk", "a", "")], ids=["lane", "tenant", "flow"])
def test_lanes_tenants_and_flows_can_be_parked_before_anything_waits_in_them(
    queue: FairQueue[str], path: tuple[str, ...]
) -> None:
    queue.park(path, inf, "pause")
    offer(queue, "a", "a1")
    assert queue.take(1e9, 9) == []
    assert queue.why(flow("a")) == ("pause", inf)
    queue.unpark(path)
    assert queue.why(flow("a")) == ("turn", -inf)
    assert items(queue.take(0.0, 9)) == "a1"


def test_who_was_parked_is_not_owed_its_time(queue: FairQueue[str]) -> None:
    queue.park(("bulk", "a"), 1.0, "pause")
    offer(queue, "a", "a1 a2 a3")
    offer(queue, "b", " ".join(f"b{n}" for n in range(8)))
    assert items(queue.take(0.0, 5)) == "b0 b1 b2 b3 b4"
    assert items(queue.take(1.0, 6)) == "a1 b5 a2 b6 a3 b7"


def test_a_rate_parks_its_tenant_until_its_next_token(queue: FairQueue[str]) -> None:
    queue.set_gates(("bulk", "a"), [Rate(4.0, burst=2)])
    offer(queue, "a", "a1 a2 a3 a4")
    assert items(queue.take(0.0, 9)) == "a1 a2"
    reason, until = queue.why(flow("a"))
    assert reason == "rate"
    assert until == pytest.approx(0.25)
    assert queue.next_wake() == pytest.approx(0.25)
    assert items(queue.take(0.25, 9)) == "a3"


def test_a_refusal_spends_nothing_at_the_gates_that_were_open(queue: FairQueue[str]) -> None:
    rate, cap = Rate(1.0, burst=5), Cap(1, lease_s=60)
    queue.set_gates(("bulk",), [rate])
    queue.set_gates(("bulk", "a"), [cap])
    offer(queue, "a", "a1 a2")
    ticket = queue.take(0.0, 9)[0]
    assert queue.take(0.0, 9) == []
    assert rate.tokens(0.0) == 4
    queue.refund(ticket)
    assert (rate.tokens(0.0), len(cap)) == (5, 0)


def test_a_cap_lets_the_next_one_in_as_soon_as_one_has_left(queue: FairQueue[str]) -> None:
    queue.set_gates(("bulk", "a"), [Cap(2, lease_s=60)])
    offer(queue, "a", "a1 a2 a3")
    a1, _ = queue.take(0.0, 9)
    assert queue.why(flow("a")) == ("cap", 60.0)
    queue.finished(a1, 1.0)
    assert items(queue.take(1.0, 9)) == "a3"


def test_a_cap_forgets_who_never_came_back(queue: FairQueue[str]) -> None:
    queue.set_gates(("bulk", "a"), [Cap(1, lease_s=60)])
    offer(queue, "a", "a1 a2")
    queue.take(0.0, 9)
    assert queue.take(59.9, 9) == []
    assert items(queue.take(60.0, 9)) == "a2"


def test_a_gate_that_two_lanes_share_wakes_both(queue: FairQueue[str]) -> None:
    cap = Cap(1, lease_s=60)
    for lane in ("bulk", "transactional"):
        queue.set_gates((lane, "a"), [cap])
        queue.offer(lane, flow("a", lane=lane), 1.0)
    first = queue.take(0.0, 9)
    assert items(first) == "bulk"
    queue.finished(first[0], 1.0)
    assert items(queue.take(0.0, 9)) == "transactional"


def test_a_raised_limit_counts_at_once(queue: FairQueue[str]) -> None:
    cap = Cap(1, lease_s=60)
    queue.set_gates(("bulk", "a"), [cap])
    offer(queue, "a", "a1 a2 a3")
    queue.take(0.0, 9)
    cap.limit = 2
    queue.gate_changed(cap)
    assert items(queue.take(0.0, 9)) == "a2"
    queue.set_gates(("bulk", "a"), [])
    assert items(queue.take(0.0, 9)) == "a3"


def test_nothing_that_may_go_is_held_up_by_what_may_not(queue: FairQueue[str]) -> None:
    queue.set_gates(("bulk", "a"), [Cap(0, lease_s=60)])
    queue.set_gates(("transactional",), [Cap(0, lease_s=60)])
    offer(queue, "a", "a1")
    queue.offer("t1", flow("t", lane="transactional"), 1.0)
    offer(queue, "b", "b1")
    assert items(queue.take(0.0, 9)) == "b1"


@pytest.mark.parametrize(
    ("window", "order"), [(inf, "t1 x2 x3 t2 t3 t4"), (2.0, "t1 t2 t3 x2 x3 t4"), (0.0, "t1 x2 x3 t2 t3 t4")]
)
def test_within_a_window_who_is_behind_goes_first_and_then_whoever_has_work(
    queue: FairQueue[str], window: float, order: str
) -> None:
    """Lane ``bulk`` has its turn, but its tenant is far ahead of its lane's virtual time."""
    queue.set_weight(("bulk",), 10_000)
    offer(queue, "ahead", "x1 x2 x3")
    x1 = queue.take(0.0, 1)[0]
    queue.started(x1)
    queue.charge(x1, 50.0)
    for number in range(1, 5):
        queue.offer(f"t{number}", flow("t", lane="transactional"), 1.0)
    assert items(queue.take(0.0, 9, window=window)) == order


def test_what_has_not_started_is_not_charged_for_its_time(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1")
    ticket = queue.take(0.0, 1)[0]
    queue.charge(ticket, 3.0)
    assert queue.tag(("bulk", "a")) == UNIT


def test_a_removal_that_fails_changes_nothing(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1 a2")
    offer(queue, "b", "b1")
    with pytest.raises(ZeroDivisionError):
        queue.remove_if(lambda item: item != "b1" or 1 / 0 > 0)
    assert items(queue.take(0.0, 9)) == "a1 b1 a2"


def test_who_is_removed_does_not_wait_any_more(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1 a2 a3")
    offer(queue, "b", "b1")
    queue.refund(queue.take(0.0, 1)[0])
    assert queue.remove_if(lambda item: item in ("a1", "a3", "b1")) == ["a1", "a3", "b1"]
    assert (len(queue), queue.flows) == (1, 1)
    assert items(queue.take(0.0, 9)) == "a2"


def test_nothing_is_kept_of_who_is_idle_and_owes_nothing(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1")
    offer(queue, "b", "b1", cost=7)
    tickets = queue.take(0.0, 9)
    assert queue.flows == 2
    for ticket in tickets:
        queue.finished(ticket, 5.0)
    assert queue.flows == 0


def test_a_debt_is_remembered_while_others_are_under_way(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1")
    offer(queue, "b", "b1 b2 b3 b4 b5")
    a1 = queue.take(0.0, 2)[0]
    queue.finished(a1, 3.5)
    offer(queue, "a", "a2")
    assert items(queue.take(0.0, 9)) == "b2 b3 b4 a2 b5"


def test_a_lane_without_room_leaves_its_turns_to_others(queue: FairQueue[str]) -> None:
    offer(queue, "a", "a1 a2 a3")
    for number in range(1, 4):
        queue.offer(f"t{number}", flow("t", lane="transactional"), 1.0)
    assert items(queue.take(0.0, 4, rooms={"bulk": 1})) == "a1 t1 t2 t3"
    assert items(queue.take(0.0, 4, rooms={"bulk": 0})) == ""
    assert items(queue.take(0.0, 4)) == "a2 a3"


def test_one_that_is_withdrawn_is_over_and_costs_nothing(queue: FairQueue[str]) -> None:
    cap = Cap(1, lease_s=60)
    queue.set_gates(("bulk", "a"), [cap])
    offer(queue, "a", "a1 a2 a3 a4")
    a1 = queue.take(0.0, 1)[0]
    a3 = next(ticket for ticket in queue._tree.flows[flow("a")] if ticket.item == "a3")
    assert queue.withdraw(a3)
    assert queue.withdraw(a1)
    assert (len(cap), queue.tag(("bulk", "a")), len(queue)) == (0, 0, 2)
    a2 = queue.take(0.0, 9)[0]
    queue.started(a2)
    assert not any(queue.withdraw(ticket) for ticket in (a1, a2, a3))
    queue.finished(a2, 1.0)
    assert items(queue.take(0.0, 9)) == "a4"


def test_the_oldest_of_a_tenant_is_found_and_how_many_wait(queue: FairQueue[str]) -> None:
    queue.offer("a1", flow("a", "x"), 1.0)
    queue.offer("a2", flow("a", "y"), 1.0)
    queue.refund(queue.take(0.0, 1)[0])
    oldest = queue.oldest(("bulk", "a"))
    assert oldest is not None
    assert (oldest.item, oldest.path) == ("a1", flow("a", "x"))
    assert (queue.waiting(("bulk", "a")), queue.waiting(), queue.waiting(("none",))) == (2, 2, 0)
    assert queue.oldest(("none",)) is None


def test_who_has_just_come_can_be_told_from_who_has_had_its_turn(queue: FairQueue[str]) -> None:
    offer(queue, "flood", "f1 f2 f3 f4")
    queue.take(0.0, 2)
    assert items(queue.take_behind(0.0, 9)) == ""
    offer(queue, "light", "l1 l2")
    assert items(queue.take_behind(0.0, 9)) == "l1"
    assert items(queue.take(0.0, 9)) == "f3 l2 f4"
