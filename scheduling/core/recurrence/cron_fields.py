"""Reads a cron expression into bit masks; refuses, with its place, whatever could mean two things or nothing.

A mask has bit ``n`` set for the value ``n``. Grammar of one field::

    field = item ("," item)*
    item  = "*" | value | value "-" value | ("*" | value "-" value) "/" step
          | "H" ["(" value "-" value ")"] ["/" step]       any field: spread by a hash of the job
          | "L" | "LW"                                     day of month: last day, last day of Monday to Friday
          | value "L" | value "#" 1…5                      day of week: last, or n-th, in the month

``n/step`` is refused, since libraries disagree on it: Go and Quartz read it as ``n-max/step``. Rules and
steps are those of Debian's cron; ``L``, ``#`` and ``LW`` are cronsim's; ``H`` is Jenkins'.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence.cron_days import DayRule

LONGEST = 256  # characters of an expression
ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
NOT_OURS = {
    "@reboot": "there is no boot in a cluster; run it when you deploy",
    "@every": "give the length as an interval (`every`)",
}
_HASHED = re.compile(r"H(?:\(([^()]*)\))?(?:/(.*))?")


@dataclass(frozen=True, slots=True)
class Kind:
    """What one position of an expression means."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()  # of the values from low on
    hash_high: int | None = None  # H stays at or below it, where high is not in every month or is a second name of low


