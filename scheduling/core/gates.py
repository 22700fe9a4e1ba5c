"""Back-pressure: a gate that a broker's refusal closes, for 50 ms at first, doubling to a second while refusals go
on.
"""

from __future__ import annotations

from collections.abc import Hashable

from scheduling.core.fire import Fire

BROKER = "broker"  # the gate of the connection itself
FIRST_S = 0.05
LONGEST_S = 1.0

Queue = tuple[int, str]  # a tenant's lane: each has a queue of its own


def lane_of(fire: Fire) -> Queue:
    """The gate of its tenant's lane."""
    return fire.work.tenant_id, fire.work.lane


class Gates:
    """One gate for each key (``lane_of`` a fire, or the ``BROKER``). Times are monotonic seconds."""

    def __init__(self) -> None:
        self._closed: dict[Hashable, tuple[float, float]] = {}  # key -> (opens at, length of this closure)

    @property
    def all_open(self) -> bool:
        """No refusal is remembered."""
        return not self._closed

    def close(self, key: Hashable, now: float) -> None:
        """A refusal: closes an open gate, for twice as long as the time before if that was only just over."""
        opens_at, pause_s = self._closed.get(key, (0.0, 0.0))
        if now < opens_at:
            return  # refusals of what was sent before it closed
        pause_s = min(pause_s * 2, LONGEST_S) if pause_s and now - opens_at < LONGEST_S else FIRST_S
        self._closed[key] = (now + pause_s, pause_s)

    def opens_at(self, *keys: Hashable) -> float:
        """When the last of these gates opens, or opened; 0 if none was ever closed."""
        if not self._closed:
            return 0.0  # nearly always
        return max((self._closed[key][0] for key in keys if key in self._closed), default=0.0)

    def succeed(self, key: Hashable, now: float) -> None:
        """The broker takes messages again: the next refusal starts from the shortest closure."""
        if key in self._closed and now >= self._closed[key][0]:
            del self._closed[key]
