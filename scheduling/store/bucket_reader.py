"""Reads due entries out of the ring, fairly, and the jobs behind them, mostly from memory.

An entry says which job, which occurrence and when; what else a claim has to know of the job is read once, and again
when its row or its tenant's has changed. That is noticed by the claim (``xmin``, the transaction that wrote a row,
tells), which takes nothing of such a job, and has it forgotten here. A job with a calendar is read each time, for the
calendar may change without the job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
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

SHARDS_IN_TURN = 4  # how many shards with a backlog are read together
STEPS = 64  # (bucket, tenant) pairs of a shard that are looked at from either end of a backlog
KEPT_JOBS = 50_000  # about 1 KB each
_JOB, _SHARD, _TENANT, _SCHEDULED_FOR, _FIRE_AT, _BUCKET, _VERSION, _FIRED = range(8)
Pair = tuple[int, int, int]  # shard, bucket, tenant


class BucketReader:
    """One thread owns it."""

    def __init__(self, lows: Lows) -> None:
        self._lows = lows
        self._flooded: list[int] = []  # the next in turn first
        self._jobs: dict[UUID, ScheduledJob] = {}
        self._orphans: dict[UUID, int] = {}

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
        others = [shard for shard in self._flooded if shard not in shards]  # they are looked at by themselves
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
        self._flooded = [*others, *flooded, *still]
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

    def take_orphans(self) -> dict[UUID, int]:
        """The jobs of entries that no job may stand behind, with their shards; each is told once."""
        orphans, self._orphans = self._orphans, {}
        return orphans

    # -- jobs ---------------------------------------------------------------------------------------------------

    def forget(self, job_ids: Iterable[UUID]) -> None:
        """What is known of these may no longer be true."""
        for job_id in job_ids:
            self._jobs.pop(job_id, None)

    def _with_jobs(self, connection: Connection, entries: Sequence[tuple[int, TupleRow]]) -> list[DueJob]:
        kept = self._jobs
        unknown = [row[_JOB] for _, row in entries if row[_JOB] not in kept]
        read = self._read_jobs(connection, unknown) if unknown else {}
        due = []
        for slot, row in entries:
            is_kept = row[_JOB] not in read
            job = kept.get(row[_JOB]) if is_kept else read[row[_JOB]]
            if job is not None and job.version == row[_VERSION]:
                due.append(DueJob(job, row[_SCHEDULED_FOR], row[_FIRE_AT], slot, row[_FIRED], is_kept))
            else:  # deleted; or edited, and about to be planned anew
                self._jobs.pop(row[_JOB], None)
                self._orphans[row[_JOB]] = row[_SHARD]
        return due

    def _read_jobs(self, connection: Connection, job_ids: Sequence[UUID]) -> dict[UUID, ScheduledJob]:
        rows = connection.execute(_jobs_sql(), {"job_ids": uuids(job_ids)}).fetchall()
        jobs = {}
        for *columns, job_xmin, tenant_xmin in rows:
            job = scheduled_job_of(tuple(columns))
            job.read_from = job_xmin, tenant_xmin
            jobs[job.work.job_id] = job
            if job.calendar is None:
                self._jobs[job.work.job_id] = job
        if (excess := len(self._jobs) - KEPT_JOBS) > 0:
            self.forget(list(islice(self._jobs, excess)))  # the first to come are the first to go
        return jobs


def _owned(lows: Mapping[int, int]) -> dict[str, str]:
    return {"shards": integers(lows), "lows": integers(lows.values())}


def _sql(slot: int) -> dict[str, str]:
    return statements("buckets", leaf=leaf(slot))


def _jobs_sql() -> str:
    schedule = statements("schedule")
    sql = statements("buckets", due_columns=schedule["due_columns"], due_joins=schedule["due_joins"])
    return sql["jobs"]
