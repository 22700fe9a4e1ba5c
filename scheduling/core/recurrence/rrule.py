"""Recurrence rules of RFC 5545: what calendars speak.

FREQ=DAILY and coarser is *wall-clock*, HOURLY and MINUTELY are *elapsed* (see ``timeline``); the options ``gap`` and
``fold`` are those of cron. COUNT counts what the rule itself gives, before EXDATE takes from it. As in dateutil,
DTSTART is an occurrence only where the rule gives it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from math import prod

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence.rrule_text import Rule, parse
from scheduling.core.recurrence.rrule_wall import RuleWall, expansion, on_wall
from scheduling.core.recurrence.schedule import option, utc
from scheduling.core.recurrence.timeline import Fold, Gap, Timeline
from scheduling.core.recurrence.zones import zone

_BLOCK_BITS = {"YEARLY": 22, "MONTHLY": 22, "WEEKLY": 22, "DAILY": 21, "HOURLY": 16, "MINUTELY": 11}
_FAR = 1 << 60


@dataclass(frozen=True, slots=True)
class RRule:
    """A rule such as ``FREQ=WEEKLY;BYDAY=MO,WE``, with lines DTSTART and EXDATE if there are any, in an IANA zone.

    ``dtstart`` is aware: the rule counts from it, and takes from it what it does not say; it may stand in the text
    instead. Raises InvalidField: ``rrule`` for a text that cannot be read or never fires, ``dtstart``, ``tz``,
    ``gap``, ``fold``.
    """

    text: str
    dtstart: datetime | None = None
    tz: str = "UTC"
    gap: Gap = Gap.FIRST_VALID
    fold: Fold = Fold.FIRST
    line: Timeline = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InvalidField("rrule", self.text, "is not text")
        zone(self.tz)
        gap, fold = option("gap", Gap, self.gap), option("fold", Fold, self.fold)
        dtstart = None if self.dtstart is None else utc("dtstart", self.dtstart)
        line = compiled(self.text, dtstart, self.tz, gap, fold)
        for name, value in (("dtstart", dtstart), ("gap", gap), ("fold", fold), ("line", line)):
            object.__setattr__(self, name, value)

    def next_after(self, moment: datetime) -> datetime | None:
        return self.line.next_after(utc("moment", moment))

    def __reduce__(self) -> tuple[type[RRule], tuple[object, ...]]:
        """Pickled by what was said, so that the copy shares its timeline."""
        return type(self), (self.text, self.dtstart, self.tz, self.gap, self.fold)


@lru_cache(maxsize=4096)
def compiled(text: str, dtstart: datetime | None, tz: str, gap: Gap, fold: Fold) -> Timeline:
    """The timeline of a rule, shared by all that ask for the same. Raises InvalidField (``rrule``, ``dtstart``)."""
    said = parse(text, zone(tz))
    if (dtstart is None) == (said.start is None):
        problem = "is needed: the rule counts from it" if dtstart is None else "is given beside a DTSTART in the text"
        raise InvalidField("dtstart", dtstart, problem)
    start = said.start if dtstart is None else dtstart.astimezone(zone(tz)).replace(tzinfo=None, microsecond=0)
    if start is None:
        raise InvalidField("dtstart", dtstart, "is needed: the rule counts from it")
    try:
        expansion(said.rule, start, start)
    except ValueError as refusal:
        raise InvalidField("rrule", text, f"its parts contradict each other: {refusal}") from refusal
    wall = RuleWall(said.rule, start, frozenset(map(on_wall, said.excluded)))
    if next(wall.local_times(on_wall(start), _FAR), None) is None:
        raise InvalidField("rrule", text, f"never fires in the 40 years from {start}")
    elapsed = said.rule.freq in ("HOURLY", "MINUTELY")
    return Timeline(wall, tz, not elapsed, gap, fold, _block_bits(said.rule))


def _block_bits(rule: Rule) -> int:
    """Some dozens of occurrences to a block, or fewer."""
    in_day = prod(len(rule.values(part)) or 1 for part in ("BYHOUR", "BYMINUTE", "BYSECOND"))
    return max(_BLOCK_BITS[rule.freq] - in_day.bit_length() + 1, 6)
