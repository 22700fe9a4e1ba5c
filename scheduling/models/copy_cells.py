"""Values as cells of COPY's binary format.

Postgres takes a binary cell without parsing it, and no text of a user's has to be escaped. In turn every cell must have
the width of its column, so cells are made by the column's type and not by the value's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import models

from scheduling.core.copy_format import NULL, postgres_micros
from scheduling.core.errors import InvalidField

Cell = Callable[[Any], bytes]

_JSONB_VERSION = "\x01"
_length = struct.Struct(">i")


def _packed(code: str) -> Cell:
    """Cells of one width, of one number."""
    layout = struct.Struct(f">i{code}")
    length, pack = layout.size - _length.size, layout.pack
    return lambda value: pack(length, value)


smallint, integer, bigint, double = _packed("h"), _packed("i"), _packed("q"), _packed("d")
_instant = struct.Struct(">iq").pack  # length; microseconds
_interval = struct.Struct(">iqii").pack  # length; microseconds, days, months


def begin_row(cells: int, first_length: int) -> bytes:
    """What a row begins with: how many cells it has, and the length of the first, where that is always the same."""
    return struct.pack(">hi", cells, first_length)


def text(value: str) -> bytes:
    data = value.encode()
    return _length.pack(len(data)) + data


def json(value: str) -> bytes:
    """``jsonb``, from JSON text."""
    return text(_JSONB_VERSION + value)


def instant(moment: datetime) -> bytes:
    return _instant(8, postgres_micros(moment))


def instants(moments: Iterable[datetime | None]) -> bytes:
    """A run of cells."""
    return b"".join([NULL if moment is None else instant(moment) for moment in moments])


def duration(length: timedelta) -> bytes:
    return _interval(16, length.seconds * 1_000_000 + length.microseconds, length.days, 0)


_BY_TYPE: dict[str, Cell] = {
    "AutoField": integer,
    "BigAutoField": bigint,
    "BigIntegerField": bigint,
    "CharField": text,
    "DateTimeField": instant,
    "DurationField": duration,
    "FloatField": double,
    "IntegerField": integer,
    "SmallIntegerField": smallint,
    "TextField": text,
}


def cell(column: models.Field[Any, Any], value: Any) -> bytes:
    """The cell of a value other than None. Raises InvalidField, naming the column, for one that it cannot hold."""
    kind = column.target_field if isinstance(column, models.ForeignKey) else column
    try:
        return _BY_TYPE[kind.get_internal_type()](value)
    except (AttributeError, TypeError, ValueError, struct.error) as problem:
        raise InvalidField(column.attname, value, f"cannot be stored: {problem}") from problem
