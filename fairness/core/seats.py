"""The seats of a branch's children in the order of their tags, however many: who is near in exact order, who is far in
buckets.

::

              near                            far
    ┌───────────────────────┐   ┌───────────┬───────────┬─────── … ───┐
    │ line, and the early   │   │  bucket   │  bucket   │             │      tags grow ──>
    └───────────────────────┘   └───────────┴───────────┴─────────────┘
    the least                 edge          1 << shift each, unordered

A heap of ten thousand entries is walked from the top to a leaf for each turn: dozens of places all over the memory. But
virtual time only goes on, so the order of those who are far need not be known yet. An entry beyond the *edge* goes into
the bucket of its tag. When nobody is near any more, the next bucket is sorted, and is the *line*, from whose end its
entries are taken one by one; whoever comes before the edge meanwhile is one of the *early*, which are a heap. Many a
tag has grown since its entry was made, as what it was charged was settled: then the entry is made anew as its bucket
opens, while its child is at hand.

While there are few entries all of them are early: one small heap. Buckets begin when there are more than ``FEW``; how
wide they are follows from how close the lower half of all tags is together. When as many entries were taken as there
were, it is looked whether that still fits; so a new division costs each turn O(1) in the mean.

Invariants: whoever is early, or in the line, has a tag below the edge; whoever is in a bucket has not. The least entry,
by tag, then by order, is the least of the near. An entry counts while its order is its child's ``seat``; others are
*left behind*, counted, and passed over. (By the order, and not by what it is: compiled, a tuple has no identity.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush, heappushpop, merge
from itertools import count
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from fairness.core.node import Node

T = TypeVar("T")

FAR = 1 << 200  # beyond every tag
FEW = 512  # entries that are one heap
FITTING = 128  # entries of a bucket
TOLERANCE = 2  # bits by which the width of buckets may be off
SAMPLE = 64  # tags by which it is chosen

orders = count(1)  # among equal tags, who was seated first; 0 is nobody's

Entry = tuple[int, int, "Node[T]"]  # tag, order, whose it is


class Seats(Generic[T]):
    """``left_behind``: how many of the entries are nobody's seat any more; whoever takes a seat away adds to it."""

    __slots__ = ("_early", "_edge", "_far", "_line", "_marks", "_most_early", "_shift", "_to_take", "left_behind")

    def __init__(self) -> None:
        self._early: list[Entry[T]] = []  # a heap
        self._line: list[Entry[T]] = []  # least last
        self._far: dict[int, list[Entry[T]]] = {}  # by tag >> shift
        self._marks: list[int] = []  # a heap of the keys of ``_far``
        self._edge = FAR
        self._shift = 0
        self._most_early = FEW  # then they are divided anew
        self._to_take = FEW  # before it is looked whether the buckets still fit
        self.left_behind = 0

    def __iter__(self) -> Iterator[Entry[T]]:
        """All, those left behind included, in no order."""
        yield from self._line
        yield from self._early
        for bucket in self._far.values():
            yield from bucket

    def in_order(self) -> Iterator[Entry[T]]:
        """The same, least first; looks at little more than it yields."""
        yield from merge(reversed(self._line), sorted(self._early))
        for mark in sorted(self._marks):
            yield from sorted(self._far[mark])

    def add(self, entry: Entry[T]) -> None:
        tag = entry[0]
        if tag < self._edge:
            heappush(self._early, entry)
            if len(self._early) > self._most_early:
                self._divide(list(self))
        elif (bucket := self._far.get(mark := tag >> self._shift)) is not None:
            bucket.append(entry)
        else:
            self._far[mark] = [entry]
            heappush(self._marks, mark)

    def exchange(self, entry: Entry[T]) -> Entry[T]:
        """Put this one in, which counts, and take the least out that does: `add` and `pop` in one, for each turn."""
        tag = entry[0]
        if tag >= self._edge and (bucket := self._far.get(tag >> self._shift)) is not None:
            bucket.append(entry)
        elif tag < self._edge and not self._line:
            found = heappushpop(self._early, entry)
            while found[2].seat != found[1]:
                self.left_behind -= 1
                found = heappop(self._early)
            return found
        else:
            self.add(entry)
        line, early = self._line, self._early
        if line:
            found = heappop(early) if early and early[0] < line[-1] else line.pop()
            if found[2].seat == found[1]:
                return found
            self.left_behind -= 1
        least = self.pop()
        assert least is not None  # one is there
        return least

    def pop(self) -> Entry[T] | None:
        """Take the least out that counts; None if there is none."""
        while True:
            line, early = self._line, self._early
            if line:
                entry = heappop(early) if early and early[0] < line[-1] else line.pop()
            elif early:
                entry = heappop(early)
            elif self._marks:
                self._open()
                continue
            else:
                return None
            if entry[2].seat == entry[1]:
                return entry
            self.left_behind -= 1

    def clear_left_behind(self) -> None:
        """Whoever counts is here from now on, and nobody else."""
        self._divide([entry for entry in self if entry[2].seat == entry[1]])
        self.left_behind = 0

    def _open(self) -> None:
        """Nobody is near any more: the next bucket is, but for those who count no more, or whose tags have grown."""
        mark = heappop(self._marks)
        bucket = self._far.pop(mark)
        self._edge = edge = (mark + 1) << self._shift
        self._line = line = []
        for entry in bucket:
            tag, order, child = entry
            if child.seat != order:
                self.left_behind -= 1
            elif child.tag <= tag:
                line.append(entry)
            elif child.tag < edge:
                line.append(child.new_entry(next(orders)))
            else:
                self.add(child.new_entry(next(orders)))
        line.sort(reverse=True)
        self._to_take -= len(bucket)
        if self._to_take <= 0:
            entries = list(self)
            self._to_take = max(FEW, len(entries))
            if len(entries) <= FEW // 2 or abs(_fitting_shift(entries) - self._shift) > TOLERANCE:
                self._divide(entries)

    def _divide(self, entries: list[Entry[T]]) -> None:
        """Hold these, in buckets as wide as it fits them; few of them in one heap."""
        self._line, self._early, self._far, self._marks = [], [], {}, []
        self._to_take, self._most_early, self._edge = max(FEW, len(entries)), max(FEW, len(entries) // 4), FAR
        if len(entries) <= FEW // 2:
            self._early = entries
            heapify(entries)
            return
        self._shift = shift = _fitting_shift(entries)
        for entry in entries:
            self._far.setdefault(entry[0] >> shift, []).append(entry)
        self._marks = sorted(self._far)
        self._open()


def _fitting_shift(entries: Sequence[Entry[T]]) -> int:
    """Of buckets that have about ``FITTING`` of these, were all as close together as the lower half is."""
    tags = sorted(entry[0] for entry in entries[:: len(entries) // SAMPLE or 1])
    width = (tags[len(tags) // 2] - tags[0]) * 2 * FITTING // len(entries)
    return max(0, width.bit_length() - 1)
