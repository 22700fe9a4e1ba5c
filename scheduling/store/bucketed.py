"""The time-bucketed store: jobs that fire again and again leave their rows alone, and move from entry to entry.

::

    job's row ──first claim──> entry ──claim──> next entry ──claim──> …        in_bucket, the row holds no next run
        ^                        │
        └── pause's end, edit ───┘   back to the row, for whatever needs more than the shortest way

A claim is: hold the epochs; delete the entries, where their jobs are as they were read (or move the rows on, of jobs
that come from there); COPY the fires; COPY the next entries. No row of a job is updated, but once, and no history is
left in an index that a poll walks. What is beyond the horizon waits among what is *later* until the promoter moves it
into its minute.

Everything else is the indexed store's: a plan that is more than claimed fires (some are too late; a pause, a calendar,
``max_runs``, an edit) is written by its statements.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg import Cursor, sql
from psycopg.rows import TupleRow

from scheduling.core.clock import EPOCH, MICROSECOND
from scheduling.core.definition import Kind
from scheduling.core.due import Due, DueJob, Superseded
from scheduling.core.effects import Epochs, ReadDue
from scheduling.core.fire import Fire, State
from scheduling.core.plans import JobPlan
from scheduling.core.turns import in_turns, left_out
from scheduling.store.arrays import booleans, instants, integers, uuids
from scheduling.store.binary_rows import entry_rows, fire_rows
from scheduling.store.bucket_reader import BucketReader
from scheduling.store.buckets import LATER, Lows, bucket_of, horizon_from, idle_slots, leaf, slot_of_bucket
from scheduling.store.connection import Connect, Connection
from scheduling.store.entries import JOB, leaf_sql
from scheduling.store.postgres import PostgresStore, held_epochs
from scheduling.store.set_aside import SetAside
from scheduling.store.statements import statements
from scheduling.store.values import claim_values

SHARE = 64  # entries of a shard that the promoter moves at a time
PAUSES = 2000  # that end at a time
TABLES = 8  # that are truncated at a time
VACUUMED_FROM = 16 << 20  # bytes of a table that is not empty


class BucketedStore(PostgresStore):
    """Fits where the indexed store fits; a fleet may change from one to the other with all nodes down."""

    def __init__(self, connect: Connect, *, grace: timedelta = timedelta(seconds=5)) -> None:
        super().__init__(connect, grace=grace)
        self._sql = statements("schedule", entries=statements("buckets")["entries"])
        self._lows = Lows()
        self._aside = SetAside(self._lows)
        self._entries = BucketReader(self._lows, self._aside)
        self._until: datetime | None = None  # how far the last read looked: near enough to now to tell ring from later

    def take_over(self, shards: Collection[int], node: str) -> tuple[Epochs, list[Fire]]:
        self._lows.forget(shards)
        self._aside.forget(shards)
        return super().take_over(shards, node)

    def _take_up(self, connection: Connection, shards: Collection[int]) -> None:
        """Entries stay where they are."""

    # -- claim --------------------------------------------------------------------------------------------------

    def due(self, look: ReadDue) -> Due:
        """Cut twice: before the jobs of entries are read, for there may be many, and large ones; and beside what is in
        rows once they are, for an entry behind which no job stands is to take no row's place.
        """
        self._until = look.until
        with self._link() as connection:
            entries, behind = self._entries.read(connection, look)
            of_rows = self._due.read(connection, look)
            self._add_their_entries(connection, of_rows.jobs)
        found = [*entries.jobs, *of_rows.jobs]
        fair = in_turns(found, look.limit, of=_tenant, at=_fire_at, most=look.most)
        chosen = {due.work.job_id for due in fair}
        self._aside.begin_with(entry for entry in behind if entry[1][JOB] not in chosen)
        more = entries.more | of_rows.more | left_out(found, fair, of=_tenant_and_shard)
        return Due(fair, entries.seen & of_rows.seen, more)

    def _add_their_entries(self, connection: Connection, jobs: Sequence[DueJob]) -> None:
        """Of jobs that were edited while their next occurrence was an entry: it tells where the old schedule stood."""
        edited = {due.work.job_id: due for due in jobs if due.job.in_bucket}
        if edited:
            values = {"job_ids": uuids(edited)}
            for job_id, scheduled_for, fire_at, fired in connection.execute(_SQL["entries_of"], values).fetchall():
                job = edited[job_id].job
                edited[job_id].carried = fired
                job.superseded = tuple(_told(old, scheduled_for, fire_at) for old in job.superseded)

    def _claim(self, connection: Connection, epochs: Epochs, plans: Sequence[JobPlan]) -> dict[UUID, int]:
        plain = [plan for plan in plans if plan.is_plain]
        others = self._just_read([plan for plan in plans if not plan.is_plain])
        if others and not plain:
            return super()._claim(connection, epochs, others)
        try:
            return self._claim_plain(connection, epochs, plain, others)
        except psycopg.errors.UniqueViolation:  # an older schedule left a row: the indexed way knows what to do with it
            return super()._claim(connection, epochs, self._just_read(plans))

    def _just_read(self, plans: Sequence[JobPlan]) -> list[JobPlan]:
        """Those whose jobs were read for this very claim: the indexed way does not look whether what was kept still
        holds. It writes the jobs' rows, too: all of them are to be read anew.
        """
        self._entries.forget(plan.due.work.job_id for plan in plans)
        return [plan for plan in plans if not plan.due.is_kept]

    def _claim_plain(
        self, connection: Connection, epochs: Epochs, plain: Sequence[JobPlan], others: Sequence[JobPlan]
    ) -> dict[UUID, int]:
        by_slot: dict[int | None, list[JobPlan]] = {}
        for plan in plain:
            by_slot.setdefault(plan.due.slot, []).append(plan)
        self._days.ensure(connection, [*plain, *others])
        with connection.transaction():
            with connection.pipeline():
                held = connection.execute(self._sql["hold_epochs"], held_epochs(epochs))
                by_rows = [self._claim_by_rows(connection, others, self._claim_values(others))] if others else []
                advanced = [self._advance(connection, slot, of_slot) for slot, of_slot in by_slot.items()]
            (_, now) = held.fetchone() or (None, None)
            assert now is not None
            ours = {job for cursor in advanced for (job,) in cursor.fetchall()}
            plans = [plan for plan in plain if plan.due.work.job_id in ours]
            if len(plans) < len(plain):
                self._entries.forget({plan.due.work.job_id for plan in plain} - ours)
            self._copy(connection, "copy_fires", fire_rows(plans, now))
            entries = self._next_entries([plan for plan in plans if plan.due.slot is not None or _enters(plan)])
            self._copy(connection, "copy_entries", entry_rows(entries))
            self._finish(connection, plans)
            fences = {fire: fence for cursor in by_rows for fire, state, fence in cursor if state == State.CLAIMED}
            for plan, slot, bucket in entries:  # before the commit, whose reply may be lost
                self._lows.written(plan.due.work.shard, bucket, slot)
        return fences | {row.fire.id: row.fire.fence for plan in plans for row in plan.rows}

    def _advance(self, connection: Connection, slot: int | None, plans: Sequence[JobPlan]) -> Cursor[TupleRow]:
        """Gives the jobs that were as they were read: their entries are consumed, or their rows moved on."""
        values: dict[str, Any] = {
            "job_ids": uuids([plan.due.work.job_id for plan in plans]),
            "versions": integers([plan.due.job.version for plan in plans]),
            "were": instants([plan.due.next_scheduled_for for plan in plans]),
        }
        if slot is not None:
            read_from = [plan.due.job.read_from if plan.due.is_kept else ("NULL", "NULL") for plan in plans]
            values["job_xmins"], values["tenant_xmins"] = (
                "{" + ",".join(xmins) + "}" for xmins in zip(*read_from, strict=True)
            )
            return connection.execute(leaf_sql(slot)["consume"], values, binary=True)
        values |= {
            "next_fors": instants([plan.next_scheduled_for for plan in plans]),
            "next_ats": instants([plan.next_fire_at for plan in plans]),
            "fired": integers([len(plan.rows) for plan in plans]),
            "enter": booleans([_enters(plan) for plan in plans]),
        }
        return connection.execute(_SQL["advance"], values, binary=True)

    def _finish(self, connection: Connection, plans: Sequence[JobPlan]) -> None:
        """Entries without a next one: their jobs are finished."""
        if ended := [plan for plan in plans if plan.due.slot is not None and plan.next_fire_at is None]:
            values = {
                "job_ids": uuids([plan.due.work.job_id for plan in ended]),
                "fired": integers([plan.due.carried + len(plan.rows) for plan in ended]),
            }
            connection.execute(_SQL["finish"], values)

    def _copy(self, connection: Connection, name: str, rows: bytes) -> None:
        with connection.cursor().copy(_SQL[name]) as copy:
            copy.write(rows)

    def _next_entries(self, plans: Sequence[JobPlan]) -> list[tuple[JobPlan, int, int]]:
        """Each plan's next occurrence, with its slot and its bucket."""
        until = self._until
        horizon = bucket_of(horizon_from(until)) if until is not None else 0
        entries = []
        for plan in plans:
            if plan.next_fire_at is not None:
                bucket = bucket_of(plan.next_fire_at)
                entries.append((plan, slot_of_bucket(bucket) if bucket < horizon else LATER, bucket))
        return entries

    def _claim_values(self, plans: Sequence[JobPlan]) -> dict[str, Any]:
        """Of what goes through the jobs' rows: those that may are entries from then on."""
        for plan, slot, bucket in self._next_entries([plan for plan in plans if _enters(plan)]):
            self._lows.written(plan.due.work.shard, bucket, slot)
        horizon = EPOCH if self._until is None else horizon_from(self._until)
        return claim_values(plans, enters=_enters) | {"horizon": horizon}

    # -- upkeep -------------------------------------------------------------------------------------------------

    def _before_pauses_end(self, connection: Connection, shards: Collection[int], now: datetime) -> None:
        values = {"shards": sorted(shards), "now": now, "limit": PAUSES}
        if jobs := [job for (job,) in connection.execute(_SQL["due_for_their_end"], values).fetchall()]:
            connection.execute(statements("buckets", which=_SQL["of_jobs"])["back_to_rows"], {"job_ids": uuids(jobs)})

    def promote(self, epochs: Epochs, *, now: datetime) -> bool:
        horizon = horizon_from(now)
        high = bucket_of(horizon)
        mine = {job: shard for job, shard in self._entries.take_orphans().items() if shard in epochs}
        near = {shard: low for shard, low in self._lows.later(epochs).items() if low < high}
        if not near and not mine:
            return False
        with self._link() as connection, connection.transaction():
            connection.execute(self._sql["hold_epochs"], held_epochs(epochs))
            lows = {"shards": list(near), "lows": list(near.values())}
            values = lows | {"high": high, "horizon": horizon, "share": SHARE}
            moved = connection.execute(_SQL["promote"], values).fetchall() if near else []
            for shard, bucket, _ in moved:  # before the commit, whose reply may be lost
                self._lows.moved(shard, bucket)
            if mine:
                connection.execute(_SQL["forget"], {"job_ids": uuids(mine), "shards": integers({*mine.values()})})
        more = {shard for shard, _, count in moved if count >= SHARE}
        self._lows.promoted(near.keys() - more, horizon)
        return bool(more or mine)

    def expire(self, shards: Collection[int], *, now: datetime) -> list[str]:
        with self._link() as connection:
            grown = self._grown(connection, now)
            emptied = [table for table, _ in grown if _is_empty(connection, table)]
            for table in emptied[:TABLES]:
                self._truncate(connection, table)
            for table, is_vacuumed in grown:
                if not is_vacuumed and table not in emptied:
                    self._have_vacuumed(connection, table)
        return super().expire(shards, now=now)

    def _grown(self, connection: Connection, now: datetime) -> list[tuple[str, bool]]:
        """Tables in which something is, if only what was deleted; and whether they are vacuumed, or too small for it.
        They are not in use at present; what is written into one all the same is seen under the lock.
        """
        values = {"tables": [leaf(slot) for slot in idle_slots(now)], "size": VACUUMED_FROM}
        return connection.execute(_SQL["grown"], values).fetchall()

    def _truncate(self, connection: Connection, table: str) -> None:
        """If it is empty, and nobody uses it. Without waiting: behind a wait for the lock everybody else would wait."""
        name = sql.Identifier(table)
        try:
            with connection.transaction():
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE NOWAIT").format(name))
                if _is_empty(connection, table):
                    connection.execute(sql.SQL("TRUNCATE {}").format(name))
                    connection.execute(sql.SQL("ALTER TABLE {} SET (autovacuum_enabled = false)").format(name))
        except psycopg.errors.LockNotAvailable:
            return

    def _have_vacuumed(self, connection: Connection, table: str) -> None:
        """What full tenants have left in it keeps it from being truncated, for rounds of the ring perhaps: what others
        had there is to be cleared away by Postgres, until it is empty.
        """
        name = sql.Identifier(table)
        try:
            with connection.transaction():
                connection.execute("SET LOCAL lock_timeout = '100ms'")
                connection.execute(sql.SQL("ALTER TABLE {} SET (autovacuum_enabled = true)").format(name))
        except psycopg.errors.LockNotAvailable:
            return  # until the next time


