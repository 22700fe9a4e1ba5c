"""Lengths of time as Go writes them (``time.ParseDuration``): what Kubernetes, Prow and their like put into their
files.
"""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

from scheduling.core.errors import InvalidField

LONGEST = 64  # characters
_UNIT_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5
    "μs": 1_000,  # U+03BC
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<unit>[^0-9.]*)")


def parse_go_duration(text: str) -> timedelta:
    """``1h30m0s``, ``168h``, ``1.5h``, ``100ms``; a sign in front; ``0`` alone needs no unit. Cut to whole
    microseconds, towards zero.

    Raises InvalidField (``duration``).
    """
    if not isinstance(text, str) or not text:
        raise InvalidField("duration", text, "is not a duration such as 30m or 1h30m")
    if len(text) > LONGEST:
        raise InvalidField("duration", text, f"is longer than {LONGEST} characters")
    sign = -1 if text[0] == "-" else 1
    at = 1 if text[0] in "+-" else 0
    if text[at:] == "0":
        return timedelta(0)
    total_ns = Fraction(0)
    while at < len(text) or text in ("+", "-"):
        part = _PART.match(text, at)
        if part is None:
            raise InvalidField("duration", text, f"a number is expected at character {at + 1}")
        unit = part["unit"]
        if unit not in _UNIT_NS:
            problem = f"unit {unit!r} is not one of {', '.join(_UNIT_NS)}" if unit else "a unit is missing"
            raise InvalidField("duration", text, f"{problem} at character {part.start('unit') + 1}")
        total_ns += Fraction(part["number"].rstrip(".") or "0") * _UNIT_NS[unit]
        at = part.end()
    try:
        return sign * timedelta(microseconds=int(total_ns / 1_000))
    except OverflowError:
        raise InvalidField("duration", text, "is too long to be counted") from None
