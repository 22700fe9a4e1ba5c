"""A time zone as a line of segments, in each of which the distance to UTC is constant.

    offset  ──── +1 h ────┐ gap             ┌── +1 h ──────
                          └──── +2 h ───────┘ fold
    UTC     ··············s·················e··············

Instants are whole seconds since the Unix epoch; local times are whole seconds since 1970-01-01T00:00 on the wall. A
segment knows the offsets on both sides of it: where the offset grows the wall skips some times (a *gap*), where it
shrinks the wall shows some twice (a *fold*).

The offsets come from ``zoneinfo``, which does not tell its transitions, so a year is probed each second day and a
difference is narrowed down to the second. Since 1970 no zone has changed twice within six days (a test reads the
tables of all zones).
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, date, datetime
from difflib import get_close_matches
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from scheduling.core.errors import InvalidField

DAY = 86_400
# Files beside the zones; those of right/ count leap seconds, which a datetime does not know.
NOT_ZONES = ("right/", "posix/", "posixrules", "localtime", "Factory")
_PROBE = 2 * DAY
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_FAR = 1 << 60


class Segment(NamedTuple):
    """``start`` <= instant < ``end``: local time = instant + ``offset``. ``before`` and ``after`` are the neighbours'
    offsets.

    Where the zone rests for years an end may be no transition at all (equal offsets); then it is months from any.
    """

    start: int
    end: int
    offset: int
    before: int
    after: int


def zone(name: str) -> ZoneInfo:
    """The zone of an IANA name. Raises InvalidField (``tz``) if the installed tzdata does not know it."""
    if not isinstance(name, str) or not name or name.startswith(NOT_ZONES):
        raise InvalidField("tz", name, "is not the name of an IANA time zone, such as Europe/Paris")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        alike = get_close_matches(name, available_timezones(), n=1)
        hint = f"; did you mean {alike[0]}?" if alike else ""
        raise InvalidField("tz", name, f"the installed tzdata knows no such time zone{hint}") from None


def segment_at(name: str, instant: int) -> Segment:
    """The segment that holds an instant."""
    segments = _segments(name, _year(instant))
    return segments[bisect_right(segments, (instant, _FAR)) - 1]


def transitions(name: str, year: int) -> tuple[tuple[int, int, int], ...]:
    """The changes of offset in one UTC year, as (instant, offset before, offset after)."""
    return _transitions(name, year) if 1 < year < 9999 else ()


@lru_cache(maxsize=4096)
def _segments(name: str, year: int) -> tuple[Segment, ...]:
    """The segments that touch a year, each out to its real ends, or into an adjoining year without any change."""
    past, future = transitions(name, year - 1), transitions(name, year + 1)
    changes = [*past[-1:], *transitions(name, year), *future[:1]]
    first = changes[0][1] if changes else _offset(zone(name), _start_of(year))
    last = changes[-1][2] if changes else first
    if not past:
        changes.insert(0, (_start_of(year) - 180 * DAY, first, first))
    if not future:
        changes.append((_start_of(year + 1) + 180 * DAY, last, last))
    return tuple(
        Segment(start, end, offset, before, after) for (start, before, offset), (end, _, after) in pairwise(changes)
    )


@lru_cache(maxsize=4096)
def _transitions(name: str, year: int) -> tuple[tuple[int, int, int], ...]:
    here, found = zone(name), []
    left, end = _start_of(year) - 1, _start_of(year + 1) - 1
    offset = _offset(here, left)
    while left < end:
        right = min(left + _PROBE, end)
        changed = _offset(here, right)
        if changed != offset:
            found.append((_first_second_of(here, changed, left, right), offset, changed))
        left, offset = right, changed
    return tuple(found)


def _first_second_of(here: ZoneInfo, offset: int, left: int, right: int) -> int:
    """Where ``offset`` begins, which holds at ``right`` and not at ``left``."""
    while right - left > 1:
        middle = (left + right) // 2
        if _offset(here, middle) == offset:
            right = middle
        else:
            left = middle
    return right


def _offset(here: ZoneInfo, instant: int) -> int:
    distance = datetime.fromtimestamp(min(max(instant, _EARLIEST), _LATEST), here).utcoffset()
    if distance is None:
        raise InvalidField("tz", here.key, "has no offset")
    return distance.days * DAY + distance.seconds


def _year(instant: int) -> int:
    return datetime.fromtimestamp(instant, UTC).year


def _start_of(year: int) -> int:
    """The first second of a year, the years 0 and 10000 included."""
    whole = year - 1
    return (365 * whole + whole // 4 - whole // 100 + whole // 400 + 1 - _EPOCH_ORDINAL) * DAY


_EARLIEST, _LATEST = _start_of(2), _start_of(9999)  # beyond these a local time may not be a datetime
