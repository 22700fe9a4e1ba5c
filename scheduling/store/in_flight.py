"""Reads what became of published fires, and what an owner finds of them when it takes shards over; writes its holds."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache

from scheduling.core.fire import Fire
from scheduling.core.identity import run_id
from scheduling.core.runs import Held, InFlight, RunSeen
from scheduling.models.job_run import NOBODY
from scheduling.store.arrays import instants, integers, uuids
from scheduling.store.connection import Connection
from scheduling.store.rows import fire_of
from scheduling.store.statements import statements
from scheduling.store.values import fire_keys

LOOKED_AT = 5000  # of what is published: more is not with workers, or on its way to them

_run_id = lru_cache(maxsize=10_000)(run_id)  # of the same fires it is asked twenty times a second

Key = tuple[int, int]  # a tenant, and a shard


def read_held(connection: Connection, shards: Collection[int]) -> Held:
    sql = in_flight_statements()
    share = LOOKED_AT // max(1, len(shards)) + 1
    values = {"shards": integers(sorted(shards)), "share": share}
    rows = connection.execute(sql["running"], values).fetchall()
    rows += connection.execute(sql["published"], values).fetchall()
    read_at = time.monotonic()
    in_flight = [InFlight(fire_of(row[:-1], read_at), row[-1]) for row in rows]
    holds = connection.execute(sql["held"], values).fetchall()
    return Held(in_flight, {(tenant, shard): since for tenant, shard, since in holds})


def read_runs(connection: Connection, fires: Sequence[Fire]) -> list[RunSeen]:
    if not fires:
        return []
    times = [fire.scheduled_for for fire in fires]
    values = fire_keys(fires) | {
        "run_ids": uuids([_run_id(fire.id, fire.fence) for fire in fires]),
        "earliest": min(times),
        "latest": max(times),
        "nobody": NOBODY,
    }
    return [RunSeen(*row) for row in connection.execute(in_flight_statements()["runs"], values).fetchall()]


def write_holds(connection: Connection, begun: Mapping[Key, datetime], ended: Collection[Key]) -> None:
    """Within the caller's transaction. Of one that is held already the earlier time stays."""
    if ended:
        connection.execute(in_flight_statements()["unhold"], _keys(ended))
    if begun:
        keys = sorted(begun)
        connection.execute(
            in_flight_statements()["hold"], _keys(keys) | {"since": instants([begun[key] for key in keys])}
        )


def _keys(keys: Collection[Key]) -> dict[str, str]:
    return {
        "tenants": integers([tenant for tenant, _ in keys]),
        "shards": integers([shard for _, shard in keys]),
    }


def in_flight_statements() -> dict[str, str]:
    schedule = statements("schedule")
    return statements("in_flight", **{name: schedule[name] for name in ("fire_columns", "fire_work", "guarded")})
