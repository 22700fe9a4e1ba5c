"""Reads parked fires and retries whose time has come, fairly: the mass of one tenant hides no other's, nor do his own
retries hide his first attempts.

While all that is due fits into one read, it is read: for each tenant of a shard what is due longest. Beyond that, what
is due most recently is read as well, and of each tenant first attempts and retries take turns. A first attempt that has
to wait (for its turn, for the end of the run before it, or since a person asks for it now) is due since a moment, so it
is found there, beside a hundred thousand retries that have been due for an hour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import count
from operator import itemgetter
from uuid import UUID

from psycopg.rows import TupleRow

from scheduling.core.turns import in_turns
from scheduling.store.arrays import integers
from scheduling.store.connection import Connection
from scheduling.store.rows import ATTEMPT, FIRE_AT, FIRE_ID, SHARD, TENANT_ID
from scheduling.store.shares import read_in_shares

Group = tuple[int, int]  # a shard, and one of its tenants


def read_waiting(
    connection: Connection,
    sql: Mapping[str, str],
    shards: Collection[int],
    *,
    now: datetime,
    limit: int,
    full: Collection[int] = (),
) -> tuple[list[TupleRow], datetime | None]:
    """At most ``limit`` rows, and when to look again where there are none, as ``core.waiting`` says. ``now`` is job
    time; of ``full`` tenants nothing is told. With a ``fire_lock`` more than these may be locked.
    """

    def read(statement: str, groups: Sequence[Group], share: int) -> list[TupleRow]:
        shard, tenant = zip(*groups, strict=True)
        values = {"shards": list(shard), "tenants": list(tenant), "now": now, "share": share}
        return connection.execute(sql[statement], values).fetchall()

    values = {"shards": sorted(shards), "now": now, "full": integers(full)}
    *found, last = connection.execute(sql["tenants_waiting"], values).fetchall()
    groups: list[Group] = [(shard, tenant) for shard, tenant, _ in found]
    if not groups:
        return [], last[2]
    longest, _ = read_in_shares(
        lambda of, share: read("waiting", of, share), groups, limit, group_of=itemgetter(SHARD, TENANT_ID)
    )
    if len(longest) < limit:
        return longest, now  # what a pause holds is due, and is no row: nobody knows what comes behind it
    newest = read("waiting_newest", groups, 1 + limit // len(groups))
    return _fairly(list({row[FIRE_ID]: row for row in (*longest, *newest)}.values()), limit), now


def _fairly(rows: Sequence[TupleRow], limit: int) -> list[TupleRow]:
    places: dict[UUID, int] = {}
    lines: dict[tuple[int, bool], count[int]] = defaultdict(count)  # of a tenant's first attempts, and of his retries
    for row in sorted(rows, key=itemgetter(FIRE_AT)):
        is_retry = row[ATTEMPT] > 0
        places[row[FIRE_ID]] = 2 * next(lines[row[TENANT_ID], is_retry]) + is_retry
    return in_turns(rows, limit, of=itemgetter(TENANT_ID), at=lambda row: places[row[FIRE_ID]])
