"""The decisions of a worker's fair door, on a clock that the test moves."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairness.core.door import LATEST_S, SOONEST_S, Figures
from tests.fairness.core.doors import door, drain, go, offer


def test_no_more_is_under_way_than_there_are_slots_and_an_ask_takes_one():
    fair = door(slots=3)
    fair.ask("queue", "bulk", "asked", mean_s=1.0)
    offer(fair, "acme", *"abcdef")

    given_out = [go(fair, 0.0), go(fair, 0.0), go(fair, 0.0)]

    assert [ticket.item.request for ticket in given_out].count(None) == 1
    assert fair.next(0.0) is None
    assert fair.free == 0


def test_slots_are_shared_by_weight_whatever_the_tasks_take():
    """One tenant's tasks take ten times as long: what it is served is its weight's part of the time all the same."""
    fair, now = door(), 0.0
    for tenant, weight in (("one", 1.0), ("three", 3.0), ("six", 6.0)):
        fair.weigh("bulk", tenant, weight)
        offer(fair, tenant, *([tenant] * 20_000))
    served = dict.fromkeys(("one", "three", "six"), 0.0)

    while now < 1000.0:
        ticket = go(fair, now)
        took_s = 1.0 if ticket.item.request == "one" else 0.1
        now += took_s
        served[ticket.item.request] += took_s
        fair.ended(ticket, now)

    assert served["one"] / now == pytest.approx(0.1, abs=0.01)
    assert served["three"] / now == pytest.approx(0.3, abs=0.01)


def test_by_count_each_task_costs_the_same():
    fair, now = door(by_count=True), 0.0
    offer(fair, "short", *(["short"] * 100))
    offer(fair, "long", *(["long"] * 100))
    ran = []
    for _ in range(60):
        ticket = go(fair, now)
        now += 1.0 if ticket.item.request == "long" else 0.01
        ran.append(ticket.item.request)
        fair.ended(ticket, now)

    assert ran.count("long") == 30


def test_transactional_work_has_nine_tenths_while_both_lanes_are_crowded():
    fair = door()
    offer(fair, "acme", *(["b"] * 200))
    offer(fair, "acme", *(["t"] * 200), lane="transactional")

    assert drain(fair, most=100).count("t") == pytest.approx(90, abs=1)


def test_a_lone_tenant_has_all_slots_however_little_it_weighs():
    fair = door(slots=4)
    fair.weigh("bulk", "light", 0.001)
    offer(fair, "light", *"abcdef")

    assert [go(fair, 0.0).item.request for _ in range(4)] == ["a", "b", "c", "d"]


def test_a_changed_weight_counts_for_what_waits():
    fair = door()
    offer(fair, "a", *(["a"] * 500))
    offer(fair, "b", *(["b"] * 500))
    assert drain(fair, most=20).count("a") == 10

    fair.weigh("bulk", "a", 4.0)

    assert drain(fair, most=100).count("a") == pytest.approx(80, abs=2)


def test_what_has_not_run_frees_its_slot_and_costs_its_tenant_next_to_nothing():
    fair = door()
    offer(fair, "a", *(["a"] * 20))
    offer(fair, "b", *(["b"] * 20))
    revoked = 0
    for _ in range(10):
        ticket = go(fair, 0.0)
        if ticket.item.request == "a":
            revoked += 1
            assert fair.ended(ticket, 0.0, has_run=False) == 0.0
        else:
            fair.ended(ticket, 1.0)

    assert revoked >= 8
    assert fair.figures(1.0).ran == 10 - revoked


def test_an_end_that_is_told_twice_counts_once():
    fair = door()
    offer(fair, "a", "x")
    ticket = go(fair, 0.0)

    assert fair.ended(ticket, 2.0) == 2.0
    assert fair.ended(ticket, 9.0) is None
    assert fair.free == 1


# -- asks -----------------------------------------------------------------------------------------------------------


def test_what_was_asked_for_runs_in_the_place_of_its_ask_and_the_next_may_be_asked_for():
    fair = door(slots=2)
    fair.ask("queue", "bulk", "acme", mean_s=1.0)
    ask = go(fair, 0.0)
    assert ask.item.request is None
    assert fair.next(0.0) is None  # one answer at a time

    fair.took(ask, "came", ("bulk", "acme", "t"), 0.5)

    assert fair.free == 1
    again = go(fair, 0.5)
    assert (again.item.queue, again.item.request) == ("queue", None)
    assert fair.ended(ask, 1.5) == 1.0


def test_an_empty_queue_is_asked_again_after_a_delay_that_grows_and_is_short_again_once_something_came():
    fair, now, delays = door(), 0.0, []
    fair.ask("queue", "bulk", "acme", mean_s=1.0)

    for _ in range(6):
        fair.vain(go(fair, now), now)
        assert fair.next(now) is None
        delays.append(fair.next_wake() - now)
        now = fair.next_wake()
    assert delays == pytest.approx([SOONEST_S, 2 * SOONEST_S, 4 * SOONEST_S, 8 * SOONEST_S, LATEST_S, LATEST_S])

    ask = go(fair, now)
    fair.took(ask, "came", ("bulk", "acme", "t"), now)
    fair.ended(ask, now)
    fair.vain(go(fair, now), now)
    assert fair.next_wake() - now == pytest.approx(SOONEST_S)


def test_a_message_that_does_not_run_is_no_empty_queue():
    fair = door()
    fair.ask("queue", "bulk", "acme", mean_s=1.0)

    fair.vain(go(fair, 0.0), 0.0, is_empty=False)

    assert go(fair, 0.0).item.queue == "queue"


def test_many_empty_queues_are_asked_less_often_each():
    fair = door(slots=100)
    for number in range(100):
        fair.ask(f"queue{number}", "bulk", f"t{number}", mean_s=1.0)
    now = 0.0
    for _ in range(8):
        while (ask := fair.next(now)) is not None:
            fair.vain(ask, now)
        now, before = fair.next_wake(), now

    assert now - before == pytest.approx(0.5)  # 200 a second in all


def test_asks_take_turns_with_what_is_held_by_weight():
    fair, now, ran = door(), 0.0, []
    fair.weigh("bulk", "heavy", 3.0)
    fair.ask("heavy's", "bulk", "heavy", mean_s=1.0)
    offer(fair, "light", *(["light"] * 100))

    for _ in range(40):
        ticket = go(fair, now)
        if ticket.item.request is None:
            fair.took(ticket, "heavy", ("bulk", "heavy", "t"), now)
        now += 1.0
        ran.append(ticket.item.request)
        fair.ended(ticket, now)

    assert ran.count("heavy") == pytest.approx(30, abs=1)


def test_a_queue_that_is_not_asked_any_more_gives_what_was_asked_for_and_no_more():
    fair = door()
    fair.ask("queue", "bulk", "acme", mean_s=1.0)
    ask = go(fair, 0.0)

    fair.withdraw("queue")
    fair.took(ask, "came", ("bulk", "acme", "t"), 0.0)
    assert fair.ended(ask, 1.0) == 1.0
    assert fair.next(1.0) is None

    fair.ask("queue", "bulk", "acme", mean_s=1.0)
    late = go(fair, 1.0)
    fair.withdraw("queue")
    fair.vain(late, 1.0)
    assert (fair.next(9.0), fair.free) == (None, 1)


def test_with_the_connection_goes_what_waits_and_what_was_asked_for_but_not_what_runs():
    fair = door(slots=3)
    offer(fair, "acme", "runs", "waits", "waits too")
    runs = go(fair, 0.0)
    fair.ask("queue", "bulk", "other", mean_s=1.0)
    ask = go(fair, 0.0)
    assert ask.item.request is None

    assert sorted(fair.drop_waiting()) == ["waits", "waits too"]

    assert (fair.free, fair.waiting, fair.next(9.0)) == (2, 0, None)
    fair.vain(ask, 1.0)  # too late
    assert fair.free == 2
    assert fair.ended(runs, 3.0) == 3.0


# -- figures --------------------------------------------------------------------------------------------------------


def test_its_figures_are_of_the_time_since_they_were_asked_for_last():
    fair = door(slots=2)
    offer(fair, "acme", "a", "b", "c")
    first, second = go(fair, 1.0), go(fair, 3.0)

    assert fair.figures(4.0) == Figures(slots=2, busy=2, waiting=1, interval_s=4.0, idle_s=4.0, ran=0, ran_s=0.0)

    fair.ended(first, 6.0)
    fair.ended(second, 7.0)
    assert fair.figures(8.0) == Figures(slots=2, busy=0, waiting=1, interval_s=4.0, idle_s=3.0, ran=2, ran_s=9.0)


def test_fewer_slots_wait_until_enough_has_ended():
    fair = door(slots=2)
    offer(fair, "acme", "a", "b", "c")
    first, second = go(fair, 0.0), go(fair, 0.0)

    fair.resize(1, 0.0)
    fair.ended(first, 1.0)
    assert fair.next(1.0) is None
    fair.ended(second, 1.0)
    assert go(fair, 1.0).item.request == "c"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.001, 10.0)), min_size=1, max_size=60))
def test_whatever_comes_goes_once_and_in_its_tenants_order(offers):
    fair, now = door(slots=2), 0.0
    for number, (tenant, _) in enumerate(offers):
        offer(fair, tenant, f"{tenant}{number:03}", task=str(number % 3))
    ran: list[str] = []
    running: list[Any] = []
    while fair.waiting or running:
        while (ticket := fair.next(now)) is not None:
            ran.append(str(ticket.item.request))
            running.append(ticket)
        now += 1.0
        fair.tick(now)
        fair.ended(running.pop(0), now)

    assert len(set(ran)) == len(offers)
    for tenant in "abc":
        own = [name for name in ran if name[0] == tenant]
        assert own == sorted(own)
    assert fair.next_wake() == math.inf


def test_it_was_short_if_a_task_ended_and_nothing_was_here_for_its_slot():
    fair = door()
    offer(fair, "acme", "a")
    first = go(fair)
    assert not fair.was_short()

    fair.ended(first, 1.0)
    offer(fair, "acme", "b", "c")  # which came late
    second = go(fair, 1.5)

    assert fair.was_short()
    assert not fair.was_short()
    fair.ended(second, 2.0)
    go(fair, 2.0)
    assert not fair.was_short()


def test_while_a_queue_is_asked_a_slot_without_a_message_is_not_short_of_them():
    fair = door()
    offer(fair, "acme", "a")
    ticket = go(fair)
    fair.ask("beta.bulk", "bulk", "beta", mean_s=1.0)
    fair.ended(ticket, 1.0)
    go(fair, 1.0)

    assert not fair.was_short()
