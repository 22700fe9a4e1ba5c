"""Lines of those whom limits hold back: who goes behind whom, and how many come back when."""

from __future__ import annotations

import pytest

from fairness.core.admission import BUDGET, CAP, RATE, Refusal, Request
from fairness.core.terms import Bound
from scheduling.core.lines import FAR_S, FARTHER_S, FARTHEST, MOST, PROBE_S, SOON_S, WALK, Lines, Pull

KEY = (7, "", "")
TASK = (7, "", "t")


def rate(per_s: float = 10.0, burst: int = 50) -> Request:
    return Request("m", 7, "bulk", "t", [(KEY, Bound(rate_per_s=per_s, burst=burst))])


def cap(limit: int = 3) -> Request:
    return Request("m", 7, "bulk", "t", [(KEY, Bound(max_in_flight=limit))])


def refuse(
    lines: Lines, request: Request, reason: str, *, after_s: float | None = None, at: float = 0.0, new: bool = True
) -> float:
    return lines.refused(request, Refusal(reason, KEY, after_s), at, is_new=new)


def pulled(lines: Lines, at: float, *, found: int | None = None) -> list[int]:
    """How many come back; that many are there, unless told otherwise."""
    pulls = list(lines.pulls(at))
    for pull in pulls:
        lines.pulled(pull, pull.count if found is None else found, at)
    return [pull.count for pull in pulls]


def test_nobody_is_ahead_before_somebody_was_refused() -> None:
    assert Lines().ahead_of(rate()) is None


def test_who_is_new_waits_behind_who_was_refused_before() -> None:
    lines = Lines()
    assert refuse(lines, rate(), RATE, after_s=0.1) == FAR_S
    assert lines.ahead_of(rate()) == (RATE, KEY)
    assert lines.ahead_of(cap()) is None
    assert lines.ahead_of(Request("m", 8, "bulk", "t", [((8, "", ""), Bound(rate_per_s=10.0))])) is None


def test_who_came_back_and_is_refused_stays_in_front_each_in_its_turn() -> None:
    lines = Lines()
    assert refuse(lines, rate(), RATE, after_s=0.2, new=False) == pytest.approx(0.2)
    assert refuse(lines, rate(), RATE, after_s=0.2, new=False) == pytest.approx(0.3)
    assert refuse(lines, cap(), CAP, new=False) == PROBE_S
    assert refuse(lines, cap(), CAP, after_s=0.0, new=False) == SOON_S


def test_by_a_rate_so_many_come_back_as_it_lets_through_meanwhile() -> None:
    lines = Lines()
    refuse(lines, rate(10), RATE, after_s=0.1)
    assert pulled(lines, 0.05) == []
    assert pulled(lines, 0.1) == [1]
    assert lines.next_at() == pytest.approx(0.2)
    assert pulled(lines, 0.65) == [5]
    assert pulled(lines, 0.8) == [2]  # what was less than one has stayed
    assert pulled(lines, 1000.0) == [50]  # its burst


def test_those_who_come_back_by_themselves_are_reckoned_with() -> None:
    lines = Lines()
    refuse(lines, rate(10), RATE, after_s=0.1)
    assert pulled(lines, 0.1) == [1]
    for _ in range(2):
        refuse(lines, rate(10), RATE, after_s=0.1, at=0.2, new=False)
    assert pulled(lines, 0.65) == [3]
    assert pulled(lines, 0.75) == [1]


def test_as_many_come_back_as_have_left_a_cap() -> None:
    lines = Lines()
    refuse(lines, cap(), CAP)
    lines.left(cap(), 0.1)
    lines.left(cap(), 0.1)
    assert pulled(lines, 0.1) == [2]
    assert pulled(lines, 0.2) == []


def test_as_a_place_becomes_free_somebody_comes_back_at_once_although_others_were_refused() -> None:
    lines = Lines()
    refuse(lines, cap(), CAP)
    assert pulled(lines, 1.0) == [1]
    refuse(lines, cap(), CAP, at=1.0, new=False)
    lines.left(cap(), 1.1)
    assert pulled(lines, 1.1) == [1]


def test_places_that_nobody_was_seen_to_leave_are_tried_more_and_more_of_them() -> None:
    lines = Lines()
    refuse(lines, cap(), CAP)
    assert [pulled(lines, float(second)) for second in range(1, 5)] == [[1], [2], [4], [8]]
    refuse(lines, cap(), CAP, at=4.5, new=False)
    assert pulled(lines, 5.5) == []
    assert pulled(lines, 6.5) == [1]


def test_a_line_ends_when_there_is_nobody_left() -> None:
    lines = Lines()
    refuse(lines, rate(10), RATE, after_s=0.1)
    assert pulled(lines, 0.5, found=2) == [5]
    assert lines.ahead_of(rate()) is None
    assert lines.next_at() is None


def test_a_line_that_was_not_looked_through_goes_on() -> None:
    lines = Lines()
    refuse(lines, rate(10), RATE, after_s=0.1)
    (pull,) = lines.pulls(0.1)
    lines.pulled(pull, 0, 0.1, is_more=True)
    assert lines.ahead_of(rate()) == (RATE, KEY)