SECOND = Kind("second", 0, 59)
MINUTE = Kind("minute", 0, 59)
HOUR = Kind("hour", 0, 23)
DAY_OF_MONTH = Kind("day of month", 1, 31, hash_high=28)
MONTH = Kind("month", 1, 12, ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"))
DAY_OF_WEEK = Kind("day of week", 0, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"), hash_high=6)
KINDS = (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)


@dataclass(frozen=True, slots=True)
class Fields:
    """A parsed expression."""

    seconds: int
    minutes: int
    hours: int
    months: int
    day_rule: DayRule
    elapsed: bool  # minute or hour starts with *: follows real time across zone changes


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an expression, and where it stands."""

    expression: str
    kind: Kind
    text: str
    at: int  # offset of its first character

    def refusal(self, problem: str) -> InvalidField:
        place = f"{self.kind.name} {self.text!r} at character {self.at + 1}"
        return InvalidField("cron", self.expression, f"{place}: {problem}")

    def part(self, text: str, offset: int) -> Piece:
        return Piece(self.expression, self.kind, text, self.at + offset)

    def split(self, separator: str) -> Iterator[Piece]:
        offset = 0
        for text in self.text.split(separator):
            yield self.part(text, offset)
            offset += len(text) + len(separator)


@lru_cache(maxsize=4096)
def parse(expression: str, key: str) -> Fields:
    """The meaning of an expression for the job with this key. Raises InvalidField (``cron``)."""
    second, minute, hour, day, month, weekday = split_fields(expression)
    return Fields(
        seconds=_mask(second, _key_of(key, second)),
        minutes=_mask(minute, _key_of(key, minute)),
        hours=_mask(hour, _key_of(key, hour)),
        months=_mask(month, _key_of(key, month)),
        day_rule=_day_rule(day, weekday, _key_of(key, day, weekday)),
        elapsed=minute.text.startswith("*") or hour.text.startswith("*"),
    )


def _key_of(key: str, *fields: Piece) -> str:
    """Empty where nothing can be hashed: fields without an ``H`` are read once for all jobs."""
    return key if any("H" in field.text for field in fields) else ""


@lru_cache(maxsize=1024)
def _day_rule(day: Piece, weekday: Piece, key: str) -> DayRule:
    days = [Item.read(item, key) for item in day.split(",")]
    weekdays = [Item.read(item, key) for item in weekday.split(",")]

    def nth(n: int) -> int:
        mask = _union(item.mask for item in weekdays if item.nth == n)
        return (mask | mask >> 7) & 0x7F  # Sunday is 0 and 7

    return DayRule(
        days=_union(item.mask for item in days),
        last_day=any(item.last_day for item in days),
        last_workday=any(item.last_workday for item in days),
        days_open=day.text.startswith("*"),
        weekdays=nth(0),
        last_weekdays=nth(-1),
        nth_weekdays=tuple(nth(n) for n in range(1, 6)),
        weekdays_open=weekday.text.startswith("*"),
    )


@lru_cache(maxsize=1024)
def split_fields(expression: str) -> tuple[Piece, ...]:
    """The six fields in upper case; an alias is written out, and where there are five the second is 0."""
    if len(expression) > LONGEST:
        raise InvalidField("cron", expression, f"is longer than {LONGEST} characters")
    if not expression.isascii():
        odd = next(at for at, letter in enumerate(expression) if not letter.isascii())
        raise InvalidField("cron", expression, f"{expression[odd]!r} at character {odd + 1}: only ASCII is understood")
    text = expression.strip().lower()
    if text.startswith("@"):
        if text not in ALIASES:
            hint = NOT_OURS.get(text.split()[0], f"the aliases are {', '.join(ALIASES)}")
            raise InvalidField("cron", expression, f"alias {text!r} at character {expression.index('@') + 1}: {hint}")
        expression = ALIASES[text]
    words = [(match[0].upper(), match.start()) for match in re.finditer(r"\S+", expression)]
    if len(words) not in (5, 6):
        count = f"{len(words)} field{'' if len(words) == 1 else 's'}"
        raise InvalidField("cron", expression, f"has {count}; 5 are needed, or 6 with the second first")
    pieces = tuple(Piece(expression, kind, *word) for kind, word in zip(KINDS[-len(words) :], words, strict=True))
    return pieces if len(pieces) == 6 else (Piece(expression, SECOND, "0", 0), *pieces)


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a field's list."""

    mask: int = 0
    last_day: bool = False
    last_workday: bool = False
    nth: int = 0  # weekdays only: 1 to 5, -1 for the last in the month, 0 for each

    @classmethod
    def read(cls, item: Piece, key: str) -> Item:
        text, kind = item.text, item.kind
        if kind is DAY_OF_MONTH and text in ("L", "LW"):
            return cls(last_day=text == "L", last_workday=text == "LW")
        if kind is DAY_OF_WEEK and "#" in text:
            day, nth = list(item.split("#"))[:2]
            if text.count("#") > 1 or nth.text not in ("1", "2", "3", "4", "5"):
                raise item.refusal("after # stands one of 1 to 5, as in FRI#2 (the second Friday)")
            return cls(mask=1 << _value(day), nth=int(nth.text))
        if kind is DAY_OF_WEEK and text.endswith("L"):
            if text == "L":
                raise item.refusal("say which last day, as in 5L (the last Friday)")
            return cls(mask=1 << _value(item.part(text[:-1], 0)), nth=-1)
        return cls(mask=_plain(item, key))


@lru_cache(maxsize=1024)
def _mask(field: Piece, key: str) -> int:
    return _union(_plain(item, key) for item in field.split(","))


def _plain(item: Piece, key: str) -> int:
    """The mask of an item without L, W or #."""
    if item.text.startswith("H"):
        return _hashed(item, key)
    head, slash, tail = item.text.partition("/")
    span = item.part(head, 0)
    if slash and head != "*" and "-" not in head:
        meant = f"{head}-{_top(item.kind, _value(span))}/{tail}"
        raise item.refusal(f"libraries disagree on a step after a single value; write {meant}, or {head} alone")
    step = _step(item, tail, len(head) + 1) if slash else 1
    low, high = (item.kind.low, item.kind.high) if head == "*" else _range(span)
    return _union(1 << value for value in range(low, high + 1, step))


def _range(span: Piece) -> tuple[int, int]:
    ends = list(span.split("-"))
    if len(ends) > 2:
        raise span.refusal("a range has two ends")
    low, high = _value(ends[0]), _value(ends[-1])
    if high < low:
        raise span.refusal(f"the range runs backwards; write {span.text.split('-')[0]}-{span.kind.high},… as two items")
    return low, high


def _value(piece: Piece) -> int:
    text, kind = piece.text, piece.kind
    if not text:
        raise piece.refusal("a value is missing")
    if text in kind.names:
        return kind.names.index(text) + kind.low
    if not text.isdigit():
        known = f"{kind.low}-{kind.high}{' or a name' if kind.names else ''}"
        raise piece.refusal(_HINTS.get(text, f"is not a value of {known}"))
    value = int(text)
    if not kind.low <= value <= kind.high:
        raise piece.refusal(f"is not in {kind.low}-{kind.high}")
    return value


_HINTS = {"?": "is Quartz's; write *", "*": "a star stands alone, or before a step"}


def _step(item: Piece, text: str, offset: int) -> int:
    if not text.isdigit() or int(text) == 0:
        raise item.part(text, offset).refusal("a step is a number from 1 on")
    return int(text)


def _hashed(item: Piece, key: str) -> int:
    """``H``: one value, or with a step one phase, told by a hash of the job and the field."""
    match, kind = _HASHED.fullmatch(item.text), item.kind
    if match is None:
        raise item.refusal("H stands alone, or as H/15, H(0-29) or H(0-29)/10")
    low, high = kind.low, kind.high if kind.hash_high is None else kind.hash_high
    if match[1] is not None:
        low, high = _range(item.part(match[1], match.start(1)))
    step = high - low + 1 if match[2] is None else _step(item, match[2], match.start(2))
    digest = int.from_bytes(blake2b(f"{kind.name}/{key}".encode(), digest_size=8).digest())
    first = low + digest % min(step, high - low + 1)
    return _union(1 << value for value in range(first, high + 1, step))


def _top(kind: Kind, first: int) -> int:
    """The end of ``n/step``: the field's highest value, Saturday for the day of the week (as Go's cron has it)."""
    return 6 if kind is DAY_OF_WEEK and first < 7 else kind.high


def _union(masks: Iterable[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total


@lru_cache(maxsize=4096)
def normalize_steps(expression: str) -> str:
    """``n/step`` rewritten to ``n-max/step``, as Go's cron and Quartz read it; all else is left as it is.

    For importers, which must say when the answer differs from the question. What is malformed stays so, for ``Cron``
    to refuse.

    >>> normalize_steps("0 1/6 * * mon/2")
    '0 1-23/6 * * mon-6/2'
    """
    words = expression.split()
    if len(words) not in (5, 6):
        return expression
    rewritten = [
        ",".join(_spelt_out(kind, item) for item in word.split(","))
        for kind, word in zip(KINDS[-len(words) :], words, strict=True)
    ]
    return expression if rewritten == words else " ".join(rewritten)


def _spelt_out(kind: Kind, item: str) -> str:
    head, slash, step = item.partition("/")
    if not slash or not (head.isdigit() or head.upper() in kind.names):
        return item
    first = int(head) if head.isdigit() else 0
    return f"{head}-{_top(kind, first)}/{step}"
