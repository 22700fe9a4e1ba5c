"""A schedule that repeats in real time: ``anchor + k * every`` for k = 0, 1, 2, …

It counts from its anchor and never from the last fire, so that it does not drift with the latency of dispatch, and zone
changes do not touch it. A timedelta counts whole microseconds: exact at any distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence.schedule import utc

SHORTEST = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class Interval:
    """Each ``every`` from ``anchor`` on, the anchor included; nothing before it. The Unix epoch is a usual anchor.

    Raises InvalidField: ``every`` under 100 ms, or a naive ``anchor``.
    """

    every: timedelta
    anchor: datetime

    def __post_init__(self) -> None:
        if not isinstance(self.every, timedelta):
            raise InvalidField("every", self.every, "is not a timedelta")
        if self.every < SHORTEST:
            raise InvalidField("every", str(self.every), "is shorter than 100 ms")
        object.__setattr__(self, "anchor", utc("anchor", self.anchor))

    def next_after(self, moment: datetime) -> datetime | None:
        moment = utc("moment", moment)
        elapsed = moment - self.anchor
        if elapsed.days < 0:
            return self.anchor
        try:
            return moment + (self.every - elapsed % self.every)
        except OverflowError:
            return None
