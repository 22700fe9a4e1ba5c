"""Reads a recurrence rule of RFC 5545 (section 3.3.10) with its DTSTART and EXDATE lines.

Strict where dateutil's own reader is lenient: an unknown part, a part twice, a value out of range or a part that the
RFC forbids for this FREQ is refused. Refused as well, since a scheduler has no bound for them: SECONDLY; MINUTELY
with BY-parts; a COUNT over 10,000; RDATE and EXRULE.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

from scheduling.core.errors import InvalidField

LONGEST = 8192  # characters: a rule, and some hundreds of EXDATEs
MOST_COUNT = 10_000
FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY")
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
# part: lowest and highest value, and whether it may count from the end
_NUMBERS = {
    "INTERVAL": (1, 10_000, False),
    "COUNT": (1, MOST_COUNT, False),
    "BYSECOND": (0, 59, False),
    "BYMINUTE": (0, 59, False),
    "BYHOUR": (0, 23, False),
    "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True),
    "BYWEEKNO": (1, 53, True),
    "BYMONTH": (1, 12, False),
    "BYSETPOS": (1, 366, True),
}
KNOWN = ("FREQ", "UNTIL", "WKST", "BYDAY", *_NUMBERS)
_FORBIDDEN = {
    "BYWEEKNO": {"MONTHLY", "WEEKLY", "DAILY", "HOURLY"},
    "BYYEARDAY": {"MONTHLY", "WEEKLY", "DAILY"},
    "BYMONTHDAY": {"WEEKLY"},
}
_MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?")
_WEEKDAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)")


@dataclass(frozen=True, slots=True)
class Weekday:
    """A value of BYDAY: Monday 0, and which one of the month or year (0: each)."""

    day: int
    nth: int


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as it was said; ``until`` and the dates beside it are wall-clock times in the job's zone."""

    freq: str
    interval: int
    count: int | None
    until: datetime | None
    week_start: int
    numbers: tuple[tuple[str, tuple[int, ...]], ...]
    weekdays: tuple[Weekday, ...]

    def values(self, part: str) -> tuple[int, ...]:
        return dict(self.numbers).get(part, ())


