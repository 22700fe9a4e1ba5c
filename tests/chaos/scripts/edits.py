"""What people do to jobs in the very moment of their fires: they retime, change, pause, resume and delete them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from django.db import transaction
from psycopg.rows import namedtuple_row

from scheduling.core.clock import EPOCH
from scheduling.core.definition import Kind, ScheduleFields
from scheduling.models import Job
from scheduling.models.entry import Entry
from scheduling.services.pause import pause
from scheduling.services.resume import resume
from tests.chaos.deeds import Ban
from tests.chaos.evidence import made
from tests.chaos.load import MAKING, Group, make_more
from tests.chaos.monitor import NAME
from tests.chaos.registry import scenario
from tests.chaos.stage import Act

GROUP = Group("city", "edited", 60, 0)
LASTS_S = 4.5
PER_S = 1000  # edits of a job, at most
AT_ONCE = 10  # jobs that are edited in one transaction
INSTANT = timedelta(microseconds=1)
BY = "chaos"
CRONS = ("* * * * * *", "*/2 * * * * *", "1-59/2 * * * * *")

LOCK = "SELECT id FROM scheduling_job WHERE id = ANY (%s) ORDER BY id FOR UPDATE"
RETIME = """
UPDATE scheduling_job j SET kind = v.kind, cron = v.cron, every = v.every, anchor = v.anchor
FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::interval[], %s::timestamptz[]) AS v(id, kind, cron, every, anchor)
WHERE j.id = v.id
RETURNING j.id, j.schedule_version, j.schedule_changed_at
"""
CHANGE = "UPDATE scheduling_job SET description = %s, buffer_limit = 101 WHERE id = ANY (%s)"

Deed = Callable[[Sequence[UUID]], None]


@scenario("16", "retimed", "paused", "deleted", "all of it")
def _edited(act: Act) -> None:
    """For some seconds, as fast as it goes; each second most of the jobs fire at once."""
    start_at = act.now() + MAKING
    jobs = make_more(GROUP, start_at=start_at, end_at=start_at + timedelta(seconds=LASTS_S))
    with ExitStack() as stack:
        stack.callback(act.leaves_database)
        editor = Editor(act, stack.enter_context(_connected(act)), {job.pk: job for job in jobs})
        deeds: dict[str, list[Deed]] = {
            "retimed": [editor.retime, editor.retime, editor.change],
            "paused": [editor.pause_or_resume],
            "deleted": [editor.delete, *[editor.change] * 20],
            "all of it": [editor.delete, *[editor.pause_or_resume] * 5, *[editor.retime] * 15, *[editor.change] * 5],
        }
        began = time.monotonic()
        while (passed_s := time.monotonic() - began) < MAKING.total_seconds() + LASTS_S - 0.5 and editor.left:
            act.rng.choice(deeds[act.injection.variant])(editor.some())
            act.fleet.revive()
            time.sleep(max(0.0, editor.done / PER_S - passed_s))
        act.note = f"{editor.done} edits, {editor.done / (time.monotonic() - began):.0f} a second"
        editor.resume(editor.paused)
    act.heals()
    act.recovers()


def _connected(act: Act) -> psycopg.Connection[Any]:
    return psycopg.connect(
        act.services.postgres.url, autocommit=True, application_name=NAME, row_factory=namedtuple_row
    )


@dataclass(slots=True)
class Editor:
    """Edits some of the jobs at a time, and notes what that makes of what is owed."""

    act: Act
    connection: psycopg.Connection[Any]
    jobs: dict[UUID, Job]
    done: int = 0
    left: list[UUID] = field(init=False)  # not deleted
    paused: dict[UUID, datetime] = field(default_factory=dict)  # since when that is known
    _versions: dict[UUID, int] = field(init=False)

    def __post_init__(self) -> None:
        self.left = sorted(self.jobs)
        self._versions = {job.pk: job.schedule_version for job in self.jobs.values()}
        self.act.deeds.made |= {job.pk: made(job) for job in self.jobs.values()}

    def some(self) -> list[UUID]:
        return self.act.rng.sample(self.left, min(AT_ONCE, len(self.left)))

    def retime(self, ids: Sequence[UUID]) -> None:
        """They get other schedules, by whoever writes to the table."""
        new = [self._schedule() for _ in ids]
        columns = [
            list(ids), [one.kind for one in new], [one.cron for one in new],
            [one.every for one in new], [one.anchor for one in new],
        ]  # fmt: skip
        with self.connection.transaction():
            self.connection.execute(LOCK, [list(ids)])
            rows = self.connection.execute(RETIME, columns).fetchall()
        self.done += len(rows)
        given = dict(zip(ids, new, strict=True))
        for row in rows:
            if row.schedule_version == self._versions[row.id]:
                continue  # it was so already
            self._versions[row.id] = row.schedule_version
            job = self.jobs[row.id]
            schedule = replace(given[row.id], start_at=job.start_at, end_at=job.end_at).build(row.id)
            self.act.deeds.edited(row.id, schedule, at=row.schedule_changed_at)

    def change(self, ids: Sequence[UUID]) -> None:
        """What is no matter of their schedules, and must not stop a fire."""
        with self.connection.transaction():
            self.connection.execute(LOCK, [list(ids)])
            self.connection.execute(CHANGE, [f"edit {self.done}", list(ids)])
        self.done += len(ids)

    def pause_or_resume(self, ids: Sequence[UUID]) -> None:
        if again := [job for job in ids if job in self.paused]:
            self.resume(again)
        if stopped := [job for job in ids if job not in self.paused]:
            pause([self.jobs[job] for job in stopped], reason="chaos", by=BY)
            now = datetime.now(UTC)
            self.paused |= dict.fromkeys(stopped, now)
        self.done += len(ids)

    def resume(self, ids: Sequence[UUID] | dict[UUID, datetime]) -> None:
        """With any of the ways to catch up."""
        asked_at, jobs = datetime.now(UTC), list(ids)
        if jobs:
            resume([self.jobs[job] for job in jobs], by=BY, catch_up=self.act.rng.choice(["none", "latest", "all"]))
        self.act.deeds.bans += [Ban(job, self.paused.pop(job), asked_at) for job in jobs]

    def delete(self, ids: Sequence[UUID]) -> None:
        """One of them. What had been claimed by then must come to an end; nothing that comes later is owed."""
        gone = ids[0]
        with transaction.atomic():
            job = Job.objects.select_for_update().get(pk=gone)
            claimed_to = _claimed_to(job)
            Job.objects.filter(pk=gone).delete()
        self.left.remove(gone)
        if (since := self.paused.pop(gone, None)) is not None:
            self.act.deeds.bans.append(Ban(gone, since))
        self.act.deeds.deleted(gone, claimed_to=claimed_to)
        self.act.deeds.may_die([gone], "cancelled")  # what had failed, and was to be tried again
        self.done += 1

    def _schedule(self) -> ScheduleFields:
        rng = self.act.rng
        if rng.random() < 0.3:
            return ScheduleFields(Kind.CRON, cron=rng.choice(CRONS))
        anchor = EPOCH + timedelta(milliseconds=rng.choice([0, 0, 100, 333]))
        return ScheduleFields(Kind.INTERVAL, every=timedelta(milliseconds=rng.choice([250, 500, 1000])), anchor=anchor)


def _claimed_to(job: Job) -> datetime:
    """Up to when the occurrences of this job have their rows; it is locked."""
    if job.next_scheduled_for is not None:
        return job.next_scheduled_for - INSTANT
    entry = Entry.objects.filter(job_id=job.pk).order_by("scheduled_for").first()
    if entry is not None:  # where the bucketed store has it, an edit leaves it as it was
        return entry.scheduled_for - INSTANT
    if job.superseded:  # edits that no claim has seen
        return min(datetime.fromisoformat(old["after"]) for old in job.superseded if old["after"])
    assert job.end_at is not None
    assert job.schedule_changed_at is not None
    return job.end_at if job.next_fire_at is None else job.schedule_changed_at
