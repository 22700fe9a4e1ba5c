"""A hierarchical timing wheel: holds what is to happen, and says at each tick what is due.

The idea
--------
A heap pays O(log n) for every timer, and a cache miss at each of its levels. But a scheduler never asks "which is the
smallest?"; it only asks "which are due now?". So hash the timers by time. One ring of 2**32 slots, one a millisecond,
would answer at once, and would not fit in memory. A clock face shows the way out: hands that turn at different speeds.
Write a tick in base 256; each digit is the hand of one level, and each level is a ring of 256 slots::

    tick  =  d3 : d2 : d1 : d0
    level 0   a slot is          1 ms, the ring      256 ms
    level 1   a slot is        256 ms, the ring       65.5 s
    level 2   a slot is       65.5 s,  the ring        4.66 h
    level 3   a slot is       4.66 h,  the ring       49.7 days
    overflow  a slot is    49.7 days (an "era"), as many as are needed, in a dictionary

A timer goes to **the level of the highest digit in which its deadline differs from now**, into the slot which that
digit names. (That digit is found from the bits of ``deadline XOR now``: no search.) When time enters a slot of an upper
level, the slot is *spilled*: its timers go into the ring below, which is empty by then. A timer of level 0 sits in the
slot of its very tick, and fires.

A worked example
----------------
Now is ``0:0:5:250`` (tick 1530). Three timers are added::

    0:0:5:252    2 ms ahead   digit 0 differs first  -> level 0, slot 252
    0:0:6:3      9 ms ahead   digit 1 differs first  -> level 1, slot 6   (only 9 ms, but over the border of a ring)
    0:2:0:7    129 s ahead    digit 2 differs first  -> level 2, slot 2

``next_deadline()`` takes the lowest ring that is occupied, and its first slot: level 0, slot 252, so 0:0:5:252.
Now ``advance(0:0:6:10)``:

1. The first slot is level 0, slot 252: it begins at 0:0:5:252, not after 0:0:6:10. It fires.
2. Next is level 1, slot 6: it begins at 0:0:6:0, not after 0:0:6:10. It spills; its one timer goes to level 0, slot 3.
3. Next is level 0, slot 3: it begins at 0:0:6:3. It fires.
4. Next is level 2, slot 2: it begins at 0:2:0:0, which is later. Done; now is 0:0:6:10, and two are returned in order.

``next_deadline()`` now says 0:2:0:0, where that slot begins; its timer is due 7 ms after that. Whoever wakes then gets
nothing, and asks again: the slot has spilled by then, and the answer is 0:2:0:7.

Why it is right
---------------
* All timers that wait lie after now, and share with it every digit above that of their level. So in each ring they lie
  ahead of the hand, every slot holds one span only, a ring never wraps, and *all* of level 0 comes before all of
  level 1, and so on up. The first slot of the lowest occupied ring is therefore the earliest of all.
* What is at or before now is *late*: it lies in a list of its own, and comes before everything in the rings.
* Timers of one tick keep the order in which they were added: lists are appended to and spilled in order, and a slot has
  spilled before a later timer can be put beneath it.
* Empty slots cost nothing, however far time jumps: an integer per ring has a bit for each occupied slot, and its lowest
  bit is the next.

The waste it accepts
--------------------
* A timer is moved up to four times before it fires (once is usual for a second ahead), yet never compared with another.
* The cost is by occupied slot, then by timer. Where nearly every timer has a slot of its own (under some 4,000 over a
  second, or 100,000 over an hour), ``heapq``, in C and in the cache, is the faster. It is not where time goes then.
* A slot spills whole: of a million timers within one 256 ms, a million are moved in one ``advance``. The claim window
  bounds that.
* ``next_deadline`` may be early (the beginning of a slot), for at most four vain wake-ups before a timer; never late.
* One millisecond is the resolution; within it, order is that of adding.
* A single timer cannot be cancelled. What was paused or edited meanwhile is refused where it is dispatched;
  ``remove_if`` walks all.

It reads no clock, takes no lock (one thread owns it) and starts no thread; the caller sleeps until ``next_deadline``
and calls ``advance``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, Generic, TypeVar

from scheduling.core.errors import InvalidField

T = TypeVar("T")
Slot = list[Any]  # deadline, item, deadline, item, …: flat, since a tuple for each would cost 56 B more

LEVELS = 4
BITS = 8  # of a digit
SLOTS = 1 << BITS
MASK = SLOTS - 1
EMPTY: Slot = []  # stands in every slot that holds nothing; never appended to


def tick_of(instant_s: float) -> int:
    """The millisecond in which an instant lies; one that begins a tick, as 1.001, is not rounded to the one before."""
    return int(instant_s * 1000 + 1e-4)


class TimingWheel(Generic[T]):
    """Items by the tick at which they are due. A tick is a whole millisecond; the caller chooses its zero."""

    __slots__ = ("_late", "_now", "_occupied", "_overflow", "_rings", "_size")

    def __init__(self, start_tick: int) -> None:
        """Time stands at ``start_tick``. Raises InvalidField if that is negative."""
        if start_tick < 0:
            raise InvalidField("start_tick", start_tick, "a tick is a whole number from 0 up")
        self._now = start_tick
        self.clear()

    def __iter__(self) -> Iterator[T]:
        """In no particular order."""
        return (item for _, item in self._entries())

    def __len__(self) -> int:
        return self._size

    def clear(self) -> None:
        """Forget every item; time stays where it is."""
        self._late: list[tuple[int, T]] = []
        self._rings: list[list[Slot]] = [[EMPTY] * SLOTS for _ in range(LEVELS)]
        self._occupied = [0] * LEVELS  # a bit for each slot of the ring
        self._overflow: dict[int, Slot] = {}  # by era: the digits above the highest ring
        self._size = 0

    def add(self, deadline_tick: int, item: T) -> None:
        """Hold ``item`` until ``deadline_tick``; what is past already comes out of the next ``advance``."""
        now = self._now
        if deadline_tick <= now:
            self._late.append((deadline_tick, item))
        else:
            level = ((deadline_tick ^ now).bit_length() - 1) // BITS
            if level < LEVELS:
                index = deadline_tick >> level * BITS & MASK
                if slot := self._rings[level][index]:
                    slot += (deadline_tick, item)
                else:
                    self._rings[level][index] = [deadline_tick, item]
                    self._occupied[level] |= 1 << index
            else:
                self._overflow.setdefault(deadline_tick >> LEVELS * BITS, []).extend((deadline_tick, item))
        self._size += 1

    def advance(self, to_tick: int) -> list[T]:
        """Move time to ``to_tick`` and take out every item whose deadline is not after it, in order of deadline.

        Time never goes back: an earlier ``to_tick`` leaves it where it is, and takes out only what was late by then.
        """
        due = self._take_late(to_tick) if self._late else []
        if to_tick > self._now:
            while not self._fire(to_tick, due) and (upper := self._first_upper()) and upper[2] <= to_tick:
                level, index, self._now = upper
                self._spill(level, index)
            self._now = to_tick
        self._size -= len(due)
        return due

    def next_deadline(self) -> int | None:
        """A tick not after the next deadline, and after now unless something is late; None if there is nothing."""
        if self._late:
            return min(self._late, key=itemgetter(0))[0]
        if occupied := self._occupied[0]:
            return (self._now & ~MASK) + (occupied & -occupied).bit_length() - 1
        upper = self._first_upper()
        return None if upper is None else upper[2]

    def remove_if(self, predicate: Callable[[T], bool]) -> list[T]:
        """Take out the items for which ``predicate`` is true, in no particular order; if it raises, nothing changes."""
        removed: list[T] = []
        kept: list[tuple[int, T]] = []
        for deadline_tick, item in self._entries():
            if predicate(item):
                removed.append(item)
            else:
                kept.append((deadline_tick, item))
        if removed:
            self.clear()
            for deadline_tick, item in kept:
                self.add(deadline_tick, item)
        return removed

    def _first_upper(self) -> tuple[int, int, int] | None:
        """Level, index and first tick of the earliest slot, once level 0 is empty; an era is a slot above the rings."""
        for level, occupied in enumerate(self._occupied):
            if occupied:
                index = (occupied & -occupied).bit_length() - 1
                shift = level * BITS
                return level, index, (self._now >> shift + BITS << BITS | index) << shift
        if self._overflow:
            era = min(self._overflow)
            return LEVELS, era, era << LEVELS * BITS
        return None

    def _fire(self, to_tick: int, due: list[T]) -> bool:
        """Move to ``due`` what level 0 holds up to ``to_tick``; true if it holds more, which is then the next."""
        if not (occupied := self._occupied[0]):
            return False
        ahead = to_tick - (self._now & ~MASK)  # of the ring's slot 0
        ready = occupied if ahead >= MASK else occupied & (2 << ahead) - 1
        left = self._occupied[0] = occupied ^ ready
        ring = self._rings[0]
        while ready:
            lowest = ready & -ready
            index = lowest.bit_length() - 1
            due += ring[index][1::2]
            ring[index] = EMPTY
            ready ^= lowest
        return left != 0

    def _spill(self, level: int, index: int) -> None:
        """Spread the slot that time has entered over the ring below it, which is empty."""
        if level == LEVELS:
            upper = self._overflow.pop(index)
        else:
            upper = self._rings[level][index]
            self._rings[level][index] = EMPTY
            self._occupied[level] ^= 1 << index
        shift = (level - 1) * BITS
        ring, occupied = self._rings[level - 1], 0
        flat = iter(upper)
        for deadline_tick, item in zip(flat, flat, strict=True):
            slot_index = deadline_tick >> shift & MASK
            if slot := ring[slot_index]:
                slot += (deadline_tick, item)
            else:
                ring[slot_index] = [deadline_tick, item]
                occupied |= 1 << slot_index
        self._occupied[level - 1] = occupied

    def _take_late(self, to_tick: int) -> list[T]:
        late = sorted(self._late, key=itemgetter(0))
        self._late = [entry for entry in late if entry[0] > to_tick]
        return [item for _, item in late[: len(late) - len(self._late)]]

    def _entries(self) -> Iterator[tuple[int, T]]:
        yield from self._late
        slots = [slot for ring in self._rings for slot in ring if slot]
        for slot in (*slots, *self._overflow.values()):
            flat = iter(slot)
            yield from zip(flat, flat, strict=True)
