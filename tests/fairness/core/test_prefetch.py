"""How many messages of each queue come ahead to a worker, and of which none does."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from fairness.core.prefetch import ASKED, LATELY_S, SELDOM_S, Inflows

SLOTS = 4


def apply(flows: Inflows, now: float, *, idle: bool = False) -> dict[str, int]:
    changes = dict(flows.changes(now, slots=SLOTS, lacks_messages=idle))
    for queue, ahead in changes.items():
        flows.applied(queue, ahead, now)
    return changes


def busy(flows: Inflows, queues: Iterable[str], now: float, *, took_s: float = 0.02, here: int = 1) -> None:
    """So many messages of each come, and one ends."""
    for queue in queues:
        for _ in range(here):
            flows.came(queue, now)
        flows.went(queue, took_s, now)


@pytest.fixture
def flows() -> Inflows:
    flows = Inflows()
    flows.set_queues({"one": 1.0, "three": 3.0, "idle": 10.0})
    assert apply(flows, 0.0) == {"one": 1, "three": 1, "idle": 1}
    return flows


def test_who_is_busy_shares_twice_the_slots_by_weight_and_who_is_idle_has_one(flows):
    busy(flows, ["one", "three"], 1.0)

    assert apply(flows, 1.0, idle=True) == {"one": 2, "three": 6}


def test_the_only_one_that_is_busy_has_it_all(flows):
    busy(flows, ["one"], 1.0)

    assert apply(flows, 1.0, idle=True) == {"one": 2 * SLOTS}


@pytest.mark.parametrize(("took_s", "ahead"), [(0.05, 8), (0.02, 8), (0.01, 12), (0.001, 32), (0.0, 32)])
def test_the_shorter_tasks_are_the_more_are_ahead_up_to_eight_for_each_slot(flows, took_s, ahead):
    busy(flows, ["one"], 1.0, took_s=took_s)

    assert apply(flows, 1.0, idle=True) == {"one": ahead}


def test_a_crowd_has_one_each_at_least():
    flows = Inflows()
    flows.set_queues({f"q{n}": 1.0 for n in range(100)} | {"heavy": 1000.0})
    apply(flows, 0.0)
    busy(flows, [f"q{n}" for n in range(100)] + ["heavy"], 1.0)

    assert apply(flows, 1.0, idle=True) == {"heavy": 7}


@pytest.mark.parametrize(("floods", "ahead"), [(["flood"], 8), (["flood", "other flood"], 4)])
def test_floods_have_all_slots_ahead_though_a_hundred_others_have_a_task_now_and_then(floods, ahead):
    others = [f"q{n}" for n in range(100)]
    flows = Inflows()
    flows.set_queues(dict.fromkeys([*others, *floods], 1.0))
    found = apply(flows, 0.0)
    assert set(found.values()) == {1}

    for step in range(60):  # of 50 ms, as long as a task
        now = step * 0.05
        for number, queue in enumerate(others):
            if step % 20 == number % 20:
                flows.came(queue, now)
            elif step and step % 20 == (number + 1) % 20:
                flows.went(queue, 0.05, now)
        for queue in floods:
            if step:
                flows.went(queue, 0.05, now - 0.003)
            flows.came(queue, now)
        if step % 10 == 9:
            found |= apply(flows, now, idle=True)

    assert {found[queue] for queue in others} == {1}
    assert {found[queue] for queue in floods} == {ahead}


@pytest.mark.parametrize(("weight", "ahead"), [(0.1, 1), (1.0, 2), (10.0, 4)])
def test_who_is_to_have_a_good_part_of_a_slot_has_two_so_that_one_is_here_when_another_ends(weight, ahead):
    flows = Inflows()
    flows.set_queues({"one": weight, "other": 10.0})
    apply(flows, 0.0)
    busy(flows, ["one", "other"], 1.0)

    assert apply(flows, 1.0, idle=True).get("one", 1) == ahead


def test_nothing_grows_before_its_tasks_are_known_to_be_short(flows):
    flows.came("one", 1.0)
    assert apply(flows, 1.0, idle=True) == {}

    flows.went("one", 0.02, 1.0)
    flows.came("one", 2.0)
    assert apply(flows, 2.0, idle=True) == {"one": 8}


def test_while_all_slots_are_taken_it_grows_once_a_minute_and_shrinks_no_sooner(flows):
    busy(flows, ["one"], 1.0)
    assert apply(flows, 1.0) == {}
    busy(flows, ["one"], SELDOM_S)
    assert apply(flows, SELDOM_S) == {"one": 8}

    busy(flows, ["one", "three"], SELDOM_S + 1)
    assert apply(flows, SELDOM_S + 1, idle=True) == {"three": 6}
    busy(flows, ["one", "three"], 2 * SELDOM_S + 2)
    assert apply(flows, 2 * SELDOM_S + 2) == {"one": 2}


def test_a_change_of_less_than_a_quarter_is_none(flows):
    busy(flows, ["one", "three"], 1.0)
    apply(flows, 1.0, idle=True)
    flows.set_queues({"one": 1.0, "three": 3.5, "idle": 1.0})

    busy(flows, ["one", "three"], 2 * SELDOM_S)
    assert apply(flows, 2 * SELDOM_S) == {}


def test_who_was_idle_for_long_has_one_again(flows):
    busy(flows, ["one"], 1.0)
    apply(flows, 1.0, idle=True)

    assert apply(flows, 1.0 + LATELY_S, idle=True) == {}
    assert apply(flows, 1.0 + SELDOM_S, idle=True) == {"one": 1}


def test_of_long_tasks_none_comes_ahead_until_they_are_half_as_long(flows):
    flows.came("one", 1.0)
    flows.went("one", 0.15, 1.0)
    assert apply(flows, 1.0) == {"one": ASKED}

    for number in range(4):
        busy(flows, ["one"], 2.0 + number, took_s=0.04)
        assert apply(flows, 2.0 + number) == {}  # the mean is between a half of what is long, and that

    busy(flows, ["one"] * 10, 6.0, took_s=0.01)
    assert apply(flows, 6.0) == {"one": 8}


def test_a_task_that_runs_for_long_is_known_before_it_ends(flows):
    flows.came("one", 1.0)
    flows.runs("one", 0.05)
    assert apply(flows, 1.05) == {}

    flows.runs("one", 0.5)
    assert apply(flows, 1.5) == {"one": ASKED}


def test_what_is_long_is_fifty_round_trips_where_the_broker_is_far(flows):
    flows.round_trip_s = 0.02
    busy(flows, ["one"], 1.0, took_s=0.5)
    assert ASKED not in apply(flows, 1.0).values()

    busy(flows, ["one"] * 10, 2.0, took_s=2.0)
    assert apply(flows, 2.0) == {"one": ASKED}


def test_a_queue_of_long_tasks_that_is_found_empty_for_long_waits_for_one_message_which_ends_that(flows):
    busy(flows, ["one"], 1.0, took_s=5.0)
    apply(flows, 1.0)
    assert apply(flows, 100.0) == {}  # nobody has asked: all slots were taken

    flows.empty("one", 100.0)
    flows.empty("one", 104.0)
    assert apply(flows, 104.0) == {}
    assert apply(flows, 100.0 + LATELY_S) == {"one": 1}
    assert apply(flows, 200.0, idle=True) == {}

    flows.came("one", 300.0)
    assert apply(flows, 300.0) == {"one": ASKED}


def test_after_a_reconnect_long_tasks_are_still_known(flows):
    busy(flows, ["one"], 1.0, took_s=5.0)
    apply(flows, 1.0)

    flows.disconnected()

    assert apply(flows, 2.0) == {"one": ASKED, "three": 1, "idle": 1}


def test_where_nothing_can_be_asked_for_long_tasks_come_ahead():
    flows = Inflows(can_ask=False)
    flows.set_queues({"one": 1.0})
    apply(flows, 0.0)
    busy(flows, ["one"], 1.0, took_s=5.0)

    assert apply(flows, 1.0, idle=True) == {"one": 8}


def test_without_a_door_all_share_by_weight_from_the_start_and_for_good():
    flows = Inflows(is_fixed=True)
    flows.set_queues({"one": 1.0, "three": 3.0})
    assert apply(flows, 0.0) == {"one": 2, "three": 6}

    flows.set_queues({"one": 1.0, "three": 1.0})
    assert apply(flows, 1000.0, idle=True) == {}


def test_a_queue_that_is_not_in_use_any_more_is_forgotten(flows):
    flows.set_queues({"one": 1.0})
    flows.came("three", 1.0)
    flows.went("three", 1.0, 1.0)

    assert "three" not in flows
    assert apply(flows, 1.0) == {}
