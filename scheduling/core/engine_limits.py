"""How much an engine does at once, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from scheduling.core.turn import FairLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """Times are real seconds, counts are fires. The settings of these names have the defaults."""

    window_s: float
    poll_s: float
    batch: int
    ahead: int
    backlog: int
    start_patience_s: float = inf  # without end: what is published is not looked after
    fairness: FairLimits | None = None  # None: whoever is due goes
