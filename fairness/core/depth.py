"""How many requests may be with the broker and the workers at once: the depth D, by what the workers report. Pure.

The idea
--------
What is released waits in the order of its release: with D requests before C slots, one that is released last waits for
about ``(D - C) / C`` mean requests, however fair the order before it. But with D = C a slot stands idle from the end of
its request until that is seen, and the next has come. So D is what C slots and the way there and back hold::

    D = C × (1 + round trip / mean request) + 2

and is put right by what is seen: 10 % up when slots were idle though something was ready to go, 10 % down when requests
stand before the workers, each after two reports in a row that say so; and at once, when slots are idle and D is below
what the formula gives for the requests as they are now. How many stand there by chance follows from how many are on
their way (Poisson), and is let be.

Slots that are idle beside as many requests as there are slots, which stand before them, lack no depth: workers do not
take what is there, since its queue is being declared, or comes to them few at a time. More would only stand there, too.
But if more than half of the slots are idle, what stands there has the places of everybody else: that of a queue which
the broker cannot deliver from, or of a task that a rate limit of Celery's holds in the workers. Then others need more.

Rules
-----
- Without any report ever there is no depth: workers that say nothing are not bounded.
- Reports older than ``STALE_S`` count for nothing; if there is no other, what was known last stays. A node that has
  known nothing yet begins with the slots of those who reported last: while all workers are down the flood waits, too.
- A worker that is leaving has no slots. New slots raise D at once, in proportion.
- D is never below the slots, nor above ``20 × slots + 100``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt

STALE_S = 5.0
AT_LAST_S = 60.0  # who reported so shortly before the last that did was there with it
TICK_S = 0.95  # reports come each second
IN_A_ROW = 2
STEP = 1.1
IDLE = 0.02  # of all slots; less is as good as none
MOSTLY = 0.5  # of all slots
SPARE = 2
SLOTS_AT_MOST, SPARE_AT_MOST = 20, 100
FIRST_MEAN_S = 0.1  # of a request, while none has ended


@dataclass(frozen=True, slots=True)
class Report:
    """Of one worker, over ``interval_s``; by its age the reader knows how long it has said nothing."""

    slots: int
    busy: int
    waiting: int  # requests that it holds, and does not run yet
    idle_s: float  # slot-seconds
    interval_s: float
    ran: int
    ran_s: float
    age_s: float = 0.0
    is_leaving: bool = False


class Depth:
    """One pool's. Times never go back."""

    def __init__(self) -> None:
        self.slots = 0
        self.mean_s = FIRST_MEAN_S  # slot-seconds of a request
        self._factor: float | None = None  # of the slots
        self._next_at = 0.0
        self._was_ready = True
        self._idle = 0  # reports in a row
        self._standing = 0

    @property
    def depth(self) -> int | None:
        """None: not bounded, for no worker has ever reported."""
        if self._factor is None:
            return None
        wanted = round(self.slots * self._factor) + SPARE
        return max(1, self.slots, min(wanted, SLOTS_AT_MOST * self.slots + SPARE_AT_MOST))

    def look(
        self,
        now: float,
        reports: Iterable[Report],
        *,
        is_ready: bool,
        round_trip_s: float,
        in_flight: int | None = None,
    ) -> None:
        """What the workers last reported; as often as one likes. ``is_ready``: something waits only for room.

        ``round_trip_s``: from the end of a request until another runs in its slot, where nothing stands before it.
        ``in_flight``: of all nodes, as far as known; from it follows what stands in the broker.
        """
        told = list(reports)
        fresh = [report for report in told if report.age_s <= STALE_S and not report.is_leaving]
        if not fresh:
            if told and self._factor is None:
                self._begin_without(told, round_trip_s)
            return
        self.slots = sum(report.slots for report in fresh)
        self._was_ready = self._was_ready and is_ready
        if now < self._next_at and self._factor is not None:
            return
        self._next_at = now + TICK_S
        if ran := sum(report.ran for report in fresh):
            self.mean_s = max(sum(report.ran_s for report in fresh) / ran, 1e-4)
        if self._factor is None:
            self._factor = 1 + round_trip_s / self.mean_s
        else:
            self._put_right(fresh, ran, round_trip_s, in_flight)
        self._was_ready = is_ready

    def _begin_without(self, gone: list[Report], round_trip_s: float) -> None:
        """Nobody works at the moment."""
        until_s = AT_LAST_S + min(report.age_s for report in gone)
        self.slots = sum(report.slots for report in gone if report.age_s <= until_s)
        self._factor = 1 + round_trip_s / self.mean_s

    def _put_right(self, reports: list[Report], ran: int, round_trip_s: float, in_flight: int | None) -> None:
        assert self._factor is not None
        time_s = sum(report.slots * report.interval_s for report in reports)
        idle_s = sum(report.idle_s for report in reports)
        per_s = ran / max(report.interval_s for report in reports) if ran else 0.0
        under_way = per_s * round_trip_s
        standing: float = sum(report.waiting for report in reports)
        if in_flight is not None:
            standing = max(standing, in_flight - sum(report.busy for report in reports) - under_way)
        stands = standing > SPARE + 2 * sqrt(1 + under_way)
        lacks_some = standing <= self.slots + under_way  # the way may be twice as long as it is known to be
        is_short = idle_s > (IDLE if lacks_some else MOSTLY) * time_s
        self._idle = self._idle + 1 if is_short and self._was_ready else 0
        self._standing = self._standing + 1 if stands and not is_short else 0
        if self._idle and self._factor < (known := 1 + round_trip_s / self.mean_s):
            self._factor = known  # requests are shorter than they were, or than was thought while none had ended
        elif self._idle >= IN_A_ROW:
            self._factor *= STEP
        elif self._standing >= IN_A_ROW:
            self._factor /= STEP
        highest = SLOTS_AT_MOST + SPARE_AT_MOST / max(self.slots, 1)
        self._factor = max(1.0, min(self._factor, highest))
