"""Reads what has to be known to say why something waits: inside a transaction, by index, no farther than a bound."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from fairness.explain import Place
from scheduling.core.clock import TimeLapse
from scheduling.core.fire import State
from scheduling.core.identity import millisecond_of
from scheduling.core.why import Moment, Owner, Pause
from scheduling.store.connection import Connection
from scheduling.store.statements import statements

COUNTED = 100_000  # of those before one; beyond, it is said that there are at least so many
SHOWN = 10  # of those that one waits for the end of
SEEN = 1_000  # last fires of a job, among which those are looked for that are unfinished


class WaitingFire(NamedTuple):
    """A fire's row, with what is asked of its job and its shard."""

    id: UUID
    state: State
    reason: str
    fire_at: datetime
    wake_at: datetime | None
    origin: str
    attempt: int
    max_attempts: int
    started_at: datetime | None
    cancel_reason: str
    job_id: UUID
    tenant_id: int
    shard: int
    scheduled_for: datetime
    history_days: int
    exclusive: bool
    is_published: bool
    is_redriven: bool
    is_guarded: bool | None
    task: str
    lane: str
    tenant: str
    pause: Pause | None


class DueJob(NamedTuple):
    """A job's row, with its next occurrence."""

    id: UUID
    tenant_id: int
    shard: int
    fire_at: datetime | None
    scheduled_for: datetime | None
    grace_s: float
    misfire: str
    problem: str
    task: str
    lane: str
    tenant: str
    pause: Pause | None
    held_since: datetime | None


@dataclass(frozen=True, slots=True)
class Line:
    """What waits of a tenant, by (lane, task); and how many are before each that was asked for, of its own lane and
    task.
    """

    waiting: Mapping[tuple[str, str], int] = field(default_factory=dict)
    before: Mapping[UUID, int] = field(default_factory=dict)

    def ahead(self, fire: UUID, lane: str, task: str, *, is_due: bool) -> int:
        """Of its lane, tasks taking turns; of one that was to wait, and does no longer, nothing is."""
        before = self.before.get(fire)
        if before is None:
            waiting = self.in_lane(lane)
            return waiting if not is_due or waiting >= COUNTED else 0
        others = (n for (of_lane, of_task), n in self.waiting.items() if of_lane == lane and of_task != task)
        return before + sum(min(other, before) for other in others)

    def in_lane(self, lane: str) -> int:
        return sum(n for (of_lane, _), n in self.waiting.items() if of_lane == lane)


def by_index(connection: Connection) -> None:
    """Plans of this transaction go by index, as those of the nodes do: partitions that look empty may be full."""
    connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL jit = off")


def read_moment(connection: Connection) -> Moment:
    row: Any = connection.execute(_sql("moment")).fetchone()
    real, job, job_origin, real_origin, speed, stops_after_s = row
    lapse = None if job_origin is None else TimeLapse(job_origin, real_origin, speed, stops_after_s)
    return Moment(real=real, job=job, lapse=lapse)


def read_fires(connection: Connection, fires: Collection[UUID]) -> list[WaitingFire]:
    """Those that exist, in no order. Raises ValueError for what is no id of a fire."""
    given = {"ids": list(fires), "millis": [millisecond_of(fire) for fire in fires]}
    rows: Any = connection.execute(_sql("fires"), given)
    return [WaitingFire._make([row[0], State(row[1]), *row[2:22], _pause(*row[22:])]) for row in rows]


def read_jobs(connection: Connection, jobs: Collection[UUID]) -> list[DueJob]:
    rows: Any = connection.execute(_sql("jobs"), {"ids": list(jobs)})
    return [DueJob._make([*row[:11], _pause(*row[11:15]), row[15]]) for row in rows]


def _pause(is_paused: bool, until: datetime | None, by: str, reason: str) -> Pause | None:
    return Pause(by=by, reason=reason, until=until) if is_paused else None


def read_unfinished(connection: Connection, job: UUID, *, limit: int) -> list[UUID]:
    """The fires of a job that are not over, the earliest first; of very many some may be missing."""
    rows = connection.execute(_sql("unfinished"), {"job": job, "limit": limit, "seen": SEEN})
    return [fire for (fire,) in rows]


