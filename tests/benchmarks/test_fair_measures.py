"""What is read out of a history of runs."""

from __future__ import annotations

import doctest

import pytest

from benchmarks import fair_measures
from benchmarks.fair_measures import (
    Ran,
    index,
    most_beyond,
    settles_after,
    share_error,
    worst_second,
    worst_window,
)

EVEN = {"a": 1.0, "b": 1.0}


def test_the_examples_hold():
    assert doctest.testmod(fair_measures).failed == 0


def test_shares_by_weight_have_an_index_of_one():
    runs = [Ran("a", 0, 10), Ran("b", 0, 10), Ran("b", 0, 10)]
    assert index(runs, {"a": 1.0, "b": 2.0}, 0, 10) == pytest.approx(1)
    assert index(runs, EVEN, 0, 10) == pytest.approx(0.9)


def test_the_worst_second_is_that_in_which_one_had_everything():
    runs = [Ran("a", 0, 1), Ran("a", 1, 2), Ran("b", 1, 2)]
    assert worst_second(runs, EVEN, 0, 2) == 0.5


def test_shares_have_settled_with_the_first_window_that_is_near_enough():
    runs = [Ran("a", 0, 8), Ran("b", 3, 8)]
    assert settles_after(runs, EVEN, 0, 8, within=0.05, window_s=2) == 3.0
    assert settles_after(runs, {"a": 1.0, "b": 9.0}, 0, 8, within=0.05, window_s=2) is None
    assert share_error(runs, EVEN, 0, 3) == 1


@pytest.mark.parametrize(("instants", "beyond"), [([0, 0, 1, 2], 0), ([0, 5, 5, 5], 1), ([0, 10], -1)])
def test_a_burst_counts_wherever_it_comes(instants: list[float], beyond: float):
    assert most_beyond(instants, per_s=1, burst=2) == beyond


def test_the_worst_window_tells_how_far_a_share_was_away_in_points():
    runs = [Ran("a", 0, 4), Ran("b", 2, 4)]
    assert worst_window(runs, EVEN, 0, 4, window_s=2) == 50
    assert worst_window(runs, EVEN, 2, 4, window_s=2) == 0
