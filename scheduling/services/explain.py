"""Why is it waiting, and when will it start: for a fire, and for a job with all that comes of it.

Everything is read from rows, in one transaction, by index and no farther than a bound; what is decided from them is
``scheduling.core.why``, which is pure. Nodes say how tenants stand every few seconds, and all is as fresh as that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS

from fairness.explain import Place
from scheduling.conf import Stop, scheduling_settings
from scheduling.core.errors import InvalidField
from scheduling.core.fire import State
from scheduling.core.recurrence import Preview
from scheduling.core.why import DueFacts, Explained, FireFacts, Moment, Owner, Why, why_due, why_fire
from scheduling.models import Job
from scheduling.services.explain_tenants import Tenants
from scheduling.services.session import in_transaction
from scheduling.store import explain as store
from scheduling.store.cluster import read_living
from scheduling.store.connection import Connection
from scheduling.store.explain import COUNTED, DueJob, Line, WaitingFire

Row = TypeVar("Row", WaitingFire, DueJob)

FIRES_SHOWN = 100
COMING_SHOWN = 3
FIRST = Place(ahead=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedFire:
    id: UUID
    scheduled_for: datetime
    state: State
    explained: Explained


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedJob:
    """``next``: of its next occurrence without a row yet. ``coming``: the schedule's next ones, whatever holds them."""

    job: Job
    next: Explained
    due_at: datetime | None  # the next occurrence's fire time, job time
    held_since: datetime | None  # job time: from then on its tenant has more due than its owner claims
    coming: Sequence[Preview]
    fires: Sequence[ExplainedFire]  # the unfinished ones, the earliest first


def explain_job(job: Job, *, using: str = DEFAULT_DB_ALIAS) -> ExplainedJob:
    """Why the job waits, and what happens next.

    Raises InvalidField (``job``): it was deleted.
    """
    with in_transaction(using) as connection:
        desk = _Desk(connection)
        found = store.read_jobs(connection, [job.pk])
        if not found:
            raise InvalidField("job", str(job), "was deleted")
        fires = store.read_unfinished(connection, job.pk, limit=FIRES_SHOWN)
        due = desk.jobs(found, excluded=_is_excluded(job, found[0].scheduled_for))
        explained = desk.fires(store.read_fires(connection, fires))
    return ExplainedJob(
        job=job,
        next=due[job.pk],
        due_at=found[0].fire_at,
        held_since=found[0].held_since if due[job.pk].waits else None,
        coming=_coming(job),
        fires=sorted(explained, key=lambda fire: (fire.scheduled_for, fire.id)),
    )


def explain_fires(fires: Collection[UUID], *, using: str = DEFAULT_DB_ALIAS) -> dict[UUID, ExplainedFire]:
    """By fire; those that do not exist are left out.

    Raises InvalidField (``fire``) for what is no id of a fire.
    """
    with in_transaction(using) as connection:
        try:
            found = store.read_fires(connection, fires)
        except (ValueError, OverflowError):
            raise InvalidField("fire", ", ".join(map(str, fires))[:100], "is no id of a fire") from None
        return {fire.id: fire for fire in _Desk(connection).fires(found)}


def explain_due(jobs: Collection[UUID], *, using: str = DEFAULT_DB_ALIAS) -> dict[UUID, Explained]:
    """Of the next occurrence of each of these jobs that has no row yet."""
    with in_transaction(using) as connection:
        return _Desk(connection).jobs(store.read_jobs(connection, jobs))


