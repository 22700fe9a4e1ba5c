"""From the wall onto the line: at which instants a zone's clock shows the local times of a schedule.

A *wall* (the fields of a cron expression, a recurrence rule) is a set of local times. In a segment of the zone local
time and UTC run alike, so its local times are instants at once; what lies in a gap or in a fold is decided where
segments meet. Stretches without any local time are skipped, however many years they last.

A *wall-clock* schedule fires once for each local time, also where the zone skips it or shows it twice; an *elapsed* one
whenever the clock shows one: not in a gap, twice in a fold.

Occurrences are computed and remembered by blocks of time, and lines are shared by the jobs that say the same: at the
top of an hour thousands of jobs ask the same few questions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from heapq import merge
from itertools import groupby, islice, takewhile
from typing import Protocol

from scheduling.core.clock import EPOCH
from scheduling.core.recurrence.zones import DAY, Segment, segment_at

FIRST_INSTANT = (date(1, 1, 3) - date(1970, 1, 1)).days * DAY
LAST_INSTANT = (date(9999, 12, 30) - date(1970, 1, 1)).days * DAY
LONGEST_BLOCK_BITS = 25
_LONGEST_JUMP = 2 * DAY  # more than any change of offset
_FAR = 1 << 60
_SECOND = timedelta(seconds=1)


class Gap(StrEnum):
    """What becomes of a wall-clock time that the wall skips."""

    FIRST_VALID = "first_valid"  # at the first instant after the gap
    SHIFT = "shift"  # later by the length of the gap
    SKIP = "skip"


class Fold(StrEnum):
    """What becomes of a wall-clock time that the wall shows twice."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class Wall(Protocol):
    """A set of local times, as whole seconds since 1970-01-01T00:00 on the wall."""

    def local_times(self, low: int, high: int) -> Iterator[int]:
        """Those in [``low``, ``high``), in order. Ends at the latest with the year 9999."""

    def count(self, low: int, high: int) -> int:
        """How many there are in [``low``, ``high``)."""


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """A wall in a zone. Compared by identity: make one for all the jobs that say the same."""

    wall: Wall
    tz: str
    wall_clock: bool  # else elapsed
    gap: Gap
    fold: Fold
    block_bits: int  # a block of 2^block_bits seconds is computed and remembered at a time

    def next_after(self, moment: datetime) -> datetime | None:
        """The first occurrence strictly after an aware moment in UTC."""
        passed = moment - EPOCH
        block = _block(self, passed.days * DAY + passed.seconds >> self.block_bits)
        place = bisect_right(block, moment)
        return block[place] if place < len(block) else None

    def walk(self, start: int) -> Iterator[int]:
        """The occurrences at or after an instant, in order; all in whole seconds since the Unix epoch."""
        start = max(start, FIRST_INSTANT)
        while start < LAST_INSTANT:
            segment = segment_at(self.tz, start)
            yield from self._in_segment(segment, start)
            near = next(self.wall.local_times(segment.end + segment.offset - _LONGEST_JUMP, _FAR), None)
            if near is None:
                return
            start = max(segment.end, near - segment.offset - _LONGEST_JUMP)

    def count(self, *, after: datetime, until: datetime) -> int:
        """How many occurrences are in (``after``, ``until``], both aware UTC. Only near changes of the zone is each
        looked at.
        """
        start, end = (after - EPOCH) // _SECOND + 1, (until - EPOCH) // _SECOND + 1
        total = 0
        while start < end:
            segment = segment_at(self.tz, start)
            stop = min(end, segment.end)
            calm_from = min(max(start, segment.start + abs(segment.before - segment.offset)), stop)
            calm_to = max(min(stop, segment.end - abs(segment.after - segment.offset)), calm_from)
            total += self._walked(start, calm_from) + self._walked(calm_to, stop)
            total += self.wall.count(calm_from + segment.offset, calm_to + segment.offset)
            start = stop
        return total

    def _walked(self, start: int, stop: int) -> int:
        return sum(1 for _ in takewhile(stop.__gt__, self.walk(start))) if start < stop else 0

    def in_gap(self, instant: int) -> Iterator[int]:
        """The local times in a gap for which an occurrence stands; there may be many."""
        segment = segment_at(self.tz, instant)
        opens, closes = segment.start + segment.before, segment.start + segment.offset
        if not self.wall_clock or opens >= closes or self.gap is Gap.SKIP:
            return iter(())
        if self.gap is Gap.SHIFT:
            return self.wall.local_times(instant + segment.before, min(instant + segment.before + 1, closes))
        return self.wall.local_times(opens, closes) if instant == segment.start else iter(())

    def _in_segment(self, segment: Segment, start: int) -> Iterator[int]:
        """The occurrences in a segment, at or after ``start``, which is in it."""
        offset = segment.offset
        low, high = start + offset, min(segment.end, LAST_INSTANT) + offset
        if self.wall_clock:
            if self.fold is Fold.FIRST and segment.before > offset:
                low = max(low, segment.start + segment.before)
            if self.fold is Fold.SECOND and segment.after < offset:
                high = segment.end + segment.after
        local_times = self.wall.local_times(low, high)
        shown = map((-offset).__add__, local_times) if offset else local_times
        # a time in the gap before the segment could fire at or after start
        if self.wall_clock and start + segment.before < segment.start + offset:
            return _merged(self._out_of_gap(segment, start), shown)
        return shown

    def _out_of_gap(self, segment: Segment, start: int) -> Iterator[int]:
        """When the local times in the gap before a segment fire in it, at or after ``start``."""
        opens, closes = segment.start + segment.before, segment.start + segment.offset
        if self.gap is Gap.SHIFT:
            yield from (local - segment.before for local in self.wall.local_times(start + segment.before, closes))
        elif self.gap is Gap.FIRST_VALID and start == segment.start:
            yield from (start for _ in islice(self.wall.local_times(opens, closes), 1))


@lru_cache(maxsize=16_384)  # 25 MB when full
def _block(line: Timeline, index: int) -> tuple[datetime, ...]:
    """The occurrences in a block of time, and the first one behind it: whatever the block is asked for is in it."""
    end = (index + 1) << line.block_bits
    found = []
    for instant in line.walk(index << line.block_bits):
        found.append(EPOCH + timedelta(0, instant))  # positional: half the time of seconds=
        if instant >= end:
            break
    return tuple(found)


def _merged(some: Iterator[int], others: Iterator[int]) -> Iterator[int]:
    """Both in order, none twice."""
    return (instant for instant, _ in groupby(merge(some, others)))
