"""The depth, by what workers report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairness.core.depth import Depth, Report

FULL = Report(slots=10, busy=10, waiting=2, idle_s=0.0, interval_s=1.0, ran=100, ran_s=10.0)
IDLE = replace(FULL, busy=8, waiting=0, idle_s=1.7, ran=83, ran_s=8.3)
STANDING = replace(FULL, waiting=40)


class Looks:
    """A depth that is asked once a second."""

    def __init__(self) -> None:
        self.depth = Depth()
        self.now = 0.0

    def look(self, *reports: Report, is_ready: bool = True, in_flight: int | None = None) -> int | None:
        self.depth.look(self.now, reports, is_ready=is_ready, round_trip_s=0.05, in_flight=in_flight)
        self.now += 1.0
        return self.depth.depth


@pytest.fixture
def looks() -> Looks:
    return Looks()


def test_without_any_report_there_is_no_bound(looks: Looks) -> None:
    assert looks.look() is None


def test_while_all_workers_are_down_it_begins_with_the_slots_of_those_who_were_there_last(looks: Looks) -> None:
    gone = [replace(FULL, age_s=age_s, is_leaving=True) for age_s in (600.0, 620.0, 7200.0)]
    assert looks.look(*gone) == looks.look(*gone) == 20 * (1 + 0.05 / 0.1) + 2
    assert looks.look(FULL, *gone) == 17


def test_it_begins_with_the_slots_and_what_is_under_way(looks: Looks) -> None:
    assert looks.look(FULL) == 10 * (1 + 0.05 / 0.1) + 2


def test_it_grows_by_a_tenth_when_slots_were_idle_twice_though_something_was_ready(looks: Looks) -> None:
    assert [looks.look(IDLE) for _ in range(4)] == [17, 17, 18, 20]
    assert [looks.look(FULL) for _ in range(3)] == [20, 20, 20]


def test_it_grows_at_once_to_what_shorter_requests_need() -> None:
    looks = Looks()
    assert looks.look(replace(FULL, ran=10, ran_s=10.0)) == 12
    assert looks.look(replace(IDLE, ran=1000, ran_s=10.0)) == 10 * (1 + 0.05 / 0.01) + 2


def test_idle_slots_do_not_count_while_nothing_is_ready(looks: Looks) -> None:
    assert [looks.look(IDLE, is_ready=False) for _ in range(5)] == [17] * 5


def test_it_falls_by_a_tenth_when_requests_stood_twice(looks: Looks) -> None:
    assert [looks.look(STANDING) for _ in range(4)] == [17, 17, 16, 14]


def test_requests_that_stand_in_the_broker_count_where_it_is_known_what_is_in_flight(looks: Looks) -> None:
    assert [looks.look(replace(FULL, waiting=0), in_flight=50) for _ in range(3)] == [17, 17, 16]
    assert [looks.look(replace(FULL, waiting=0), in_flight=18) for _ in range(3)] == [16, 16, 16]


def test_idle_slots_beside_as_many_requests_as_there_are_slots_are_no_lack_of_depth(looks: Looks) -> None:
    """It grew without end, and what workers do not take stood there for nothing."""
    for _ in range(100):
        depth = looks.look(IDLE)
        assert depth is not None
    grown = [looks.look(IDLE, in_flight=looks.depth.depth) for _ in range(100)]
    assert max(depth for depth in grown[-10:] if depth is not None) <= 8 + 10 + 2 * 83 * 0.05 + 4


def test_while_most_slots_are_idle_others_get_places_beside_what_stands_and_is_not_taken(looks: Looks) -> None:
    """Else one tenant's fires that no worker takes would have all places of its lane, and all slots be idle."""
    stands = replace(IDLE, busy=0, idle_s=10.0, ran=0, ran_s=0.0)
    for _ in range(20):
        looks.look(stands, in_flight=30)
    assert looks.depth.depth is not None
    assert looks.depth.depth > 2 * 30


def test_one_report_alone_changes_nothing(looks: Looks) -> None:
    assert [looks.look(report) for report in (FULL, IDLE, FULL, IDLE, STANDING, FULL, STANDING)] == [17] * 7


def test_looking_more_often_than_workers_report_changes_nothing_sooner(looks: Looks) -> None:
    for number in range(20):
        looks.depth.look(number * 0.05, [IDLE], is_ready=True, round_trip_s=0.05)
    assert looks.depth.depth == 17


def test_reports_that_went_stale_leave_what_was_known(looks: Looks) -> None:
    looks.look(FULL)
    assert [looks.look(replace(FULL, age_s=6.0)), looks.look()] == [17, 17]


def test_new_slots_count_at_once_and_those_of_who_is_leaving_no_more(looks: Looks) -> None:
    assert looks.look(FULL) == 17
    assert looks.look(FULL, FULL) == 32
    assert looks.look(FULL, replace(FULL, is_leaving=True)) == 17


def test_it_is_never_below_the_slots_nor_without_end(looks: Looks) -> None:
    for _ in range(200):
        looks.look(STANDING)
    assert looks.depth.depth == 12
    for _ in range(200):
        looks.look(IDLE)
    assert looks.depth.depth == 20 * 10 + 100


def test_what_ran_for_no_time_does_not_make_it_infinite(looks: Looks) -> None:
    assert looks.look(replace(FULL, ran_s=0.0)) == 300
    assert Looks().look(replace(FULL, slots=0, ran=0)) == 2
