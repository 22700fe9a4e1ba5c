"""COPY's binary format: what a stream of rows begins and ends with, and how Postgres writes an instant.

Each row is the number of its cells (two bytes), then the cells; each cell is its length in bytes (four), then the value
as Postgres sends and receives it. All numbers are big-endian.
The format: https://www.postgresql.org/docs/15/sql-copy.html, "Binary Format".
"""

from __future__ import annotations

from datetime import UTC, datetime

from scheduling.core.clock import MICROSECOND

SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # no flags, no extension
END = b"\xff\xff"
NULL = b"\xff\xff\xff\xff"  # a cell: its length is -1

_POSTGRES_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def postgres_micros(moment: datetime) -> int:
    """A ``timestamptz`` as Postgres counts it."""
    return (moment - _POSTGRES_EPOCH) // MICROSECOND
