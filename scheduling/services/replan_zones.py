"""A new tzdata: the next occurrences that were computed with the old one are computed anew.

Only what has not fired is touched: jobs on cron expressions and rules whose next occurrence is still to come. As with
an edit nothing is created before now. A job whose zone is gone is put aside with its problem, and one that was put
aside is taken up again from now on if it can be. Each row is written only as it was read: where a claim, an edit or a
promotion was faster, the job is looked at again.

A process reads tzdata once, so nodes that still run on the old one plan with it until they are restarted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from scheduling.core.definition import Kind
from scheduling.core.errors import FairbeatError, InvalidField
from scheduling.core.jitter import jittered
from scheduling.models import Fire, Job, JobClock, ZoneData
from scheduling.models.job import SCHEDULE_COLUMNS
from scheduling.services.next_runs import next_runs
from scheduling.services.zone_data_version import zone_data_version

logger = logging.getLogger(__name__)
LOCK = 0x0FA1_2043  # advisory: one process at a time
CHUNK = 1_000
EXAMPLES = 10
LOOKS = 3  # at a job that changes while it is computed: a promotion moves its entry at most once
READ = ("id", "name", "tenant__slug", "calendar", "jitter", "schedule_version", "problem", "in_bucket")

# The jobs' rows hold their next occurrences afterwards, also where an entry of the bucketed store did. The lock waits
# for a claim in flight, which then has taken the entry.
WRITE = """
WITH plan AS (
    SELECT * FROM unnest(
        %s::uuid[], %s::integer[], %s::timestamptz[], %s::timestamptz[], %s::timestamptz[], %s::text[], %s::boolean[]
    ) AS p(id, version, was, next_for, next_at, problem, in_bucket)
), held AS MATERIALIZED (
    SELECT p.* FROM plan p JOIN scheduling_job j ON j.id = p.id
    WHERE p.in_bucket AND j.in_bucket AND j.schedule_version = p.version
    ORDER BY j.id FOR UPDATE OF j
), gone AS (
    DELETE FROM scheduling_entry e
    USING (
        SELECT found.* FROM held h CROSS JOIN LATERAL (  -- a join might walk over all entries for each
            SELECT slot, ctid AS place FROM scheduling_entry
            WHERE job_id = h.id AND schedule_version = h.version AND scheduled_for = h.was OFFSET 0
        ) AS found
    ) AS f
    WHERE e.slot = f.slot AND e.ctid = f.place
    RETURNING e.job_id, e.fired
)
UPDATE scheduling_job j
SET next_scheduled_for = p.next_for, next_fire_at = p.next_at, problem = p.problem, in_bucket = false,
    fired = j.fired + coalesce((SELECT fired FROM gone WHERE gone.job_id = j.id), 0)
FROM plan p
WHERE j.id = p.id AND j.schedule_version = p.version AND j.deleted_at IS NULL AND j.in_bucket = p.in_bucket
  AND CASE WHEN p.in_bucket THEN j.id IN (SELECT job_id FROM gone)
      ELSE j.next_scheduled_for IS NOT DISTINCT FROM p.was AND (p.was IS NOT NULL OR j.problem <> '') END
RETURNING j.id
"""


class ReplanRuns(FairbeatError):
    """Another process is at it."""


@dataclass(frozen=True, slots=True)
class Move:
    """What became of one job's next occurrence. ``new`` None: put aside, for ``problem``; ``old`` None: taken up."""

    job: str
    old: datetime | None
    new: datetime | None
    problem: str = ""

    def __str__(self) -> str:
        told = [f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else "-" for moment in (self.old, self.new)]
        return f"{self.job}: {told[0]} -> {told[1]}{f' ({self.problem})' if self.problem else ''}"


@dataclass(slots=True)
class Replanned:
    """``looked`` jobs were computed anew; ``examples`` are the first of those that moved."""

    version: str
    looked: int = 0
    moved: int = 0
    put_aside: int = 0
    examples: list[Move] = field(default_factory=list)

    def __str__(self) -> str:
        return f"tzdata {self.version}: of {self.looked} jobs {self.moved} moved, {self.put_aside} of them put aside"


