"""A time zone as a line of segments, in each of which the distance to UTC is constant.

    offset  ──── +1 h ────┐ gap             ┌── +1 h ──────
                          └──── +2 h ───────┘ fold
    UTC     ··············s·················e··············

Instants are whole seconds since the Unix epoch; local times are whole seconds since 1970-01-01T00:00 on the wall. A
segment knows the offsets on both sides of it: where the offset grows the wall skips some times (a *gap*), where it
shrinks the wall shows some twice (a *fold*).

The offsets come from ``zoneinfo``, which does not tell its transitions, so a stretch is probed every fourth day and a
difference is narrowed down to the second. Since 1970 no zone has changed twice within six days (a test reads the
tables of all zones).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from difflib import get_close_matches
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from scheduling.core.errors import InvalidField

DAY = 86_400
# Files beside the zones; those of right/ count leap seconds, which a datetime does not know.
NOT_ZONES = ("right/", "posix/", "posixrules", "localtime", "Factory")
_BLOCK_BITS = 25  # transitions are looked for, and remembered, by blocks of 2^25 s: a little over a year
_HALF_BLOCK = 1 << _BLOCK_BITS - 1
_PROBE = 4 * DAY


class Transition(NamedTuple):
    """At this instant the offset changes."""

    at: int
    before: int
    after: int


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
    segments = _segments(name, instant >> _BLOCK_BITS)
    for segment in segments:
        if instant < segment.end:
            break
    return segment


def transitions(name: str, *, after: int, until: int) -> Iterator[Transition]:
    """The changes of offset in (``after``, ``until``], in order."""
    for block in range(after >> _BLOCK_BITS, (until >> _BLOCK_BITS) + 1):
        yield from (change for change in _transitions(name, block) if after < change.at <= until)


@lru_cache(maxsize=4096)
def _segments(name: str, block: int) -> tuple[Segment, ...]:
    """The segments that touch a block, each out to its real ends, or into an adjoining block without any change."""
    start, end = block << _BLOCK_BITS, (block + 1) << _BLOCK_BITS
    past, future = _transitions(name, block - 1), _transitions(name, block + 1)
    changes = [*past[-1:], *_transitions(name, block), *future[:1]]
    first = changes[0].before if changes else _offset(zone(name), start)
    last = changes[-1].after if changes else first
    if not past:
        changes.insert(0, Transition(start - _HALF_BLOCK, first, first))
    if not future:
        changes.append(Transition(end + _HALF_BLOCK, last, last))
    return tuple(
        Segment(start=left.at, end=right.at, offset=left.after, before=left.before, after=right.after)
        for left, right in pairwise(changes)
    )


@lru_cache(maxsize=4096)
def _transitions(name: str, block: int) -> tuple[Transition, ...]:
    here, found = zone(name), []
    left = (block << _BLOCK_BITS) - 1
    end = left + (1 << _BLOCK_BITS)
    offset = _offset(here, left)
    while left < end:
        right = min(left + _PROBE, end)
        changed = _offset(here, right)
        if changed != offset:
            found.append(Transition(_first_second_of(here, changed, left, right), offset, changed))
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


def _start_of(year: int) -> int:
    return (date(year, 1, 1).toordinal() - date(1970, 1, 1).toordinal()) * DAY


_EARLIEST, _LATEST = _start_of(2), _start_of(9999)  # beyond these a local time may not be a datetime