_SQL = statements("buckets")


def _is_empty(connection: Connection, table: str) -> bool:
    query = sql.SQL("SELECT FROM {} LIMIT 1").format(sql.Identifier(table))
    return connection.execute(query).fetchone() is None


def _enters(plan: JobPlan) -> bool:
    """Whether a job goes on as an entry: it fires again, by nothing but its schedule. After an edit not at once: its
    new entry might be where the old one still is.
    """
    job = plan.due.job
    return (
        plan.next_fire_at is not None
        and not plan.problem  # which the row shows, until a claim finds it mended
        and (plan.due.slot is not None or not job.in_bucket)
        and job.schedule.kind is not Kind.ONCE
        and job.calendar is None
        and job.max_runs is None
        and job.paused_until is None
    )


def _told(old: Superseded, scheduled_for: datetime, fire_at: datetime) -> Superseded:
    """An old schedule, with where it stood; what was to come only after the edit is not due any more."""
    if old.after is not None or min(scheduled_for, fire_at) > old.edited_at:
        return old
    return replace(old, after=scheduled_for - MICROSECOND)


def _tenant(due: DueJob) -> int:
    return due.work.tenant_id


def _tenant_and_shard(due: DueJob) -> tuple[int, int]:
    return due.work.tenant_id, due.work.shard


def _fire_at(due: DueJob) -> datetime:
    assert due.next_fire_at is not None
    return due.next_fire_at
