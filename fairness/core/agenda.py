"""Members, each with a time: the earliest is found at once, and any of them can be moved or struck off.

A heap whose entries are left behind when their member moves on; an entry counts only while its number is its member's.
When more than half of the heap is left behind, it is made anew: so memory follows the members, and each operation costs
O(log n) in the mean.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Generic, TypeVar

M = TypeVar("M", bound=Hashable)

SLACK = 64  # entries left behind that are not worth the making anew


class Agenda(Generic[M]):
    """Members of one time come out in the order in which they were set."""

    __slots__ = ("_entries", "_heap", "_numbers")

    def __init__(self) -> None:
        self._entries: dict[M, tuple[float, int, M]] = {}
        self._heap: list[tuple[float, int, M]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, member: M) -> bool:
        return member in self._entries

    def __iter__(self) -> Iterator[M]:
        return iter(self._entries)

    def set(self, member: M, at: float) -> None:
        """Put ``member`` at this time, wherever it was before."""
        self._entries[member] = entry = (at, next(self._numbers), member)
        heappush(self._heap, entry)
        self._tidy()

    def discard(self, member: M) -> None:
        """Strike ``member`` off; nothing happens if it is not there."""
        if self._entries.pop(member, None) is not None:
            self._tidy()

    def time_of(self, member: M) -> float:
        """The time of ``member``; ``inf`` if it is not there."""
        entry = self._entries.get(member)
        return inf if entry is None else entry[0]

    def first_at(self) -> float:
        """The earliest time; ``inf`` if there is none."""
        heap = self._heap
        while heap and not self._counts(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else inf

    def pop_due(self, now: float) -> list[M]:
        """Take out whoever's time is not after ``now``, earliest first."""
        due: list[M] = []
        while self._heap and self._heap[0][0] <= now:
            entry = heappop(self._heap)
            if self._counts(entry):
                del self._entries[entry[2]]
                due.append(entry[2])
        return due

    def _counts(self, entry: tuple[float, int, M]) -> bool:
        own = self._entries.get(entry[2])
        return own is not None and own[1] == entry[1]

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._entries) + SLACK:
            self._heap = list(self._entries.values())
            heapify(self._heap)
