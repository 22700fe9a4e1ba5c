from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.errors import InvalidField
from scheduling.core.retry import backoff

BASE, CAP = timedelta(seconds=10), timedelta(hours=1)
ALMOST_ONE = 1 - 2**-53
MICROSECOND = timedelta(microseconds=1)


@pytest.mark.parametrize(("attempt", "longest_s"), [(1, 10), (2, 20), (3, 40), (9, 2560), (10, 3600), (11, 3600)])
def test_the_longest_wait_doubles_up_to_the_cap(attempt: int, longest_s: int) -> None:
    longest = backoff(attempt, base=BASE, cap=CAP, rand=lambda: ALMOST_ONE)
    assert timedelta(0) <= timedelta(seconds=longest_s) - longest <= MICROSECOND


def test_the_wait_is_spread_evenly_from_zero() -> None:
    waits = [backoff(3, base=BASE, cap=CAP, rand=lambda part=part: part / 4) for part in range(4)]  # type: ignore[misc]
    assert waits == [timedelta(seconds=wait_s) for wait_s in (0, 10, 20, 30)]


@given(
    st.integers(1, 10**12),
    st.timedeltas(timedelta(0), timedelta(days=3650)),
    st.timedeltas(timedelta(0), timedelta(days=3650)),
    st.floats(0, 1, exclude_max=True),
)
def test_no_attempt_however_high_waits_longer_than_the_cap(
    attempt: int, base: timedelta, cap: timedelta, drawn: float
) -> None:
    assert timedelta(0) <= backoff(attempt, base=base, cap=cap, rand=lambda: drawn) <= cap


def test_a_base_of_zero_retries_at_once() -> None:
    assert backoff(50, base=timedelta(0), cap=CAP, rand=lambda: 0.9) == timedelta(0)


def test_attempts_count_from_one() -> None:
    with pytest.raises(InvalidField, match="attempt 0: attempts count from 1"):
        backoff(0, base=BASE, cap=CAP, rand=lambda: 0.5)


@pytest.mark.parametrize(("base", "cap", "field"), [(-BASE, CAP, "base"), (BASE, -CAP, "cap")])
def test_a_negative_duration_is_refused(base: timedelta, cap: timedelta, field: str) -> None:
    with pytest.raises(InvalidField, match=f"^{field} '-1 day, .*': is negative"):
        backoff(1, base=base, cap=cap, rand=lambda: 0.5)
