"""Reads parked fires and retries whose time has come, of all shards alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from operator import itemgetter

from psycopg.rows import TupleRow

from scheduling.core.turns import in_turns
from scheduling.store.connection import Connection
from scheduling.store.rows import FIRE_AT, SHARD, TENANT_ID
from scheduling.store.shares import read_in_shares


def read_waiting(
    connection: Connection, statement: str, shards: Collection[int], *, now: datetime, limit: int
) -> list[TupleRow]:
    """At most ``limit`` rows; each tenant's earliest first. ``now`` is job time."""

    def read(of_shards: Sequence[int], share: int) -> list[TupleRow]:
        values = {"shards": of_shards, "now": now, "share": share}
        return connection.execute(statement, values).fetchall()

    rows = read_in_shares(read, sorted(shards), limit, group_of=itemgetter(SHARD))
    return in_turns(rows, limit, of=itemgetter(TENANT_ID), at=itemgetter(FIRE_AT))
