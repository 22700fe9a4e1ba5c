"""How long a failed fire waits before its next attempt: exponential backoff with full jitter, capped.

The wait is drawn evenly from 0 to ``base * 2**(attempt - 1)``, or to ``cap`` if that is less. Full jitter spreads the
retries of a thousand fires that failed together over the whole wait, where a fixed wait would send them back together
(Brooker, "Exponential Backoff And Jitter", 2015). It says how long, not whether: ``max_attempts`` is the ledger's.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from scheduling.core.clock import MICROSECOND
from scheduling.core.errors import InvalidField


def backoff(attempt: int, *, base: timedelta, cap: timedelta, rand: Callable[[], float]) -> timedelta:
    """The wait after attempt number ``attempt`` (1 is the first) has failed; ``rand`` gives a number in [0, 1).

    Raises InvalidField for an attempt below 1 and for negative durations.
    """
    if attempt < 1:
        raise InvalidField("attempt", attempt, "attempts count from 1")
    for name, duration in (("base", base), ("cap", cap)):
        if duration < timedelta(0):
            raise InvalidField(name, str(duration), "is negative")
    cap_us = cap // MICROSECOND
    doublings = min(attempt - 1, cap_us.bit_length())  # more would exceed any cap: no number grows without bound
    longest_us = min(base // MICROSECOND << doublings, cap_us)
    return timedelta(microseconds=int(longest_us * rand()))
