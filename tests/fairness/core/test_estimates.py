"""What a request is expected to cost."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairness.core.estimates import Estimates
from fairness.core.fair_queue import FairQueue

A = ("bulk", "a", "task")


def test_of_an_unknown_task_the_mean_of_its_lane_is_expected() -> None:
    estimates = Estimates(first=0.5)
    assert estimates.of(A) == 0.5
    for _ in range(1000):
        estimates.learn(("bulk", "b", "other"), 2.0)
    assert estimates.of(A) == pytest.approx(2.0)
    assert estimates.of(("transactional", "a", "task")) == 0.5


def test_it_follows_what_a_task_costs() -> None:
    estimates = Estimates(first=1.0)
    for _ in range(20):
        estimates.learn(A, 3.0)
        estimates.learn(("bulk", "a", "short"), 0.5)
    assert estimates.of(A) == pytest.approx(3.0)
    assert estimates.of(("bulk", "a", "short")) == pytest.approx(0.5)


def test_no_task_is_believed_beyond_ten_times_its_lane_or_a_tenth() -> None:
    estimates = Estimates(first=1.0)
    for _ in range(1000):
        estimates.learn(("bulk", "b", "usual"), 1.0)
    estimates.learn(A, 900.0)
    estimates.learn(("bulk", "a", "nothing"), 0.0)
    assert estimates.of(A) == pytest.approx(10 * 9.99, rel=0.02)
    assert estimates.of(("bulk", "a", "nothing")) == pytest.approx(0.99, rel=0.02)


def test_of_too_many_tasks_the_least_recent_is_forgotten() -> None:
    estimates = Estimates(first=1.0, kept=3)
    for task in ("x", "y", "z"):
        estimates.learn(("bulk", "a", task), 1.0)
    estimates.learn(("bulk", "a", "x"), 5.0)
    estimates.learn(("bulk", "a", "new"), 1.0)
    assert len(estimates) == 3
    assert estimates.of(("bulk", "a", "x")) > estimates.of(("bulk", "a", "y"))


@pytest.mark.parametrize("cost", [-1, nan, inf])
def test_an_absurd_cost_is_refused(cost: float) -> None:
    estimates = Estimates(first=1.0)
    with pytest.raises(ValueError, match="cost .*: must be at least 0, and finite"):
        estimates.learn(A, cost)
    with pytest.raises(ValueError, match="first .*: must be at least 1e-06, and finite"):
        Estimates(first=cost)


@given(st.lists(st.floats(0, 1e6), max_size=30))
def test_whatever_was_learned_the_queue_takes_the_estimate(costs: list[float]) -> None:
    estimates = Estimates(first=0.1)
    for cost in costs:
        estimates.learn(A, cost)
    queue: FairQueue[int] = FairQueue()
    queue.offer(1, A, estimates.of(A))
    assert len(queue) == 1
