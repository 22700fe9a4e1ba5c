"""How fair it was."""

from __future__ import annotations

from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairness.core.shares import ServedShares, jain

served = st.lists(st.floats(0, 1e300), min_size=1)


def test_jains_index_of_some_that_have_all_is_their_part() -> None:
    assert jain([5, 5, 5, 5]) == 1
    assert jain([7, 0, 0, 0]) == 0.25
    assert jain([3, 3, 0, 0]) == 0.5
    assert jain([]) == jain([0, 0]) == 1


@given(served)
def test_jains_index_lies_between_one_part_and_one(values: list[float]) -> None:
    assert 1 / len(values) - 1e-9 <= jain(values) <= 1 + 1e-9


@given(st.lists(st.floats(0.001, 1e6), min_size=1), st.floats(0.001, 1e6))
def test_jains_index_does_not_know_of_units(values: list[float], unit: float) -> None:
    assert jain([value * unit for value in values]) == pytest.approx(jain(values))


@pytest.mark.parametrize("value", [-1, nan])
def test_an_absurd_value_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="value .*: must be at least 0"):
        jain([1, value])


def test_what_was_served_is_forgotten_when_the_window_has_slid_past_it() -> None:
    shares = ServedShares(window_s=12.0)
    shares.add("a", 1.0, now=100.0)
    shares.add("a", 2.0, now=105.0)
    shares.add("b", 4.0, now=105.5)
    assert shares.served(105.5) == {"a": 3.0, "b": 4.0}
    assert shares.served(112.5) == {"a": 2.0, "b": 4.0}
    assert shares.served(117.5) == {}


def test_who_was_served_by_its_weight_was_served_fairly() -> None:
    shares = ServedShares(window_s=60.0)
    for second in range(120):
        shares.add("a", 1.0, second)
        shares.add("b", 3.0, second)
    assert shares.index({"a": 1, "b": 3}, 119.0) == pytest.approx(1)
    assert shares.index({"a": 1, "b": 1}, 119.0) == pytest.approx(0.8)
    assert shares.index({"a": 1, "b": 3, "starved": 1}, 119.0) == pytest.approx(2 / 3)


def test_a_long_time_takes_no_memory() -> None:
    shares = ServedShares(window_s=60.0)
    for second in range(100_000):
        shares.add(second, 1.0, second)
    assert len(shares.served(100_000.0)) <= 60


def test_a_window_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="window_s 0: must be above 0"):
        ServedShares(window_s=0)
