"""Columns of a batch as Postgres array literals.

psycopg's own list adapter visits every element with a dumper of its own, which took more than half of a claim's time in
Python; a literal is one join. Only types whose text needs no quoting are written here.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID


def uuids(values: Iterable[UUID]) -> str:
    return "{" + ",".join([value.hex for value in values]) + "}"


def integers(values: Iterable[int | None]) -> str:
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def instants(values: Iterable[datetime | None]) -> str:
    return "{" + ",".join(["NULL" if value is None else value.isoformat() for value in values]) + "}"


def booleans(values: Iterable[bool]) -> str:
    return "{" + ",".join(["t" if value else "f" for value in values]) + "}"


def words(values: Iterable[str]) -> str:
    """States and reasons: lower-case words of our own, never text of a user's."""
    return "{" + ",".join([f'"{value}"' for value in values]) + "}"
