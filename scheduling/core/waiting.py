"""What waits, parked or for a retry: when to look for it, and which of it is let in.

::

    look ─┬─ something is due ─> Release ─> look again after ten times as long as it took, at once behind a full batch
          └─ nothing is ────────────────> look again when the next will be, and after REST_S at the latest

A look costs the more the more tenants have something waiting, so looks take a tenth of the time at most; but what comes
back by the thousand should not come in lumps of a quarter of a second's worth. And none is made while the last one says
that it is too early. What comes due sooner than that is hinted by whoever wrote it, or was parked by us; REST_S is for
hints that are lost, and for what others write for later.

Does not do: read or number fires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf

from scheduling.core.clock import Clock
from scheduling.core.fire import Fire
from scheduling.core.gates import Gates, lane_of
from scheduling.core.outstanding import Outstanding

SOONEST_S, WAIT_S = 0.05, 0.25
PART = 10  # of the time, at most, is spent on looks
REST_S = 1.0
HINTED_S = 2.0  # of job time: what is due within is hinted
MARGIN_S = 0.001  # not to be there a moment too early


@dataclass(frozen=True, slots=True)
class Waiting:
    """``fires`` are due by now. ``next_at``: job time at which the next is, or may be, where there are none; None if
    nothing waits.
    """

    fires: Sequence[Fire]
    next_at: datetime | None = None


class WaitingLooks:
    """At most one look, or the release that came of it, is under way. Times are monotonic seconds. One thread owns it.

    ``backlog`` is how many fires may be in flight.
    """

    def __init__(self, clock: Clock, outstanding: Outstanding, gates: Gates, *, backlog: int) -> None:
        self._clock, self._outstanding, self._gates = clock, outstanding, gates
        self._backlog = backlog
        self._at = self._began = 0.0
        self._is_under_way = False

    def now(self) -> None:
        """Something became due: look as soon as can be."""
        self._at = 0.0

    def soon(self, now: float) -> None:
        """Something may be let in that was left out before."""
        self._at = min(self._at, now + SOONEST_S)

    def by(self, at: datetime) -> None:
        """Something will be due at this job time."""
        self._at = min(self._at, self._clock.real_time(at) + MARGIN_S)

    def next_at(self) -> float:
        """When the next look is due; ``inf`` while one is under way."""
        return inf if self._is_under_way else self._at

    def begin(self, now: float, *, takes_more: bool) -> bool:
        """Whether to look now."""
        if now < self.next_at():
            return False
        self._at = inf if takes_more else now + WAIT_S
        self._began = now
        self._is_under_way = takes_more
        return takes_more

    def end(self) -> None:
        """It is over, well or not. A hint that came meanwhile stands."""
        if self._is_under_way:
            self._is_under_way = False
            now = self._clock.monotonic()
            self._at = min(self._at, now + min(max(PART * (now - self._began), SOONEST_S), WAIT_S))

    def rest(self, next_at: datetime | None, now: float) -> None:
        """It is over, and found nothing: what comes next is due at this job time. A hint that came meanwhile stands."""
        self.end()
        if self._at:
            rest_s = min(REST_S, HINTED_S / self._clock.speed)
            comes_at = inf if next_at is None else self._clock.real_time(next_at) + MARGIN_S
            self._at = max(self._at, min(comes_at, now + rest_s))

    def admitted(self, fires: Sequence[Fire], now: float) -> list[Fire]:
        """Without the retries that would crowd out first attempts: beyond half of what may be in flight, or where their
        tenant's queue is full.
        """
        if not any(fire.attempt for fire in fires):
            return list(fires)
        room = max(1, self._backlog // 2) - self._outstanding.retries
        let_in: list[Fire] = []
        for fire in fires:
            if fire.attempt:
                if room <= 0 or self._gates.opens_at(lane_of(fire)) > now:
                    continue
                room -= 1
            let_in.append(fire)
        return let_in
