"""Reads what was published, and nobody has acquired: a piece of the walk over it (``core.unstarted``)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from scheduling.core.fire import Fire
from scheduling.core.unstarted import Unstarted
from scheduling.store.arrays import instants, integers, uuids
from scheduling.store.connection import Connection
from scheduling.store.rows import fire_of

GROUPS = 10  # tenants' lanes in a shard, of which is looked up what was acquired
JOBS, FIRES = 10, 20  # of each of these, at most

Group = tuple[int, int, str, int]  # a shard, a tenant and one of his lanes, his days of history
Key = tuple[UUID, datetime, int]  # a fire's id, scheduled_for, and days of history
Sql = Mapping[str, str]


def read_unstarted(
    connection: Connection, sql: Sql, after: Mapping[int, tuple[int, int]], *, patience: timedelta, limit: int
) -> Unstarted:
    """Beyond these numbers, by shard."""
    shards = sorted(after)
    share = max(1, limit // max(1, len(shards)))
    walk = {
        "shards": shards,
        "epochs": [after[shard][0] for shard in shards],
        "seqs": [after[shard][1] for shard in shards],
        "patience": patience,
        "share": share,
    }
    keys: list[Key] = []
    reached: dict[int, tuple[int, int]] = {}
    for shard, rows, (epoch, seq), ids, scheduled_fors, history_days in connection.execute(sql["unstarted"], walk):
        if rows >= share:
            reached[shard] = epoch, seq
        keys += zip(ids or (), scheduled_fors or (), history_days or (), strict=True)
    keys += connection.execute(sql["unstarted_confirmed"], {"shards": shards, "limit": limit}).fetchall()
    suspects = read_suspects(connection, sql, keys)
    return Unstarted(suspects, overtaken(connection, sql, suspects, patience=patience), reached)


def read_suspects(connection: Connection, sql: Sql, keys: Sequence[Key]) -> list[Fire]:
    """Those that are still claimed, in the order of their keys."""
    if not keys:
        return []
    ids, scheduled_fors, history_days = zip(*keys, strict=True)
    values = {"ids": uuids(ids), "scheduled_fors": instants(scheduled_fors), "history_days": integers(history_days)}
    rows = connection.execute(sql["suspects"], values).fetchall()
    read_at = time.monotonic()
    found = {fire.id: fire for fire in (fire_of(row, read_at) for row in rows)}
    return [found[key] for key in ids if key in found]


def overtaken(connection: Connection, sql: Sql, suspects: Sequence[Fire], *, patience: timedelta) -> set[UUID]:
    """Those of a queue from which a fire with a higher number of their shard was acquired ``patience`` ago."""
    numbered = [fire for fire in suspects if fire.seq]
    groups = {fire.id: (fire.work.shard, *queue_of(fire)) for fire in numbered}
    highest = last_acquired(connection, sql, numbered, list(groups.values()), patience=patience)
    return {fire.id for fire in numbered if [fire.epoch, fire.seq] < highest.get(groups[fire.id], [0, 0])}


def queue_of(fire: Fire) -> tuple[int, str, int]:
    return fire.work.tenant_id, fire.work.lane.value, fire.work.history_days


def last_acquired(
    connection: Connection, sql: Sql, suspects: Sequence[Fire], groups: Sequence[Group], *, patience: timedelta
) -> dict[Group, Any]:
    """By group, what tells the last one apart; of the first groups only: each of them costs."""
    groups = list(dict.fromkeys(groups))[:GROUPS]
    if not groups:
        return {}
    shards, tenants, lanes, history_days = zip(*groups, strict=True)
    values = {
        "shards": list(shards),
        "tenants": list(tenants),
        "lanes": list(lanes),
        "history_days": list(history_days),
        "job_ids": uuids(list(dict.fromkeys(fire.work.job_id for fire in suspects))[: GROUPS * JOBS]),
        "patience": patience,
        "jobs": JOBS,
        "fires": FIRES,
    }
    found = {row[:3]: row[3] for row in connection.execute(sql["acquired"], values).fetchall()}
    return {group: found[group[:3]] for group in groups if group[:3] in found}