@dataclass(frozen=True, slots=True)
class Recurrence:
    """What the lines of a text say."""

    rule: Rule
    start: datetime | None
    excluded: tuple[datetime, ...]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads one text; every refusal shows it."""

    text: str
    tz: ZoneInfo

    def refusal(self, problem: str) -> InvalidField:
        return InvalidField("rrule", self.text, problem)

    def recurrence(self) -> Recurrence:
        rules: list[str] = []
        starts: list[datetime] = []
        excluded: list[datetime] = []
        for line in self.text.upper().split():
            name, value = self.line(line)
            if name == "RRULE":
                rules.append(value)
            else:
                moments = starts if name == "DTSTART" else excluded
                moments += [self.moment(item) for item in value.split(",")]
        if len(rules) != 1:
            raise self.refusal(f"holds {len(rules)} rules; exactly one is needed")
        if len(starts) > 1:
            raise self.refusal(f"holds {len(starts)} starts; there can be one")
        return Recurrence(self.rule(rules[0]), starts[0] if starts else None, tuple(sorted(set(excluded))))

    def line(self, line: str) -> tuple[str, str]:
        head, colon, value = line.partition(":")
        if not colon:
            return "RRULE", line
        name, *parameters = head.split(";")
        if name not in ("RRULE", "DTSTART", "EXDATE"):
            raise self.refusal(f"line {name!r}: only RRULE, DTSTART and EXDATE are understood")
        for parameter in parameters:
            key, _, said = parameter.partition("=")
            if key == "TZID" and said != self.tz.key.upper():
                raise self.refusal(f"TZID {said!r} is not the job's zone, {self.tz.key}")
            if key not in ("TZID", "VALUE"):
                raise self.refusal(f"parameter {parameter!r}: only TZID and VALUE are understood")
        return name, value

    def rule(self, value: str) -> Rule:
        parts = self.parts(value)
        freq = parts.pop("FREQ", None)
        if freq == "SECONDLY":
            raise self.refusal("FREQ=SECONDLY: use an interval (`every`), or cron with a second field")
        if freq not in FREQUENCIES:
            raise self.refusal(f"FREQ {freq!r} is not one of {', '.join(FREQUENCIES)}")
        self.check_allowed(freq, parts)
        weekdays = tuple(self.weekday(item, freq) for item in parts.pop("BYDAY").split(",")) if "BYDAY" in parts else ()
        self.check_weekdays(weekdays, parts)
        until, count = parts.pop("UNTIL", None), parts.pop("COUNT", None)
        week_start = parts.pop("WKST", "MO")
        if week_start not in WEEKDAYS:
            raise self.refusal(f"WKST {week_start!r} is not one of {', '.join(WEEKDAYS)}")
        return Rule(
            freq=freq,
            interval=self.number("INTERVAL", parts.pop("INTERVAL", "1")),
            count=None if count is None else self.number("COUNT", count),
            until=None if until is None else self.moment(until, at_end_of_day=True),
            week_start=WEEKDAYS.index(week_start),
            weekdays=weekdays,
            numbers=tuple(
                (name, tuple(sorted({self.number(name, item) for item in said.split(",")})))
                for name, said in parts.items()
            ),
        )

    def parts(self, value: str) -> dict[str, str]:
        parts: dict[str, str] = {}
        for part in value.split(";"):
            name, equals, said = part.partition("=")
            if not equals or not said:
                raise self.refusal(f"{part!r} is not a part such as FREQ=DAILY")
            if name not in KNOWN:
                raise self.refusal(f"part {name!r} is not one of {', '.join(KNOWN)}")
            if name in parts:
                raise self.refusal(f"{name} stands twice")
            parts[name] = said
        return parts

    def check_allowed(self, freq: str, parts: dict[str, str]) -> None:
        if "COUNT" in parts and "UNTIL" in parts:
            raise self.refusal("COUNT and UNTIL exclude each other")
        for name in parts:
            if freq in _FORBIDDEN.get(name, ()):
                raise self.refusal(f"{name} has no meaning with FREQ={freq}")
            if freq == "MINUTELY" and name.startswith("BY"):
                raise self.refusal(f"FREQ=MINUTELY with {name}: a cron expression says this")
        if "BYSETPOS" in parts and not any(name.startswith("BY") and name != "BYSETPOS" for name in parts):
            raise self.refusal("BYSETPOS needs another BY-part to choose from")

    def check_weekdays(self, weekdays: tuple[Weekday, ...], parts: dict[str, str]) -> None:
        if any(day.nth for day in weekdays):
            if not all(day.nth for day in weekdays):
                raise self.refusal("BYDAY mixes each and n-th days, which dateutil reads as both at once")
            if "BYWEEKNO" in parts:
                raise self.refusal("BYDAY with numbers has no meaning with BYWEEKNO")

    def number(self, name: str, said: str) -> int:
        low, high, from_end = _NUMBERS[name]
        digits = said[1:] if said[:1] == "+" or (from_end and said[:1] == "-") else said
        if not digits.isascii() or not digits.isdigit() or not low <= int(digits[:6]) <= high:
            raise self.refusal(
                f"{name} {said!r} is not in {low}-{high}{', or from the end with -' if from_end else ''}"
            )
        return -int(digits) if said[0] == "-" else int(digits)

    def weekday(self, said: str, freq: str) -> Weekday:
        match = _WEEKDAY.fullmatch(said)
        if match is None:
            raise self.refusal(f"BYDAY {said!r} is not a day such as MO, or 2MO, or -1FR")
        nth = int(match[1] or 0)
        if match[1] and (freq not in ("MONTHLY", "YEARLY") or not 1 <= abs(nth) <= 53):
            raise self.refusal(f"BYDAY {said!r}: a number from 1 to 53, and only with FREQ=MONTHLY or YEARLY")
        return Weekday(WEEKDAYS.index(match[2]), nth)

    def moment(self, said: str, *, at_end_of_day: bool = False) -> datetime:
        """A wall-clock time in the job's zone. A date is its first instant, as UNTIL its last."""
        match = _MOMENT.fullmatch(said)
        try:
            if match is None:
                raise ValueError
            year, month, day = int(match[1]), int(match[2]), int(match[3])
            if match[4] is None:
                return datetime.combine(date(year, month, day), time(23, 59, 59) if at_end_of_day else time())
            clock = time(int(match[4]), int(match[5]), int(match[6]))
            moment = datetime.combine(date(year, month, day), clock)
            return moment.replace(tzinfo=UTC).astimezone(self.tz).replace(tzinfo=None) if match[7] else moment
        except (ValueError, OverflowError):
            raise self.refusal(f"{said!r} is not a moment such as 20260131T090000 or 20260131T080000Z") from None


def parse(text: str, tz: ZoneInfo) -> Recurrence:
    """What a text says, for a job in this zone. Raises InvalidField (``rrule``)."""
    if not isinstance(text, str):
        raise InvalidField("rrule", text, "is not text")
    if len(text) > LONGEST:
        raise InvalidField("rrule", text, f"is longer than {LONGEST} characters")
    return Reader(text, tz).recurrence()
