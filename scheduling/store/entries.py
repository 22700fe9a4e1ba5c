"""Entries as ``buckets.sql`` gives them."""

from __future__ import annotations

from collections.abc import Mapping

from psycopg.rows import TupleRow

from scheduling.store.arrays import integers
from scheduling.store.buckets import leaf
from scheduling.store.statements import statements

JOB, SHARD, TENANT, SCHEDULED_FOR, FIRE_AT, BUCKET, VERSION, FIRED, SLOT = range(9)

Kept = tuple[int, TupleRow]  # the slot that keeps it, and the entry


def owned(lows: Mapping[int, int]) -> dict[str, str]:
    """Shards, each with the bucket from which on it is read, as the statements take them."""
    return {"shards": integers(lows), "lows": integers(lows.values())}


def leaf_sql(slot: int) -> dict[str, str]:
    """The statements for the table of this slot."""
    return statements("buckets", leaf=leaf(slot))
