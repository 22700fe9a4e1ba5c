"""A schedule of one instant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from scheduling.core.recurrence.schedule import utc


@dataclass(frozen=True, slots=True)
class Once:
    """One instant, ``at``; any zone is taken and kept as UTC. Raises InvalidField (``at``) for a naive one."""

    at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", utc("at", self.at))

    def next_after(self, moment: datetime) -> datetime | None:
        return self.at if utc("moment", moment) < self.at else None
