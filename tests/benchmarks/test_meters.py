from __future__ import annotations

import pytest

from benchmarks.meters import Reading, costs, difference, percentiles_ms, point
from scheduling.core.latency import LatencyHistogram


def _histogram(*seconds: float) -> LatencyHistogram:
    histogram = LatencyHistogram()
    for value in seconds:
        histogram.record(value)
    return histogram


def _reading(at: float, recorded: int, *seconds: float, **cpu_s: float) -> Reading:
    return Reading(at, recorded, recorded * 600, _histogram(*seconds), cpu_s)


def test_the_difference_of_two_histograms_is_what_was_recorded_in_between():
    during = difference(_histogram(2.0, 2.0, 0.010, 0.010), _histogram(2.0, 2.0))
    assert during.count == 2
    assert percentiles_ms(during)["p50"] == pytest.approx(10, rel=0.02)


def test_percentiles_of_nothing_are_null():
    assert percentiles_ms(_histogram()) == {"p50": None, "p99": None, "p99.9": None}


def test_costs_are_for_each_fire_and_only_of_groups_that_both_readings_have():
    first, last = _reading(0, 0, nodes=1.0), _reading(10, 1000, nodes=1.5, rabbitmq=3.0)
    found = costs(first, last, 1000)
    assert found == {"cpu_us_per_fire": {"nodes": 500.0}, "cpus_busy": {"nodes": 0.05}, "wal_bytes_per_fire": 600}


def test_without_fires_there_is_no_cost_of_one():
    found = costs(_reading(0, 0, nodes=1.0), _reading(10, 0, nodes=1.5), 0)
    assert found["cpu_us_per_fire"] is None


def test_a_point_of_a_series_has_the_rate_between_two_readings():
    found = point(_reading(110, 1000), _reading(120, 3000, 0.010), 100)
    assert (found["s"], found["fires_per_s"]) == (20, 200)