def replan_if_changed() -> Replanned | None:
    """At a node's start: replan where the tzdata is another than the recorded one, unless another node does already.

    None if there was nothing to do. The first start ever only records it.
    """
    version = zone_data_version()
    recorded = ZoneData.objects.first()
    if recorded is None:
        ZoneData.objects.bulk_create([ZoneData(version=version, replanned_at=Now())], ignore_conflicts=True)
        return None
    if recorded.version == version:
        return None
    logger.info("tzdata is %s, and was %s: computing next occurrences anew", version, recorded.version)
    try:
        done = replan_zones()
    except ReplanRuns:
        return None
    logger.info("%s", done)
    for move in done.examples:
        logger.info("moved: %s", move)
    return done


def replan_zones() -> Replanned:
    """Compute them anew, and record the tzdata.

    Raises ReplanRuns.
    """
    with _alone():
        done = Replanned(zone_data_version())
        now = JobClock.objects.now()
        for chunk in _chunks():
            jobs = _still_to_fire(chunk, now)
            done.looked += len(jobs)
            for _ in range(LOOKS):
                moves = {job.pk: (job, move) for job, old in jobs if (move := _moved(job, old, now)) is not None}
                if not (missed := moves.keys() - _write(done, moves)):
                    break
                jobs = _still_to_fire(_read().filter(pk__in=missed), now)
        ZoneData.objects.update_or_create(id=1, defaults={"version": done.version, "replanned_at": Now()})
    return done


@contextmanager
def _alone() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        if cursor.fetchone() != (True,):
            raise ReplanRuns("another process is computing the next occurrences anew")
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


def _read() -> QuerySet[Job]:
    """The jobs that may be concerned."""
    planned = Q(next_scheduled_for__isnull=False) | Q(in_bucket=True)
    jobs = Job.objects.filter(Q(planned, kind__in=[Kind.CRON, Kind.RRULE]) | ~Q(problem=""), deleted_at=None)
    return jobs.select_related("tenant", "calendar").only(*READ, *SCHEDULE_COLUMNS, *_CALENDAR).order_by("pk")


def _chunks() -> Iterator[Sequence[Job]]:
    jobs = _read()
    chunk = list(jobs[:CHUNK])
    while chunk:
        yield chunk
        chunk = list(jobs.filter(pk__gt=chunk[-1].pk)[:CHUNK])


_CALENDAR = ("calendar__tz", "calendar__days", "calendar__hours")


def _still_to_fire(jobs: Iterable[Job], now: datetime) -> list[tuple[Job, datetime | None]]:
    """Those whose next occurrence is still to come, with it, and those that were put aside, which have none."""
    jobs = list(jobs)
    runs = next_runs(jobs)
    found = [(job, runs[job.pk].scheduled_for) for job in jobs if job.pk in runs]
    return [(job, at) for job, at in found if job.problem or (at is not None and at > now)]


def _moved(job: Job, old: datetime | None, now: datetime) -> Move | None:
    """None if it stays as it is."""
    name = f"{job.tenant.slug}/{job.name or job.pk}"
    try:
        new = _next(job, old, now)
    except InvalidField as problem:
        return None if old is None else Move(name, old, None, str(problem))
    return None if new == old else Move(name, old, new)


def _next(job: Job, old: datetime | None, now: datetime) -> datetime | None:
    """The first occurrence after ``now`` that was not claimed ahead. Raises InvalidField."""
    if job.calendar is not None:
        job.calendar.closed_times()
    schedule = job.schedule
    new = schedule.next_after(now)
    while new is not None and old is not None and new < old and Fire.objects.filter(
        job=job, scheduled_for=new, origin=""
    ).exists():  # fmt: skip
        new = schedule.next_after(new)
    return new


def _write(done: Replanned, moves: Mapping[UUID, tuple[Job, Move]]) -> set[UUID]:
    """Gives the jobs that were as they had been read."""
    if not moves:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(WRITE, _columns(list(moves.values())))
        ids = {job for (job,) in cursor.fetchall()}
    written = [move for job, (_, move) in moves.items() if job in ids]
    done.moved += len(written)
    done.put_aside += sum(bool(move.problem) for move in written)
    done.examples += written[: EXAMPLES - len(done.examples)]
    return ids


def _columns(moves: Sequence[tuple[Job, Move]]) -> list[list[Any]]:
    rows = [
        (job.pk, job.schedule_version, move.old, move.new, _fire_at(job, move.new), move.problem, job.in_bucket)
        for job, move in moves
    ]
    return [list(column) for column in zip(*rows, strict=True)]


def _fire_at(job: Job, at: datetime | None) -> datetime | None:
    if at is None or not job.jitter:
        return at
    return jittered(job.id, at, job.jitter, job.schedule.next_after(at))
