"""A second opinion on cron: scans every minute (or second) and knows nothing of masks, plans, blocks or segments.

It follows docs/semantics.md word by word: which local times the fields admit, and for each of them at which instants
the wall shows it. Slow, and for well-formed expressions only.
"""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

NAMES = {
    4: ["", *("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")],
    5: ["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
}
RANGES = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]


def expected(
    expression: str,
    tz: str,
    *,
    after: datetime,
    until: datetime,
    day_match: str = "or",
    gap: str = "first_valid",
    fold: str = "first",
) -> list[datetime]:
    """The occurrences in (after, until], by looking at each minute (second)."""
    fields = tuple(expression.lower().split())
    grain = timedelta(seconds=1) if len(fields) == 6 else timedelta(minutes=1)
    fields = fields if len(fields) == 6 else ("0", *fields)
    zone = ZoneInfo(tz)
    found: set[datetime] = set()
    if fields[1].startswith("*") or fields[2].startswith("*"):
        if any(moment.astimezone(zone).second for moment in (after.replace(second=0), until.replace(second=0))):
            grain = min(grain, timedelta(seconds=30))  # Monrovia was 44 min 30 s behind
        moment = after.replace(second=0, microsecond=0)
        while moment <= until:
            if admits(fields, moment.astimezone(zone).replace(tzinfo=None), day_match):
                found.add(moment)
            moment += grain
    else:
        wall = (after - timedelta(days=2)).replace(second=0, microsecond=0, tzinfo=None)
        while wall <= (until + timedelta(days=2)).replace(tzinfo=None):
            if admits(fields, wall, day_match):
                found |= shown(wall, zone, gap, fold)
            wall += grain
    return sorted(moment for moment in found if after < moment <= until)


def admits(fields: tuple[str, ...], wall: datetime, day_match: str) -> bool:
    return (
        wall.minute in numbers(1, fields[1])
        and wall.hour in numbers(2, fields[2])
        and wall.second in numbers(0, fields[0])
        and admits_day(fields[3:], wall.date(), day_match)
    )


@cache
def admits_day(fields: tuple[str, ...], day: date, day_match: str) -> bool:
    if day.month not in numbers(4, fields[1]):
        return False
    by_date = any(date_matches(item, day) for item in fields[0].split(","))
    by_weekday = any(weekday_matches(item, day) for item in fields[2].split(","))
    both = day_match == "and" or fields[0].startswith("*") or fields[2].startswith("*")
    return (by_date and by_weekday) if both else (by_date or by_weekday)


def date_matches(item: str, day: date) -> bool:
    last = calendar.monthrange(day.year, day.month)[1]
    if item == "l":
        return day.day == last
    if item == "lw":
        later = [day.replace(day=later) for later in range(day.day + 1, last + 1)]
        return day.weekday() < 5 and all(other.weekday() >= 5 for other in later)
    return day.day in numbers(3, item)


def weekday_matches(item: str, day: date) -> bool:
    name, hash_sign, nth = item.partition("#")
    if hash_sign:
        return weekday_matches(name, day) and (day.day - 1) // 7 + 1 == int(nth)
    if item.endswith("l"):
        return weekday_matches(item[:-1], day) and (day + timedelta(days=7)).month != day.month
    return bool({day.isoweekday(), day.isoweekday() % 7} & numbers(5, item))


@cache
def numbers(place: int, field: str) -> frozenset[int]:
    return frozenset().union(*(_item(place, item) for item in field.split(",")))


def _item(place: int, item: str) -> set[int]:
    span, _, step = item.partition("/")
    first, _, last = span.partition("-")
    low, high = RANGES[place] if span == "*" else (_number(place, first), _number(place, last or first))
    return set(range(low, high + 1, int(step or 1)))


def _number(place: int, text: str) -> int:
    return int(text) if text.isdigit() else NAMES[place].index(text)


def shown(wall: datetime, zone: ZoneInfo, gap: str, fold: str) -> set[datetime]:
    """The instants at which a wall-clock time fires."""
    first = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    second = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    if first.astimezone(zone).replace(tzinfo=None) != wall:
        # in a gap zoneinfo reads fold 0 with the offset before it, which is a shift by its length
        return {"skip": set(), "shift": {first}, "first_valid": {_end_of_gap(second, first, zone)}}[gap]
    return {"first": {first}, "second": {second}, "both": {first, second}}[fold]


def _end_of_gap(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """The change of offset between two instants on its two sides, by halving."""
    before = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) // timedelta(seconds=2) * timedelta(seconds=1)
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high
