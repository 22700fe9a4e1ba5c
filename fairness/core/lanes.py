"""How lanes share one depth: each has slots that the other may not take, and borrows what the other leaves idle. Pure.

- Nobody but ``transactional`` takes the last quarter while that was active within the last minute: so it finds room at
  once, and not when a long request of a flood has ended.
- ``transactional`` leaves the others a tenth while they have anything waiting.
- Else each may have all. Together they never have more than the depth, as far as both know of each other; what was
  borrowed is given back as it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from fairness.core.terms import TRANSACTIONAL

RESERVED = 0.25  # of the depth, for transactional
FLOOR = 0.1  # of the depth, for the others
ACTIVE_S = 60.0


@dataclass(frozen=True, slots=True)
class LaneLoad:
    in_flight: int = 0
    waiting: int = 0


class Lanes:
    """Remembers when the transactional lane was active. Times never go back."""

    def __init__(self) -> None:
        self._active_at = -inf

    def depths(self, now: float, depth: int, loads: Mapping[str, LaneLoad]) -> dict[str, int]:
        """How many each of these lanes may have in flight in all: of all nodes, or of this one alone."""
        urgent = loads.get(TRANSACTIONAL, LaneLoad())
        if urgent.in_flight or urgent.waiting:
            self._active_at = now
        others = {lane: load for lane, load in loads.items() if lane != TRANSACTIONAL}
        of_others = sum(load.in_flight for load in others.values())
        is_active = now - self._active_at < ACTIVE_S
        room_of_others = min(_all_but(depth, RESERVED) if is_active else depth, depth - urgent.in_flight)
        found = {lane: room_of_others - (of_others - load.in_flight) for lane, load in others.items()}
        if TRANSACTIONAL in loads:
            do_wait = any(load.waiting for load in others.values())
            found[TRANSACTIONAL] = min(_all_but(depth, FLOOR) if do_wait else depth, depth - of_others)
        return {lane: max(0, room) for lane, room in found.items()}


def _all_but(depth: int, part: float) -> int:
    """At least one place is left out, where there are two; and at least one is left."""
    return max(1, depth - max(1, int(depth * part)))
