"""From due jobs to a claim: which occurrences get a row, what each row says, and where each job's schedule goes next.

Pure. The store writes a plan in one transaction, and only for jobs that are still as they were read; so nothing here
has to be undone when a plan does not go through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from scheduling.core.clock import Clock
from scheduling.core.definition import ScheduleFields
from scheduling.core.errors import InvalidField
from scheduling.core.fire import Fire, State, Work
from scheduling.core.identity import fire_id
from scheduling.core.jitter import jittered
from scheduling.core.misfire import Candidate, Judgement, MisfireRules, judge
from scheduling.core.recurrence import Schedule


@dataclass(frozen=True, slots=True)
class DueJob:
    """A job as the claim reads it. No ``next_scheduled_for``: its schedule was edited, and has to be planned anew."""

    work: Work
    schedule: ScheduleFields
    jitter: timedelta
    version: int
    changed_at: datetime
    next_scheduled_for: datetime | None


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """A fire to insert: ``claimed``, or ``skipped`` with its reason. ``covers`` occurrences up to ``covers_to`` share
    it.
    """

    fire: Fire
    state: State = State.CLAIMED
    reason: str = ""
    covers: int = 1
    covers_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What the claim does to one job. ``next_fire_at`` None: it has no further occurrence, or has a ``problem``."""

    due: DueJob
    next_scheduled_for: datetime | None
    next_fire_at: datetime | None
    rows: list[PlannedRow] = field(default_factory=list)
    problem: str = ""


def plan_job(due: DueJob, *, until: datetime, clock: Clock, number: Callable[[int], tuple[int, int]]) -> JobPlan:
    """All occurrences of a job whose ``fire_at`` is not after ``until`` (job time), judged by its misfire policy.

    ``number`` gives the next (epoch, seq) of a shard. A schedule that can no longer be read does not stop the shard:
    the plan puts the job aside, with the reason.
    """
    try:
        walk = _Walk(due, until)
        judgement = judge(_candidates(walk, clock), misfire_rules(due.work), now=clock.now())
    except InvalidField as problem:
        return JobPlan(due, None, None, problem=str(problem))
    return JobPlan(due, walk.next_scheduled_for, walk.next_fire_at, list(_rows(judgement, due, clock, number)))


def misfire_rules(work: Work) -> MisfireRules:
    return MisfireRules(work.misfire, work.misfire_grace_s, work.catch_up_limit, work.catch_up_window)


class _Walk:
    """The occurrences up to ``until``, with their fire times; afterwards the first one beyond."""

    def __init__(self, due: DueJob, until: datetime) -> None:
        self._due, self._until = due, until
        self._schedule: Schedule = due.schedule.build(due.work.job_id)
        self.next_scheduled_for = due.next_scheduled_for or self._schedule.next_after(due.changed_at)
        self.next_fire_at: datetime | None = None

    def __iter__(self) -> Iterator[tuple[datetime, datetime]]:
        while (scheduled_for := self.next_scheduled_for) is not None:
            following = self._schedule.next_after(scheduled_for)
            fire_at = jittered(self._due.work.job_id, scheduled_for, self._due.jitter, following)
            if fire_at > self._until:
                self.next_fire_at = fire_at
                return
            yield scheduled_for, fire_at
            self.next_scheduled_for = following


def _candidates(walk: _Walk, clock: Clock) -> Iterator[Candidate]:
    now = clock.monotonic()
    for scheduled_for, fire_at in walk:
        yield Candidate(scheduled_for, now - clock.real_time(fire_at))


def _rows(
    judgement: Judgement, due: DueJob, clock: Clock, number: Callable[[int], tuple[int, int]]
) -> Iterator[PlannedRow]:
    schedule = due.schedule.build(due.work.job_id) if due.jitter else None
    claimed_at = clock.monotonic()

    def row(scheduled_for: datetime) -> Fire:
        following = schedule.next_after(scheduled_for) if schedule else None
        epoch, seq = number(due.work.shard)
        return Fire(
            work=due.work,
            id=fire_id(due.work.job_id, scheduled_for),
            scheduled_for=scheduled_for,
            fire_at=jittered(due.work.job_id, scheduled_for, due.jitter, following),
            origin="",
            fence=1,
            attempt=0,
            epoch=epoch,
            seq=seq,
            claimed_at=claimed_at,
        )

    if (rest := judgement.rest) is not None:
        yield PlannedRow(row(rest.first), State.SKIPPED, judgement.reason, rest.count, rest.last)
    for candidate in judgement.skips:
        yield PlannedRow(row(candidate.scheduled_for), State.SKIPPED, judgement.reason)
    for candidate in judgement.fires:
        yield PlannedRow(row(candidate.scheduled_for))
