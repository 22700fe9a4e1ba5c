"""What a job's arguments may be: JSON that arrives at the task as it was given, and fits into a message.

::

    given by a person ──payload_texts──▶ texts of JSON, or InvalidField: which value, and what to give instead
    read from a row   ──unsendable─────▶ why no message can be made of it; a row may be written by ``update()`` or SQL

Every value goes through Postgres (``jsonb``) and Celery, and comes out equal and of its type; what would not is
refused: what is no JSON, a key that is no text, NaN and infinities, NUL and halves of surrogate pairs, an integer of
more digits than Python reads, a float that Postgres keeps as an integer, and what is nested deeper than a worker reads.

Pure. Tuples become lists. An object of exactly ``__type__`` and ``__value__`` is Celery's word for a value that JSON
does not have; the worker reads it, or refuses the message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import inf, isfinite
from types import NoneType
from typing import Any
from uuid import UUID

from scheduling.core import masking
from scheduling.core.errors import InvalidField
from scheduling.core.message import canonical_json

PAYLOAD_LIMIT = 256 * 1024  # characters of JSON, of args and kwargs together; one oversized frame would cost a batch
DEPTH_LIMIT = 64  # arrays and objects inside one another; a worker reads some hundreds at most
DIGITS_LIMIT = 4300  # of an integer: what Python reads unless it is told otherwise
SHOWN_KEYS = 4  # of the way to a value that is refused
FLOATS_BELOW = 1e16  # Postgres writes larger ones without a point or an exponent, and so they come back as integers

_TOO_DEEP = f"is nested in more than {DEPTH_LIMIT} arrays and objects"
_HUGE = 10**DIGITS_LIMIT
_HUGE_IN_TEXT = re.compile(f"[0-9]{{{DIGITS_LIMIT + 1}}}")
_INSTEAD: tuple[tuple[type, str], ...] = (
    (datetime, "give text, as its isoformat()"),
    (date, "give text, as its isoformat()"),
    (time, "give text, as its isoformat()"),
    (timedelta, "give seconds, as its total_seconds()"),
    (Decimal, "give text, as str() of it: a float might be another number"),
    (UUID, "give text, as str() of it"),
    (bytes, "give text, as base64"),
    (set, "give a list"),
    (frozenset, "give a list"),
    (Enum, "give its value"),
)


class _Refused(Exception):
    """One value, and its place: the keys that lead to it, the innermost first."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.keys: list[Any] = []

    def at(self, name: str) -> str:
        """The place in words, as ``kwargs['customer'][0]``."""
        outer = "".join(f"[{key!r}]" for key in reversed(self.keys[-SHOWN_KEYS:]))
        return f"{name}{outer}{'[…]' if len(self.keys) > SHOWN_KEYS else ''}"


def payload_texts(args: Any, kwargs: Any) -> tuple[str, str]:
    """The JSON of a job's arguments. Raises InvalidField."""
    args_text, args_longer = checked_json("args", args) if args else ("[]", 0)
    kwargs_text, kwargs_longer = checked_json("kwargs", kwargs) if kwargs else ("{}", 0)
    size = len(args_text) + args_longer + len(kwargs_text) + kwargs_longer
    if size > PAYLOAD_LIMIT:
        name = "args" if len(args_text) > len(kwargs_text) else "kwargs"
        raise InvalidField(name, "…", f"arguments {_too_large(f'{size} bytes')}")
    return args_text, kwargs_text


def checked_json(name: str, value: Any) -> tuple[str, int]:
    """The JSON of a value, and by how many characters Postgres writes its small numbers longer than that.

    Raises InvalidField, which shows no secret.
    """
    try:
        longer = _check(value, 0)
        return canonical_json(value), longer
    except _Refused as refused:
        raise InvalidField(name, masking.mask(value), f"{refused.at(name)} {refused.problem}") from None
    except (TypeError, ValueError, RecursionError) as problem:  # an odd subclass of what JSON has
        raise InvalidField(name, "…", f"is not JSON: {problem}") from problem


def unsendable(args: str, kwargs: str) -> str:
    """Why a message with these JSON texts cannot be sent, or not be read by a worker; empty: nothing is wrong.

    Quick where nothing can be: a short text is neither large nor deep.
    """
    size = len(args) + len(kwargs)
    if size <= DEPTH_LIMIT:
        return ""
    if size > PAYLOAD_LIMIT:
        return f"arguments {_too_large('too many bytes')}"
    for name, text in (("args", args), ("kwargs", kwargs)):
        is_long = len(text) > DIGITS_LIMIT
        if text.count("[") + text.count("{") > DEPTH_LIMIT or (is_long and _HUGE_IN_TEXT.search(text)):
            try:
                value = json.loads(text)
            except (ValueError, RecursionError) as problem:
                return f"{name} cannot be read: {problem}"
            if _is_too_deep(value):
                return f"{name} {_TOO_DEEP}"
    return ""


