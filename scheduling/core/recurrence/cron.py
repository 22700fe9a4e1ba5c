"""Cron: a wall clock's schedule in a time zone.

An expression is *elapsed* where its minute or hour field starts with ``*``: it follows real time, and zone changes
neither add nor lose an occurrence. Else it is *wall-clock*: each local time fires once, also where the zone skips it
or shows it twice (options ``gap`` and ``fold``). This is the rule of Debian's cron.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence.cron_days import DayMatch
from scheduling.core.recurrence.cron_plan import compiled, is_hashed
from scheduling.core.recurrence.schedule import option, utc
from scheduling.core.recurrence.timeline import Fold, Gap, Timeline


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression of 5 fields, or 6 with the second first, in an IANA zone.

    ``key`` is what ``H`` hashes: something stable of the job. ``day_match``, ``gap`` and ``fold`` take the values of
    their enums as text too. Raises InvalidField, naming the field: an expression that cannot be read or never fires,
    an unknown zone or option.
    """

    expression: str
    tz: str = "UTC"
    key: str = ""
    day_match: DayMatch = DayMatch.OR
    gap: Gap = Gap.FIRST_VALID
    fold: Fold = Fold.FIRST
    line: Timeline = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise InvalidField("cron", self.expression, "is not text")
        if not isinstance(self.tz, str):
            raise InvalidField("tz", self.tz, "is not text")
        day_match = option("day_match", DayMatch, self.day_match)
        gap, fold = option("gap", Gap, self.gap), option("fold", Fold, self.fold)
        key = self.key if is_hashed(self.expression) else ""  # the same timeline for all where nothing is hashed
        line = compiled(self.expression, key, day_match, gap, fold, self.tz)
        for name, value in (("day_match", day_match), ("gap", gap), ("fold", fold), ("line", line)):
            object.__setattr__(self, name, value)

    def next_after(self, moment: datetime) -> datetime | None:
        return self.line.next_after(utc("moment", moment))

    def __reduce__(self) -> tuple[type[Cron], tuple[str, ...]]:
        """Pickled by what was said, so that the copy shares its timeline."""
        return type(self), (self.expression, self.tz, self.key, self.day_match, self.gap, self.fold)