class _Desk:
    """What is known of the fleet for one explanation."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        store.by_index(connection)
        self._now: Moment = store.read_moment(connection)
        self._owners = store.read_owners(connection)
        self._read: dict[tuple[frozenset[int], frozenset[str]], Tenants] = {}
        self._any: Owner | None = None  # at stops 1 and 2 no shard has an owner: any node will do
        if scheduling_settings(settings).STOP in (Stop.ONE, Stop.TWO):
            living, _ = read_living(connection)
            self._any = Owner(node="", lives=living > 0, is_any=True)

    def fires(self, rows: Sequence[WaitingFire]) -> list[ExplainedFire]:
        if not rows:
            return []
        tenants = self._tenants(rows)
        lines: dict[tuple[int, str, str], Line] = {}
        for key, some in self._by_line(rows).items():
            tenant, node, lane = key
            shards = self._shards_of(node if tenants.waits_with(node, tenant, lane) else "")
            waiting = [row.id for row in some if not row.is_published]
            if waiting:
                lines[key] = store.read_line(self._connection, tenant, waiting, shards=shards, now=self._now.job)
        ahead = store.read_ahead_of_job(self._connection, [row for row in rows if _waits_for_its_job(row)])
        return [self._fire(row, tenants, lines.get(self._line_of(row)), ahead) for row in rows]

    def jobs(self, rows: Sequence[DueJob], *, excluded: bool = False) -> dict[UUID, Explained]:
        """``excluded``: whether a closed time is known to hold them."""
        tenants = self._tenants(rows)
        found: dict[UUID, Explained] = {}
        for (tenant, node, lane), some in self._by_line(rows).items():
            shards = self._shards_of(node if tenants.waits_with(node, tenant, lane) else "")
            line, before = Line(), dict[UUID, Place]()
            if any(row.fire_at is not None and row.fire_at <= self._now.job for row in some):
                line = store.read_in_line(self._connection, tenant, shards=shards, now=self._now.job)
                before = store.read_due_line(self._connection, tenant, some, shards=shards, now=self._now.job)
            for row in some:
                due = before.get(row.id, FIRST)
                ahead = line.in_lane(lane) + due.ahead
                place = Place(ahead=min(ahead, COUNTED), is_least=due.is_least or ahead >= COUNTED)
                found[row.id] = self._due(row, tenants, place, excluded=excluded)
        return found

    def _fire(
        self, row: WaitingFire, tenants: Tenants, line: Line | None, ahead_of_job: dict[UUID, list[str]]
    ) -> ExplainedFire:
        is_due = (row.wake_at or row.fire_at) <= self._now.job
        ahead = 0 if line is None else line.ahead(row.id, row.lane, row.task, is_due=is_due)
        place = Place(ahead=min(ahead, COUNTED), is_least=ahead >= COUNTED)
        owner = self._owner(row.shard)
        facts = FireFacts(
            id=row.id,
            state=row.state,
            reason=row.reason,
            fire_at=row.fire_at,
            wake_at=row.wake_at,
            origin=row.origin,
            attempt=row.attempt,
            max_attempts=row.max_attempts,
            is_published=row.is_published,
            is_redriven=row.is_redriven,
            is_guarded=row.is_guarded,
            owner=owner,
            line=tenants.line(row.tenant_id, row.lane, row.task, node=owner.node, place=place),
            consumers=tenants.consumers(row.tenant_id, row.lane),
            pause=row.pause,
            started_at=row.started_at,
            cancel_reason=row.cancel_reason,
            ahead_of_job=ahead_of_job.get(row.id, ()),
        )
        explained = why_fire(facts, self._now)
        return ExplainedFire(id=row.id, scheduled_for=row.scheduled_for, state=row.state, explained=explained)

    def _due(self, row: DueJob, tenants: Tenants, place: Place, *, excluded: bool) -> Explained:
        owner = self._owner(row.shard)
        facts = DueFacts(
            fire_at=row.fire_at,
            grace_s=row.grace_s,
            misfire=row.misfire,
            is_excluded=excluded,
            problem=row.problem,
            owner=owner,
            line=tenants.line(row.tenant_id, row.lane, row.task, node=owner.node, place=place),
            pause=row.pause,
            held_since=row.held_since,
        )
        return why_due(facts, self._now)

    def _tenants(self, rows: Sequence[WaitingFire] | Sequence[DueJob]) -> Tenants:
        """Of a job and its fires these are the same."""
        key = frozenset(row.tenant_id for row in rows), frozenset(row.lane for row in rows)
        if key not in self._read:
            tenants, lanes = key
            self._read[key] = Tenants(
                self._connection, tenants=tenants, lanes=lanes, shards=sorted(self._owners), now=self._now
            )
        return self._read[key]

    def _owner(self, shard: int) -> Owner:
        return self._any or self._owners.get(shard, Owner(node="", lives=False))

    def _shards_of(self, node: str) -> list[int]:
        """All, where no node is named."""
        return sorted(shard for shard, owner in self._owners.items() if not node or owner.node == node)

    def _line_of(self, row: WaitingFire | DueJob) -> tuple[int, str, str]:
        return row.tenant_id, self._owner(row.shard).node, row.lane

    def _by_line(self, rows: Sequence[Row]) -> dict[tuple[int, str, str], list[Row]]:
        found: dict[tuple[int, str, str], list[Row]] = defaultdict(list)
        for row in rows:
            found[self._line_of(row)].append(row)
        return found


def _waits_for_its_job(row: WaitingFire) -> bool:
    return row.state is State.PARKED and row.reason == Why.OVERLAP


def _is_excluded(job: Job, moment: datetime | None) -> bool:
    """Whether its calendar closes this moment; not, where the calendar cannot be read."""
    if job.calendar is None or moment is None:
        return False
    try:
        return job.calendar.closed_times().excludes(moment)
    except InvalidField:
        return False


def _coming(job: Job) -> list[Preview]:
    """None, where the schedule cannot be read: the job's problem says so."""
    try:
        return job.preview(COMING_SHOWN)
    except InvalidField:
        return []
