"""How late an occurrence is, in real seconds, and how late by what nobody limits."""

from __future__ import annotations

from datetime import datetime

from scheduling.core.clock import Clock


class Lateness:
    """As of now. ``held_since``: the job time since which the tenant is held on the job's shard, if it is."""

    __slots__ = ("_clock", "_held_s", "_now")

    def __init__(self, clock: Clock, held_since: datetime | None = None) -> None:
        self._clock, self._now = clock, clock.monotonic()
        self._held_s = 0.0 if held_since is None else max(0.0, self._now - clock.real_time(held_since))

    def in_all_s(self, fire_at: datetime) -> float:
        """Negative: not due yet."""
        return self._now - self._clock.real_time(fire_at)

    def own_s(self, fire_at: datetime) -> float:
        """Without what lies in the hold: of what came due since then there is nothing else."""
        late_s = self.in_all_s(fire_at)
        return late_s if late_s <= 0 or not self._held_s else max(0.0, late_s - self._held_s)

    def is_throttled(self, fire_at: datetime, grace_s: float) -> bool:
        """It is beyond its grace, and would not be but for the hold."""
        return self._held_s > 0 and self.own_s(fire_at) <= grace_s < self.in_all_s(fire_at)
