"""Where an entry is kept: the statements, the tables and the owner's own reckoning agree."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import connection

from scheduling.core.clock import EPOCH
from scheduling.store.buckets import LATER, RING, bucket_of, horizon_from, leaf, slot_of_bucket
from scheduling.store.statements import statements
from scheduling.testing.clock import NOON

pytestmark = pytest.mark.django_db

MICROSECOND, SECOND, MINUTE = timedelta(microseconds=1), timedelta(seconds=1), timedelta(minutes=1)
BUCKETS = statements("buckets")


def reckoned(fire_at: datetime, horizon: datetime) -> tuple[int, int]:
    bucket = bucket_of(fire_at)
    return bucket, slot_of_bucket(bucket) if bucket < bucket_of(horizon) else LATER


@pytest.mark.parametrize("now", [NOON, NOON + MINUTE - MICROSECOND, EPOCH], ids=str)
def test_a_statement_puts_an_entry_where_its_owner_looks_for_it(now: datetime) -> None:
    within = (timedelta(0), MICROSECOND, SECOND - MICROSECOND, SECOND, SECOND * 30.5, MINUTE - MICROSECOND)
    minutes = [now.replace(second=0, microsecond=0) + MINUTE * n for n in range(-RING - 1, 2 * RING)]
    instants = [at for minute in minutes for by in within if (at := minute + by) >= EPOCH]
    horizon = horizon_from(now)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT fire_at, {BUCKETS['bucket']}, {BUCKETS['slot']} FROM unnest(%(instants)s) AS fire_at",
            {"instants": instants, "horizon": horizon},
        )
        found = {fire_at: (bucket, slot) for fire_at, bucket, slot in cursor.fetchall()}
    assert found == {at: reckoned(at, horizon) for at in instants}


def test_every_slot_has_the_table_that_its_owner_reads() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT inhrelid::regclass::text, pg_get_expr(relpartbound, oid)"
            " FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = 'scheduling_entry'::regclass"
        )
        tables = dict(cursor.fetchall())
    assert tables == {leaf(slot): f"FOR VALUES IN ('{slot}')" for slot in (LATER, *range(RING))}