def unlimited(soft_timeout_s: float | None, hard_timeout_s: float | None) -> str:
    """Why no worker could keep these limits of a run, which travel with it: Postgres takes NaN and infinity for numbers
    above zero."""
    for name, limit_s in (("soft_timeout_s", soft_timeout_s), ("hard_timeout_s", hard_timeout_s)):
        if limit_s is not None and not 0 < limit_s < inf:
            return f"{name} {limit_s}: is not a number of seconds above 0"
    return ""


def storable(name: str, value: str) -> str:
    """Text that Postgres can store: no NUL, no half of a surrogate pair. Raises InvalidField."""
    try:
        _check_text(value)
    except _Refused as refused:
        raise InvalidField(name, value, refused.problem) from None
    return value


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH_LIMIT + 1):
        level = [value for value in level if isinstance(value, list | dict)]
        if not level:
            return False
        level = [inner for value in level for inner in (value.values() if isinstance(value, dict) else value)]
    return True


def _too_large(size: str) -> str:
    return (
        f"take {size} of JSON, more than {PAYLOAD_LIMIT}; "
        "keep what is large where the task can read it, and give its key"
    )


def _check(value: Any, depth: int) -> int:
    """By how many characters Postgres writes it longer than Python. Raises _Refused."""
    scalar = _SCALARS.get(type(value))
    if scalar is not None:
        return scalar(value)
    if isinstance(value, dict):
        return _check_object(value, depth)
    if isinstance(value, list | tuple):
        return _check_array(value, depth)
    for kind, check in _SCALARS.items():
        if isinstance(value, kind):  # members of a StrEnum or an IntEnum
            return check(value)
    raise _Refused(_no_json(value))


def _check_object(value: dict[Any, Any], depth: int) -> int:
    _check_depth(depth)
    longer = 0
    for key, inner in value.items():
        if not isinstance(key, str):
            raise _Refused(f"has the key {key!r}, which is no text, as JSON would have it")
        try:
            _check_text(key)
            longer += _check(inner, depth + 1)
        except _Refused as refused:
            refused.keys.append(key)
            raise
    return longer


def _check_array(value: list[Any] | tuple[Any, ...], depth: int) -> int:
    _check_depth(depth)
    longer = 0
    for place, inner in enumerate(value):
        try:
            longer += _check(inner, depth + 1)
        except _Refused as refused:
            refused.keys.append(place)
            raise
    return longer


def _check_depth(depth: int) -> None:
    if depth >= DEPTH_LIMIT:
        raise _Refused(_TOO_DEEP)


def _check_text(value: str) -> int:
    if "\x00" in value:
        raise _Refused("contains a NUL character, which Postgres cannot store")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Refused("contains half of a surrogate pair, which is no character") from None
    return 0


def _check_whole(value: int) -> int:
    if not -_HUGE < value < _HUGE:
        raise _Refused(f"is an integer of more than {DIGITS_LIMIT} digits, which a worker does not read; give text")
    return 0


def _check_float(value: float) -> int:
    if not isfinite(value):
        raise _Refused(f"is {value}, which JSON does not have; give null, or text")
    if abs(value) >= FLOATS_BELOW:
        raise _Refused(f"is the float {value!r}, which Postgres keeps as an integer; give an integer, or text")
    if value and abs(value) < 1e-4:
        return -int(f"{value:e}".partition("e")[2])
    return 0


def _check_nothing(value: object) -> int:  # noqa: ARG001  (None, True and False)
    return 0


_SCALARS: dict[type, Callable[[Any], int]] = {
    str: _check_text,
    bool: _check_nothing,
    int: _check_whole,
    float: _check_float,
    NoneType: _check_nothing,
}


def _no_json(value: object) -> str:
    kind = type(value).__name__
    for known, instead in _INSTEAD:
        if isinstance(value, known):
            return f"is of type {kind}, which JSON does not have; {instead}"
    if hasattr(value, "pk"):
        return f"is a row ({kind}); give its primary key, and let the task read it as it is by then"
    return f"is of type {kind}, which JSON does not have"
