"""How many in a second, with a burst."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairness.core.rate import Rate


def admitted(rate: Rate, now: float) -> bool:
    if rate.opens_at(now) > now:
        return False
    rate.enter("someone", now)
    return True


def test_after_a_rest_a_burst_goes_at_once_and_then_one_at_each_interval() -> None:
    rate = Rate(10.0, burst=3)
    assert [admitted(rate, 5.0) for _ in range(4)] == [True, True, True, False]
    assert rate.opens_at(5.0) == pytest.approx(5.1)
    assert [admitted(rate, at) for at in (5.09, 5.11, 5.12, 5.21)] == [False, True, False, True]


def test_a_full_burst_goes_whatever_rounding_makes_of_it() -> None:
    rate = Rate(100.0, burst=10)
    for turn in range(100):
        assert sum(admitted(rate, turn * 0.15) for _ in range(12)) == 10


def test_a_batch_is_granted_in_part() -> None:
    rate = Rate(10.0, burst=5)
    assert [rate.take(0.0, wanted) for wanted in (3, 9, 1)] == [3, 2, 0]
    assert rate.take(0.25, 9) == 2
    assert rate.take(0.25, 0) == rate.take(0.25, -4) == 0


def test_a_token_that_is_handed_back_can_be_spent_again() -> None:
    rate = Rate(1.0, burst=2)
    assert [admitted(rate, 0.0) for _ in range(3)] == [True, True, False]
    rate.undo("someone")
    assert [admitted(rate, 0.0) for _ in range(2)] == [True, False]
    assert not rate.leave("someone")
    assert not admitted(rate, 0.0)


def test_what_was_lost_counts_as_spent() -> None:
    rate = Rate(10.0, burst=50)
    rate.empty(100.0)
    assert rate.take(100.0, 99) == 0
    assert rate.take(101.0, 99) == 10
    assert rate.refill_s == 5.0


def test_another_rate_counts_from_now_and_what_was_spent_stays_spent() -> None:
    rate = Rate(10.0, burst=10)
    rate.take(0.0, 8)
    rate.change(100.0, 20, 0.0)
    assert rate.tokens(0.0) == pytest.approx(12)
    rate.change(1.0, 2, 0.0)  # more is spent than it holds: it is empty, and not in debt
    assert rate.opens_at(0.0) == pytest.approx(1.0)
    assert rate.per_s == 1.0


@pytest.mark.parametrize("per_s", [0, -1, nan, inf, 1e300, 5e-324])
def test_an_absurd_rate_is_refused(per_s: float) -> None:
    with pytest.raises(ValueError, match="per_s .*: must be from 1e-09 to 1e"):
        Rate(per_s)


@pytest.mark.parametrize("burst", [0, -1, nan])
def test_an_absurd_burst_is_refused(burst: int) -> None:
    rate = Rate(1.0, burst=3)
    with pytest.raises((ValueError, TypeError), match="burst .*: must be at least 1|int object expected"):  # compiled
        rate.change(1.0, burst, 0.0)
    assert rate.burst == 3


@given(
    st.floats(0.01, 1000),
    st.integers(1, 50),
    st.lists(st.tuples(st.floats(0, 2) | st.just(0.0), st.integers(1, 40)), min_size=1, max_size=40),
    st.floats(0, 1e7),
)
def test_in_no_span_of_time_more_go_than_burst_and_rate_allow(
    per_s: float, burst: int, wishes: list[tuple[float, int]], now: float
) -> None:
    rate = Rate(per_s, burst)
    log: list[tuple[float, int]] = []
    for wait, wanted in wishes:
        now += wait / per_s * 10
        granted = rate.take(now, wanted)
        assert granted == wanted or rate.opens_at(now) > now  # nothing was left
        log.append((now, granted))
    for first in range(len(log)):
        total = 0
        for at, granted in log[first:]:
            total += granted
            assert total <= burst + (at - log[first][0]) * per_s + 1e-3  # of a token: seconds are floats


@given(st.floats(0.01, 1000), st.integers(1, 20), st.floats(0, 1e7))
def test_whoever_asks_again_at_the_time_it_named_is_let_in(per_s: float, burst: int, now: float) -> None:
    rate = Rate(per_s, burst)
    for _ in range(3 * burst):
        now = max(now, rate.opens_at(now))
        assert admitted(rate, now)
