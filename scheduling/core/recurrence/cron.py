"""Cron: a wall clock's schedule in a time zone.

An expression is *elapsed* where its minute or hour field starts with ``*``: it follows real time, and zone changes
neither add nor lose an occurrence. Else it is *wall-clock*: each local time fires once, also where the zone skips it
or shows it twice (options ``gap`` and ``fold``). This is the rule of Debian's cron.

Steps are memoised by (plan, moment), and a plan is shared by all jobs with the same expression and options: at the
top of an hour thousands of jobs ask the same few questions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar

from scheduling.core.clock import EPOCH
from scheduling.core.errors import InvalidField
from scheduling.core.recurrence.cron_plan import DayMatch, Fold, Gap, Plan, compiled
from scheduling.core.recurrence.schedule import utc
from scheduling.core.recurrence.zones import DAY, zone

_Option = TypeVar("_Option", bound=StrEnum)


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
    plan: Plan = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise InvalidField("cron", self.expression, "is not text")
        zone(self.tz)
        day_match = _option("day_match", DayMatch, self.day_match)
        gap, fold = _option("gap", Gap, self.gap), _option("fold", Fold, self.fold)
        key = self.key if "H" in self.expression.upper() else ""  # the same plan for all where nothing is hashed
        plan = compiled(self.expression, key, day_match, gap, fold, self.tz)
        for name, value in (("day_match", day_match), ("gap", gap), ("fold", fold), ("plan", plan)):
            object.__setattr__(self, name, value)

    def next_after(self, moment: datetime) -> datetime | None:
        return _next_after(self.plan, utc("moment", moment))

    def __reduce__(self) -> tuple[type[Cron], tuple[str, ...]]:
        """Pickled by what was said, so that the copy shares its plan."""
        return type(self), (self.expression, self.tz, self.key, self.day_match, self.gap, self.fold)


@lru_cache(maxsize=65_536)
def _next_after(plan: Plan, moment: datetime) -> datetime | None:
    passed = moment - EPOCH
    found = plan.next_after(passed.days * DAY + passed.seconds)
    return None if found is None else EPOCH + timedelta(seconds=found)


def _option(name: str, kind: type[_Option], value: str) -> _Option:
    try:
        return kind(value)
    except ValueError:
        raise InvalidField(name, value, f"is not one of {', '.join(kind)}") from None
