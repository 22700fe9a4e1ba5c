"""Reads due entries out of the ring, fairly, and the jobs behind them, mostly from memory.

An entry says which job, which occurrence and when; what else a claim has to know of the job is read once, and again
when its row or its tenant's has changed (``xmin``, the transaction that wrote the row, tells). A job with a calendar is
read each time, for the calendar may change without the job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import islice
from operator import itemgetter
from uuid import UUID

from psycopg.rows import TupleRow

from scheduling.core.planning import DueJob, ScheduledJob
from scheduling.core.turns import in_turns
from scheduling.store.arrays import integers, uuids
from scheduling.store.buckets import Lows, bucket_of, leaf
from scheduling.store.connection import Connection
from scheduling.store.rows import scheduled_job_of
from scheduling.store.shares import read_in_shares
from scheduling.store.statements import statements

SHARDS_IN_TURN = 8  # how many shards with a backlog are read together
STEPS = 64  # (bucket, tenant) pairs of a shard that are looked at from either end of a backlog
KEPT_JOBS = 50_000  # about 1 KB each
_JOB, _SHARD, _TENANT, _SCHEDULED_FOR, _FIRE_AT, _BUCKET, _VERSION, _FIRED, _JOB_XMIN, _TENANT_XMIN = range(10)
Versions = tuple[str, str]
Pair = tuple[int, int, int]  # shard, bucket, tenant


class BucketReader:
    """``orphans`` collects the jobs of entries that no job stands behind, by shard."""

    def __init__(self, lows: Lows) -> None:
        self._lows = lows
        self._flooded: list[int] = []  # the next in turn first
        self._jobs: dict[UUID, tuple[Versions, ScheduledJob]] = {}
        self.orphans: dict[UUID, int] = {}

    def read(self, connection: Connection, shards: frozenset[int], *, until: datetime, limit: int) -> list[DueJob]:
        """At most ``limit`` jobs whose entries' fire is not after ``until``."""
        found = self._entries(connection, shards, until, limit)
        fair = in_turns(found, limit, of=lambda entry: entry[1][_TENANT], at=lambda entry: entry[1][_FIRE_AT])
        return self._with_jobs(connection, fair)

    def _entries(
        self, connection: Connection, shards: frozenset[int], until: datetime, limit: int
    ) -> list[tuple[int, TupleRow]]:
        """(slot, row): by shard while everything due fits into one read; else in turns of shards and by tenant."""
        high = bucket_of(until)
        flooded = [shard for shard in self._flooded if shard in shards]
        rest = shards.difference(flooded)
        rows = self._by_shard(connection, rest, until, high, limit)
        if len(rows) < limit:
            left: dict[int, int] = {}
            for _, row in rows:
                left[row[_SHARD]] = min(row[_BUCKET], left.get(row[_SHARD], row[_BUCKET]))
            self._lows.consumed(rest, high, left)
        else:
            rows, flooded = [], [*flooded, *rest]
        still: list[int] = []
        while flooded and len(rows) < limit:
            turn, flooded = flooded[:SHARDS_IN_TURN], flooded[SHARDS_IN_TURN:]
            heads = self._by_tenant(connection, turn, until, high, limit)
            if len(heads) > limit // 2:
                still += turn
            rows += heads
        self._flooded = [*flooded, *still]
        return rows

    def _by_shard(
        self, connection: Connection, shards: Collection[int], until: datetime, high: int, limit: int
    ) -> list[tuple[int, TupleRow]]:
        found: list[tuple[int, TupleRow]] = []
        for slot, lows in self._lows.to_read(shards, high).items():
            values = _owned(lows) | {"high": high, "until": until, "limit": limit - len(found)}
            rows = connection.execute(_sql(slot)["due_entries"], values, binary=True).fetchall()
            found += [(slot, row) for row in rows]
            if len(found) >= limit:
                break
        return found

    def _by_tenant(
        self, connection: Connection, shards: Sequence[int], until: datetime, high: int, limit: int
    ) -> list[tuple[int, TupleRow]]:
        """The oldest of each tenant, and of what is newest, whatever lies between."""
        slots = list(self._lows.to_read(shards, high).items())
        pairs: dict[int, set[Pair]] = {}
        unfinished = self._walk(connection, "tenants_upward", slots, set(shards), high, pairs)
        self._walk(connection, "tenants_downward", slots[::-1], unfinished, high, pairs)
        found: list[tuple[int, TupleRow]] = []
        groups = sum(len(of_slot) for of_slot in pairs.values())
        for slot, of_slot in pairs.items():
            share = max(len(of_slot), limit * len(of_slot) // groups) if groups else 0
            rows = self._heads(connection, slot, sorted(of_slot), until, share)
            found += [(slot, row) for row in rows]
        return found

    def _walk(
        self,
        connection: Connection,
        way: str,
        slots: Sequence[tuple[int, Mapping[int, int]]],
        shards: set[int],
        high: int,
        pairs: dict[int, set[Pair]],
    ) -> set[int]:
        """Add what is met in these slots; gives the shards that have more of it than was looked at."""
        met: Counter[int] = Counter()
        for slot, lows in slots:
            if of_slot := {shard: low for shard, low in lows.items() if shard in shards and met[shard] < STEPS}:
                values = _owned(of_slot) | {"high": high, "steps": STEPS}
                rows = connection.execute(_sql(slot)[way], values).fetchall()
                pairs.setdefault(slot, set()).update(rows)
                met.update(shard for shard, _, _ in rows)
        return {shard for shard in shards if met[shard] >= STEPS}

    def _heads(
        self, connection: Connection, slot: int, groups: Sequence[Pair], until: datetime, limit: int
    ) -> list[TupleRow]:
        def read(of: Sequence[Pair], share: int) -> list[TupleRow]:
            values = {
                "shards": integers(shard for shard, _, _ in of),
                "buckets": integers(bucket for _, bucket, _ in of),
                "tenants": integers(tenant for _, _, tenant in of),
                "until": until,
                "share": share,
            }
            return connection.execute(_sql(slot)["due_entries_of_tenants"], values, binary=True).fetchall()

        return read_in_shares(read, groups, limit, group_of=itemgetter(_SHARD, _BUCKET, _TENANT))

    # -- jobs ---------------------------------------------------------------------------------------------------

    def _with_jobs(self, connection: Connection, entries: Sequence[tuple[int, TupleRow]]) -> list[DueJob]:
        kept, due, unknown = self._jobs, [], []
        for slot, row in entries:
            if row[_JOB_XMIN] is None:
                self.orphans[row[_JOB]] = row[_SHARD]
                continue
            known = kept.get(row[_JOB])
            if known is None or known[0] != (row[_JOB_XMIN], row[_TENANT_XMIN]):
                unknown.append((slot, row))
            else:
                due.append(DueJob(known[1], row[_SCHEDULED_FOR], row[_FIRE_AT], slot, row[_FIRED]))
        if unknown:
            read = self._read_jobs(connection, [row[_JOB] for _, row in unknown])
            due += [
                DueJob(job, row[_SCHEDULED_FOR], row[_FIRE_AT], slot, row[_FIRED])
                for slot, row in unknown
                if (job := read.get(row[_JOB])) is not None and job.version == row[_VERSION]  # else edited just now
            ]
        return due

    def _read_jobs(self, connection: Connection, job_ids: Sequence[UUID]) -> Mapping[UUID, ScheduledJob]:
        rows = connection.execute(_jobs_sql(), {"job_ids": uuids(job_ids)}).fetchall()
        jobs = {}
        for *columns, job_xmin, tenant_xmin in rows:
            job = scheduled_job_of(tuple(columns))
            jobs[job.work.job_id] = job
            if job.calendar is None:
                self._jobs[job.work.job_id] = (job_xmin, tenant_xmin), job
        if (excess := len(self._jobs) - KEPT_JOBS) > 0:
            for job_id in list(islice(self._jobs, excess)):  # the first to come are the first to go
                del self._jobs[job_id]
        return jobs


def _owned(lows: Mapping[int, int]) -> dict[str, str]:
    return {"shards": integers(lows), "lows": integers(lows.values())}


def _sql(slot: int) -> dict[str, str]:
    return statements("buckets", leaf=leaf(slot))


def _jobs_sql() -> str:
    schedule = statements("schedule")
    sql = statements("buckets", due_columns=schedule["due_columns"], due_joins=schedule["due_joins"])
    return sql["jobs"]
