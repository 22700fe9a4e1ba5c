"""What happens when, in simulated time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count


class Events:
    """Those of one instant happen in the order in which they were planned. ``now`` is in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        heappush(self._heap, (self.now + seconds, next(self._numbers), do))

    def every(self, seconds: float, do: Callable[[], None], *, first: float | None = None) -> None:
        def again() -> None:
            do()
            self.after(seconds, again)

        self.after(seconds if first is None else first, again)

    def run_until(self, end: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= end:
            self.now, _, do = heappop(heap)
            do()
        self.now = end