def read_owners(connection: Connection) -> dict[int, Owner]:
    return {shard: Owner(node=node, lives=lives) for shard, node, lives in connection.execute(_sql("owners"))}


def read_line(
    connection: Connection, tenant: int, fires: Iterable[UUID], *, shards: Sequence[int], now: datetime
) -> Line:
    """What waits of the tenant in these shards, at this job time."""
    given = {"tenant": tenant, "ids": list(fires), "shards": list(shards), "now": now, "limit": COUNTED}
    waiting: dict[tuple[str, str], int] = {}
    before: dict[UUID, int] = {}
    for fire, lane, task, count in connection.execute(_sql("line"), given):
        if fire is None:
            waiting[lane, task] = count
        else:
            before[fire] = count
    return Line(waiting, before)


def read_in_line(connection: Connection, tenant: int, *, shards: Sequence[int], now: datetime) -> Line:
    """How much waits of the tenant in these shards, at this job time."""
    given = {"tenant": tenant, "shards": list(shards), "now": now, "limit": COUNTED}
    return Line({(lane, task): count for lane, task, count in connection.execute(_sql("in_line"), given)})


def read_due_line(
    connection: Connection, tenant: int, jobs: Iterable[DueJob], *, shards: Sequence[int], now: datetime
) -> dict[UUID, Place]:
    """How much of the tenant's lane is due and goes before each of these jobs that is due itself, in these shards: what
    came due earlier; at least so much, where a shard has more than is looked at. Before one that was claimed just now
    there is nothing.
    """
    due = {job.id: (job, job.fire_at) for job in jobs if job.fire_at is not None and job.fire_at <= now}
    given = {
        "tenant": tenant,
        "ids": list(due),
        "of_shards": [job.shard for job, _ in due.values()],
        "lanes": [job.lane for job, _ in due.values()],
        "fire_ats": [fire_at for _, fire_at in due.values()],
        "shards": list(shards),
        "until": max((fire_at for _, fire_at in due.values()), default=now),
        "limit": max(1, COUNTED // max(1, len(shards))),
    }
    before: dict[UUID, int] = {}
    is_cut = False
    for job_id, number in connection.execute(_sql("due_line"), given):
        if job_id is None:
            is_cut = True
        else:
            before[job_id] = number
    return {job_id: Place(ahead=ahead, is_least=is_cut) for job_id, ahead in before.items()}


def read_ahead_of_job(connection: Connection, fires: Sequence[WaitingFire]) -> dict[UUID, list[str]]:
    """What is unfinished of their jobs before these, where runs may not overlap: in words, a few of each."""
    found: dict[UUID, list[str]] = {}
    if fires:
        given = {
            "ids": [fire.id for fire in fires],
            "job_ids": [fire.job_id for fire in fires],
            "scheduled_fors": [fire.scheduled_for for fire in fires],
            "history_days": [fire.history_days for fire in fires],
            "limit": SHOWN,
        }
        for fire, other, state, scheduled_for in connection.execute(_sql("ahead_of_job"), given):
            found.setdefault(fire, []).append(f"{other} of {scheduled_for:%Y-%m-%d %H:%M:%S} UTC ({state})")
    return found


class Holder(NamedTuple):
    """A fire in flight, and since when it is so."""

    lane: str
    task: str
    fire: UUID
    since: datetime | None

    def __str__(self) -> str:
        since = "" if self.since is None else f" since {self.since:%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.fire}{since}"


def read_running(connection: Connection, tenant: int, *, shards: Sequence[int]) -> list[Holder]:
    """Some of what runs of the tenant, the longest first."""
    given = {"tenant": tenant, "shards": list(shards), "limit": COUNTED}
    return [Holder(lane, task, fire, at) for fire, lane, task, at in connection.execute(_sql("running"), given)]


def read_slots(connection: Connection, tenant: int) -> list[Holder]:
    """Who has the places under the tenant's strict caps; lane and task are the cap's."""
    return [Holder(*row) for row in connection.execute(_sql("slots"), {"tenant": tenant})]


def _sql(name: str) -> str:
    return statements("explain")[name]
