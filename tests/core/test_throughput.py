"""How many a second: over a minute, or over what there was of it."""

from __future__ import annotations

import pytest

from scheduling.core.throughput import Throughput


def test_of_less_than_a_minute_what_there_was_counts() -> None:
    seen = Throughput(0.0)
    for at in range(20):
        seen.add(at / 2)
    assert seen.per_s(10.0) == pytest.approx(2.0)


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    seen = Throughput(0.0)
    for at in range(120):
        seen.add(float(at))
    assert seen.per_s(120.0) == pytest.approx(1.0, abs=0.02)
    assert seen.per_s(1000.0) == 0.0


def test_the_first_moment_is_no_flood() -> None:
    seen = Throughput(5.0)
    seen.add(5.0)
    assert seen.per_s(5.0) == 1.0
