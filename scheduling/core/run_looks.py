"""When to look how those in flight stand: the sooner, the more wait for their places; no more often than a tenth of the
store's time allows; and ever more seldom while nothing comes and nothing ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from scheduling.core.fire import Fire

SOONEST_S, LATEST_S = 0.02, 0.25
PART = 10  # of the time, at most, is spent on looks
STILL = 0.05  # of the time for which nothing has stirred
AT_ONCE = 1000  # fires


class RunLooks:
    """At most one is under way. Times are monotonic seconds. One thread owns it."""

    def __init__(self) -> None:
        self._at = 0.0
        self._began: float | None = None
        self._looked_up_to = 0
        self.every_s = SOONEST_S

    def next_at(self, *, is_anything_in_flight: bool) -> float:
        return self._at if self._began is None and is_anything_in_flight else inf

    def begin(self, fires: Callable[[], Sequence[Fire]], now: float, *, is_anything_in_flight: bool) -> Sequence[Fire]:
        """Those to look at now, the others in their turn; none if it is not time."""
        if now < self.next_at(is_anything_in_flight=is_anything_in_flight):
            return ()
        self._began, all_ = now, fires()
        start = self._looked_up_to if self._looked_up_to < len(all_) > AT_ONCE else 0
        self._looked_up_to = start + AT_ONCE
        return all_[start : start + AT_ONCE]

    def end(self, now: float, *, does_anybody_wait: bool, still_s: float) -> None:
        """It is over, well or not. ``still_s``: for so long nothing has come, and nothing has ended."""
        took_s = 0.0 if self._began is None else now - self._began
        self._began = None
        soonest_s = SOONEST_S if does_anybody_wait else LATEST_S / 2
        self.every_s = min(max(took_s * PART, soonest_s, still_s * STILL), LATEST_S)
        self._at = now + self.every_s
