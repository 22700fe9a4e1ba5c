"""Reads due entries out of the ring, fairly, and the jobs behind them, mostly from memory.

An entry says which job, which occurrence and when; what else a claim has to know of the job is read once, and again
when its row or its tenant's has changed. That is noticed by the claim (``xmin``, the transaction that wrote a row,
tells), which takes nothing of such a job, and has it forgotten here. A job with a calendar is read each time, for the
calendar may change without the job; and one with large arguments, of which memory would hold few.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from uuid import UUID

from scheduling.core.due import Due, DueJob, ScheduledJob
from scheduling.core.effects import ReadDue
from scheduling.core.turns import in_turns, left_out
from scheduling.store.arrays import uuids
from scheduling.store.bucket_backlog import BucketBacklog
from scheduling.store.buckets import LATER, Lows, bucket_of
from scheduling.store.connection import Connection
from scheduling.store.entries import (
    BUCKET,
    FIRE_AT,
    FIRED,
    JOB,
    SCHEDULED_FOR,
    SHARD,
    TENANT,
    VERSION,
    Kept,
    leaf_sql,
    owned,
)
from scheduling.store.rows import scheduled_job_of
from scheduling.store.set_aside import Pair, SetAside
from scheduling.store.statements import statements

SHARDS_IN_TURN = 4  # how many shards with a backlog are read together, at first
KEPT_JOBS = 50_000  # about 1 KB each
KEPT_ARGUMENTS = 4096  # characters: jobs with more are read each time


class BucketReader:
    """One thread owns it."""

    def __init__(self, lows: Lows, aside: SetAside) -> None:
        self._lows, self._aside = lows, aside
        self._backlog = BucketBacklog(lows, aside)
        self._flooded: list[int] = []  # the next in turn first
        self._jobs: dict[UUID, ScheduledJob] = {}
        self._orphans: dict[UUID, int] = {}

    def read(self, connection: Connection, look: ReadDue) -> tuple[Due, list[Kept]]:
        """The jobs of as many entries as are asked for: no more of them are read. And of all entries that were found
        those that had been set aside: with what of them does not go the next read is to begin.
        """
        found, seen, more = self._entries(connection, look)
        behind, rest = self._aside.read(connection, look)
        if behind:
            known = {row[JOB] for _, row in found}
            found += [entry for entry in behind if entry[1][JOB] not in known]
        fair = in_turns(found, look.limit, of=_tenant, at=_fire_at, most=look.most)
        more |= rest | left_out(found, fair, of=_tenant_and_shard)
        jobs = self._with_jobs(connection, fair)
        behind = [entry for entry in behind if entry[1][JOB] not in self._orphans]
        return Due(jobs, frozenset(seen), frozenset(more)), behind

    def _entries(self, connection: Connection, look: ReadDue) -> tuple[list[Kept], set[int], set[Pair]]:
        """By shard while everything due fits into one read; else in turns of shards and by tenant."""
        high, limit = bucket_of(look.until), look.limit
        others = [shard for shard in self._flooded if shard not in look.shards]  # they are looked at by themselves
        flooded = [shard for shard in self._flooded if shard in look.shards]
        plain = look.shards.difference(flooded)
        rows = self._by_shard(connection, plain, look, high)
        if len(rows) < limit:
            rows = self._consumed(plain, rows, high, look.full)
        else:
            rows, flooded, plain = [], [*flooded, *plain], frozenset()
        seen, more = set(plain), set[Pair]()
        still: list[int] = []
        at_once = SHARDS_IN_TURN
        while flooded and len(rows) < limit:
            turn, flooded = flooded[:at_once], flooded[at_once:]
            heads, whole, cut = self._backlog.read(connection, turn, look)
            if len(heads) > limit // 2:
                still += turn
            else:
                at_once *= 2  # there is not so much
            rows += heads
            seen |= whole
            more |= cut
        self._flooded = [*others, *flooded, *still]
        return rows, seen, more

    def _consumed(self, shards: Collection[int], rows: Sequence[Kept], high: int, full: frozenset[int]) -> list[Kept]:
        """What full tenants have of all that is due in these shards is set aside; the rest is to be claimed."""
        left: dict[int, int] = {}
        kept: list[Kept] = []
        for slot, row in rows:
            if row[TENANT] not in full:
                left[row[SHARD]] = min(row[BUCKET], left.get(row[SHARD], row[BUCKET]))
                kept.append((slot, row))
            elif slot != LATER:  # which the promoter moves into the ring
                self._aside.put(row[TENANT], row[SHARD], row[BUCKET])
        self._lows.consumed(shards, high, left)
        return kept

    def _by_shard(self, connection: Connection, shards: Collection[int], look: ReadDue, high: int) -> list[Kept]:
        found: list[Kept] = []
        for slot, lows in self._lows.to_read(shards, high).items():
            values = owned(lows) | {"high": high, "until": look.until, "limit": look.limit - len(found)}
            rows = connection.execute(leaf_sql(slot)["due_entries"], values, binary=True).fetchall()
            found += [(slot, row) for row in rows]
            if len(found) >= look.limit:
                break
        return found

    def take_orphans(self) -> dict[UUID, int]:
        """The jobs of entries that no job may stand behind, with their shards; each is told once."""
        orphans, self._orphans = self._orphans, {}
        return orphans

    # -- jobs ---------------------------------------------------------------------------------------------------

    def forget(self, job_ids: Iterable[UUID]) -> None:
        """What is known of these may no longer be true."""
        for job_id in job_ids:
            self._jobs.pop(job_id, None)

    def _with_jobs(self, connection: Connection, entries: Sequence[Kept]) -> list[DueJob]:
        kept = self._jobs
        jobs = {row[JOB]: kept[row[JOB]] for _, row in entries if row[JOB] in kept}
        unknown = [row[JOB] for _, row in entries if row[JOB] not in jobs]
        read = self._read_jobs(connection, unknown) if unknown else {}
        due = []
        for slot, row in entries:
            known = jobs.get(row[JOB])
            job = known or read.get(row[JOB])
            if job is not None and job.version == row[VERSION]:
                due.append(DueJob(job, row[SCHEDULED_FOR], row[FIRE_AT], slot, row[FIRED], known is not None))
            else:  # deleted; or edited, and about to be planned anew
                kept.pop(row[JOB], None)
                self._orphans[row[JOB]] = row[SHARD]
        return due

    def _read_jobs(self, connection: Connection, job_ids: Sequence[UUID]) -> dict[UUID, ScheduledJob]:
        rows = connection.execute(_jobs_sql(), {"job_ids": uuids(job_ids)}).fetchall()
        jobs = {}
        for *columns, job_xmin, tenant_xmin in rows:
            job = scheduled_job_of(tuple(columns))
            job.read_from = job_xmin, tenant_xmin
            jobs[job.work.job_id] = job
            if job.calendar is None and len(job.work.args) + len(job.work.kwargs) <= KEPT_ARGUMENTS:
                self._jobs[job.work.job_id] = job
        if (excess := len(self._jobs) - KEPT_JOBS) > 0:
            # not the first to come: jobs come round, and these would be the next that are wanted
            self.forget(random.sample(tuple(self._jobs), excess))
        return jobs


def _tenant(entry: Kept) -> int:
    return entry[1][TENANT]


def _tenant_and_shard(entry: Kept) -> Pair:
    return entry[1][TENANT], entry[1][SHARD]


def _fire_at(entry: Kept) -> datetime:
    return entry[1][FIRE_AT]


def _jobs_sql() -> str:
    schedule = statements("schedule")
    sql = statements("buckets", due_columns=schedule["due_columns"], due_joins=schedule["due_joins"])
    return sql["jobs"]
