from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from math import ceil, inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.errors import InvalidField
from scheduling.core.latency import FLOOR_S, GROWTH, LatencyHistogram

seconds = st.floats(FLOOR_S, 86_400, exclude_min=True)
percents = st.integers(0, 100)


def histogram_of(values: Iterable[float]) -> LatencyHistogram:
    histogram = LatencyHistogram()
    for value in values:
        histogram.record(value)
    return histogram


def nearest_rank(values: list[float], percent: int) -> float:
    rank = max(1, ceil(Fraction(percent, 100) * len(values)))
    return sorted(values)[rank - 1]


@given(st.lists(seconds, min_size=1, max_size=120), percents)
def test_a_quantile_is_within_two_percent_of_the_true_one(values: list[float], percent: int) -> None:
    true = nearest_rank(values, percent)
    told = histogram_of(values).quantile(percent / 100)
    assert told == pytest.approx(true, rel=0.02)


@given(st.integers(0, 640), st.sampled_from([-1e-9, 0.0, 1e-9]))
def test_a_value_at_a_bucket_border_is_within_two_percent(bucket: int, off: float) -> None:
    value = FLOOR_S * GROWTH**bucket * (1 + off)
    histogram = histogram_of([value, 1e9])
    assert histogram.quantile(0.5) == pytest.approx(value, rel=0.02, abs=FLOOR_S)


@given(st.lists(seconds, max_size=60), st.lists(seconds, max_size=60), percents)
def test_merging_is_the_same_as_counting_together(ours: list[float], theirs: list[float], percent: int) -> None:
    merged = histogram_of(ours)
    merged.merge(histogram_of(theirs))
    together = histogram_of(ours + theirs)
    assert merged.to_dict() == together.to_dict()
    assert merged.count == len(ours) + len(theirs)
    assert merged.quantile(percent / 100) == together.quantile(percent / 100)


@given(st.lists(st.floats(-1, 100), max_size=60), percents)
def test_it_survives_json(values: list[float], percent: int) -> None:
    histogram = histogram_of(values)
    again = LatencyHistogram.from_dict(json.loads(json.dumps(histogram.to_dict())))
    assert again.to_dict() == histogram.to_dict()
    assert (again.count, again.max) == (histogram.count, histogram.max)
    assert again.quantile(percent / 100) == histogram.quantile(percent / 100)


def test_the_maximum_is_exact_and_nothing_is_above_it() -> None:
    histogram = histogram_of([0.1, 0.123456, 0.05])
    assert histogram.max == 0.123456
    assert histogram.quantile(1) == 0.123456
    assert histogram_of([0.1234] * 100).quantile(0.5) == pytest.approx(0.1234, rel=0.02)
    assert all((histogram_of([value] * 2).quantile(0.5) or 0) <= value for value in (0.01, 0.0123, 0.5, 1.0))


def test_the_seventh_of_a_hundred_is_the_seventh_hundredth() -> None:
    values = [0.001 if rank < 7 else 1.0 for rank in range(100)]
    assert histogram_of(values).quantile(0.07) == pytest.approx(0.001, rel=0.02)


def test_early_ones_count_as_no_latency() -> None:
    histogram = histogram_of([-0.2, 0.0, 5.0])
    assert histogram.count == 3
    assert histogram.quantile(0.5) == 0
    assert histogram_of([-0.2, -0.1]).quantile(0.5) == -0.1


def test_everything_under_a_microsecond_shares_one_bucket() -> None:
    histogram = histogram_of([1e-12, 1e-9, 1e-6, 1.0])
    assert histogram.to_dict()["buckets"][:2] == [0, 3]
    assert histogram.quantile(0.5) == 0


def test_an_empty_histogram_has_no_quantile_rather_than_a_good_one() -> None:
    histogram = LatencyHistogram()
    assert (histogram.count, histogram.max, histogram.quantile(0.99)) == (0, None, None)
    histogram.merge(LatencyHistogram())
    assert histogram.max is None


def test_its_size_does_not_grow_with_the_count() -> None:
    histogram = histogram_of(1e-3 * 1.001**step for step in range(20_000 // 2))
    assert len(json.dumps(histogram.to_dict())) < 6_000


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_what_is_not_a_number_is_refused(value: float) -> None:
    with pytest.raises(InvalidField, match="is not a finite number"):
        LatencyHistogram().record(value)


@pytest.mark.parametrize("q", [-0.01, 1.01, 99, nan])
def test_a_quantile_outside_zero_to_one_is_refused(q: float) -> None:
    with pytest.raises(InvalidField, match="is not a fraction from 0 to 1"):
        histogram_of([1.0]).quantile(q)


def test_buckets_of_another_size_are_refused_rather_than_misread() -> None:
    stored = histogram_of([1.0]).to_dict() | {"growth": 1.02}
    with pytest.raises(InvalidField, match=r"growth 1\.02: buckets of another size cannot be read; ours is 1\.04"):
        LatencyHistogram.from_dict(stored)