def test_a_budget_is_asked_again_on_the_next_day() -> None:
    lines = Lines()
    request = Request("m", 7, "bulk", "t", [], daily_fires=5)
    assert refuse(lines, request, BUDGET, after_s=5000.0) == 5000.0
    assert lines.ahead_of(request) == (BUDGET, KEY)
    assert pulled(lines, 4999.0) == []
    assert pulled(lines, 5000.0) == [1]
    assert pulled(lines, 5000.1) == [2]


def test_a_line_that_is_only_looked_for_holds_nobody_until_somebody_is_found() -> None:
    lines = Lines()
    lines.look_for([((RATE, KEY), Bound(rate_per_s=10.0))], 0.0)
    assert lines.ahead_of(rate()) is None
    assert pulled(lines, 0.0, found=0) == [1]
    assert lines.next_at() is None
    lines.look_for([((RATE, KEY), Bound(rate_per_s=10.0))], 1.0)
    assert pulled(lines, 1.0) == [1]
    assert lines.ahead_of(rate()) == (RATE, KEY)


def test_when_a_limit_has_changed_those_who_wait_ask_anew() -> None:
    lines = Lines()
    refuse(lines, Request("m", 7, "bulk", "t", [], daily_fires=5), BUDGET, after_s=5000.0)
    lines.look_for([((BUDGET, KEY), Bound())], 10.0, step=MOST)
    assert list(lines.pulls(10.0)) == [Pull(BUDGET, KEY, MOST)]


def narrow(lane: str = "", task: str = "") -> Request:
    """A fire that a part's rate holds beside that of its tenant."""
    bounds = [(KEY, Bound(rate_per_s=10.0)), ((7, lane, task), Bound(rate_per_s=1.0))]
    return Request("m", 7, "bulk", "t", bounds)


def refused_by(lines: Lines, request: Request, *parts: tuple[str, str], reason: str = RATE) -> None:
    for lane, task in parts:
        lines.refused(request, Refusal(reason, (7, lane, task), 0.1), 0.0, is_new=True)


def test_whom_a_limit_of_a_part_holds_is_in_its_line_alone() -> None:
    """In that of the whole tenant it would be first, time and again, and in the way of those who may go."""
    lines = Lines()
    request = narrow(task="t")
    refused_by(lines, request, ("", ""), ("", "t"))
    assert lines.ahead_of(request) == (RATE, TASK)
    assert {pull.key: pull.apart for pull in lines.pulls(0.1)} == {KEY: {("", "t")}, TASK: frozenset()}


def test_of_lines_that_cross_one_has_who_is_in_both() -> None:
    lines = Lines()
    refused_by(lines, narrow(), ("", ""), ("bulk", ""), ("", "t"), ("bulk", "t"))
    assert {pull.key[1:]: pull.apart for pull in lines.pulls(0.1)} == {
        ("", ""): {("bulk", ""), ("", "t"), ("bulk", "t")},
        ("bulk", ""): {("", "t"), ("bulk", "t")},
        ("", "t"): {("bulk", "t")},
        ("bulk", "t"): frozenset(),
    }


def test_lines_of_others_and_for_other_reasons_are_nothing_to_it() -> None:
    lines = Lines()
    refused_by(lines, narrow(), ("", ""))
    refused_by(lines, narrow(), ("", "t"), reason=CAP)
    lines.refused(rate(), Refusal(RATE, (8, "", "t"), 9.0), 0.0, is_new=True)
    lines.look_for([((RATE, TASK), Bound(rate_per_s=1.0))], 9.0)
    (pull,) = (pull for pull in lines.pulls(0.1) if pull.reason == RATE and pull.key == KEY)
    assert pull.apart == frozenset()


def test_of_what_a_budget_holds_nothing_goes_today_whatever_line_it_is_in() -> None:
    lines = Lines()
    request = Request("m", 7, "bulk", "t", [(TASK, Bound(rate_per_s=1.0))], daily_fires=5)
    refused_by(lines, request, ("", "t"))
    lines.refused(request, Refusal(BUDGET, KEY, 5000.0), 0.0, is_new=True)
    assert lines.ahead_of(request) == (BUDGET, KEY)


def test_where_all_that_was_looked_at_wait_for_something_else_more_is_looked_at() -> None:
    lines = Lines()
    refuse(lines, rate(10), RATE, after_s=0.1)
    walks = []
    for at, found in ((0.5, 0), (1.0, 0), (2.0, 3), (3.0, 0), (4.0, 0)):
        (pull,) = lines.pulls(at)
        walks.append(pull.walk)
        lines.pulled(pull, found, at, is_more=True)
    assert walks == [WALK, 2 * WALK, 4 * WALK, 4 * WALK, FARTHEST]
    assert lines.next_at() == pytest.approx(4.0 + 7 * FARTHER_S), "since that takes its time"
    (pull,) = lines.pulls(5.0)
    lines.pulled(pull, pull.count, 5.0)
    assert [pull.walk for pull in lines.pulls(5.5)] == [WALK]
