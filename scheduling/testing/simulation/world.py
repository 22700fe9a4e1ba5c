"""Virtual time: a queue of what happens when, one source of chance, and the log of what happened."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random

from scheduling.testing.clock import ManualClock

Log = list[str]


class World:
    """Nothing passes but what was asked for by ``after``; what is due at one instant happens in the order of asking.

    With a ``log`` every note is kept in it; without one a note costs nothing.
    """

    def __init__(self, seed: int, *, log: Log | None = None) -> None:
        self.random = Random(seed)
        self.clock = ManualClock()
        self.violations: list[str] = []
        self._log = log
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    @property
    def now(self) -> float:
        """Monotonic seconds since the beginning."""
        return self.clock.monotonic()

    def after(self, delay_s: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.clock.monotonic() + delay_s, next(self._order), do))

    def run_until(self, until: float, *, is_over: Callable[[], bool] = lambda: False) -> None:
        """Let things happen until then; stops early once ``is_over``, or something that must not be has happened."""
        events, clock = self._events, self.clock
        while events and events[0][0] <= until and not self.violations and not is_over():
            at, _, do = heapq.heappop(events)
            clock.advance_to(at)
            do()
        if not self.violations and not is_over():
            clock.advance_to(until)

    def note(self, who: str, what: str, *about: object) -> None:
        if self._log is not None:
            self._log.append(f"{self.now:9.4f}  {who:<8} {what} {' '.join(map(str, about))}".rstrip())

    def violate(self, invariant: str, what: str) -> None:
        """Something happened that must never."""
        self.note("!!!", invariant, what)
        self.violations.append(f"{invariant}: {what}")
