"""What becomes of a run whose lease is out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from scheduling.core.fire import State
from scheduling.core.lost_lease import LostLease, after_lost_lease

NOW = timedelta(0)
WAITS: dict[str, Any] = {"base": timedelta(seconds=10), "cap": timedelta(hours=1), "rand": lambda: 1.0}


def test_the_first_retry_is_at_once_and_later_ones_wait() -> None:
    waits = [after_lost_lease(attempt, 5, deleted=False, **WAITS).wait for attempt in (1, 2, 3)]
    assert waits == [NOW, timedelta(seconds=10), timedelta(seconds=20)]


def test_what_does_not_count_as_an_attempt_makes_no_wait_longer() -> None:
    """Twenty snoozes have moved the number of the attempt and of those that are allowed."""
    assert after_lost_lease(21, 23, deleted=False, counted=1, **WAITS).wait == NOW
    assert after_lost_lease(22, 23, deleted=False, counted=2, **WAITS).wait == timedelta(seconds=10)


@pytest.mark.parametrize(
    ("attempt", "deleted", "end"),
    [
        (3, False, LostLease(State.DEAD, "attempts_exhausted", None)),
        (3, True, LostLease(State.DEAD, "cancelled", None)),
        (1, True, LostLease(State.DEAD, "cancelled", None)),
        (1, False, LostLease(State.RETRY_WAIT, "lease_lost", NOW)),
    ],
)
def test_without_attempts_left_or_without_its_job_it_is_dead(attempt: int, deleted: bool, end: LostLease) -> None:
    assert after_lost_lease(attempt, 3, deleted=deleted, **WAITS) == end
