"""From due jobs to a claim: which occurrences get a row, what each row says, and where each job's schedule goes next.

Pure. The store writes a plan in one transaction, and only for jobs that are still as they were read; so nothing here
has to be undone when a plan does not go through. A backlog of any length costs a bounded number of rows and steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from scheduling.core.clock import MICROSECOND, Clock
from scheduling.core.closed_times import CalendarFields
from scheduling.core.definition import ScheduleFields
from scheduling.core.errors import InvalidField
from scheduling.core.fire import Fire, State, Work
from scheduling.core.identity import fire_id
from scheduling.core.jitter import jittered
from scheduling.core.misfire import Candidate, MisfireRules, judge
from scheduling.core.recurrence import Calendar, Rest, Schedule, backlog, edit, nominal_times

FOR_EVER = datetime.max.replace(tzinfo=UTC)  # the end of a pause that ends by a person's word only

Number = Callable[[int], tuple[int, int]]  # shard -> the next (epoch, seq)


@dataclass(frozen=True, slots=True)
class Superseded:
    """A schedule that was edited while it had occurrences without a row: those after ``after``, up to the edit."""

    schedule: ScheduleFields
    jitter: timedelta
    after: datetime
    edited_at: datetime


@dataclass(frozen=True, slots=True)
class DueJob:
    """A job as the claim reads it. No ``next_scheduled_for``: its schedule was edited, and has to be planned anew.

    ``paused_until`` is the end of the pause, as far as it can be told; None if the job is not paused.
    """

    work: Work
    schedule: ScheduleFields
    jitter: timedelta
    version: int
    changed_at: datetime
    next_scheduled_for: datetime | None
    calendar: CalendarFields | None = None
    max_runs: int | None = None
    fired: int = 0  # of max_runs
    superseded: tuple[Superseded, ...] = ()
    paused_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """A fire to insert: ``claimed``; ``retry_wait`` until ``wake_at``; or ``skipped`` for a reason.

    ``covers`` occurrences up to ``covers_to`` share it. ``nominal`` are the local times in a gap that it stands for.
    """

    fire: Fire
    state: State = State.CLAIMED
    reason: str = ""
    covers: int = 1
    covers_to: datetime | None = None
    wake_at: datetime | None = None
    nominal: tuple[datetime, ...] = ()

    @property
    def nominal_text(self) -> str:
        return ", ".join(local.isoformat(" ") for local in self.nominal)


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What the claim does to one job. ``next_fire_at`` None: it has no further occurrence, or has a ``problem``.

    Where ``fired`` reaches the job's ``max_runs`` the store ends it, whatever comes next: only the store knows which of
    the rows a pause took.
    """

    due: DueJob
    next_scheduled_for: datetime | None
    next_fire_at: datetime | None
    rows: list[PlannedRow] = field(default_factory=list)
    problem: str = ""

    @property
    def fired(self) -> int:
        return len(_running(self.due, self.rows))


def plan_job(due: DueJob, *, until: datetime, clock: Clock, number: Number) -> JobPlan:
    """All occurrences of a job whose ``fire_at`` is not after ``until`` (job time), judged by its misfire policy.

    A schedule that can no longer be read does not stop the shard: the plan puts the job aside, with the reason.
    """
    try:
        plan = _Plan(due, clock).upto(until)
    except InvalidField as problem:
        return JobPlan(due, None, None, problem=str(problem))
    for row in plan.rows:  # last: a number that was given out must have its row
        row.fire.epoch, row.fire.seq = number(due.work.shard)
    return plan


def misfire_rules(work: Work) -> MisfireRules:
    return MisfireRules(work.misfire, work.misfire_grace_s, work.catch_up_limit, work.catch_up_window)


@dataclass(frozen=True, slots=True)
class _Due:
    """Occurrences to be judged, and the first one beyond them."""

    listed: Sequence[tuple[datetime, datetime]]  # (scheduled_for, fire_at)
    counted: Rest | None
    next_scheduled_for: datetime | None = None
    next_fire_at: datetime | None = None


class _Plan:
    """One planning; it holds what all of its steps need."""

    def __init__(self, due: DueJob, clock: Clock) -> None:
        self._due, self._clock = due, clock
        self._rules = misfire_rules(due.work)
        self._schedule = due.schedule.build(due.work.job_id)
        self._calendar: Calendar | None = None if due.calendar is None else due.calendar.build()
        self._now, self._monotonic = clock.now(), clock.monotonic()

    def upto(self, until: datetime) -> JobPlan:
        kept, rows = self._superseded()
        found = self._occurrences(until)
        # all of them under one policy: of an outage with an edit in it `latest` fires one
        rows += self._judged([*kept, *found.listed], found.counted, until)
        rows = _before_the_end(self._due, rows)
        return JobPlan(self._due, found.next_scheduled_for, found.next_fire_at, rows)

    def _superseded(self) -> tuple[list[tuple[datetime, datetime]], list[PlannedRow]]:
        """Of old schedules: what the new one still has, with the old fire time; and rows for the rest."""
        kept, rows = [], []
        for old in self._due.superseded:
            try:
                schedule = old.schedule.build(self._due.work.job_id)
            except InvalidField:
                continue  # what was impossible had no occurrences; the edit that mends it must not fail by it
            change = edit(
                schedule, self._schedule, after=old.after, edited_at=old.edited_at, keep=self._rules.catch_up_limit
            )
            kept += [(at, self._fire_at(schedule, at, old.jitter)) for at in change.kept]
            rows += [self._row(at, at, State.SKIPPED, "superseded") for at in change.superseded]
            if (rest := change.counted) is not None:
                rows.append(self._rest(rest, "superseded"))
        return kept, rows

    def _occurrences(self, until: datetime) -> _Due:
        start = self._due.next_scheduled_for or self._schedule.next_after(self._due.changed_at)
        if start is None:
            return _Due((), None)
        grace = timedelta(seconds=self._rules.grace_s * self._clock.speed)
        found = backlog(
            self._schedule,
            after=start - MICROSECOND,
            until=until,
            late_until=self._now - grace - self._due.jitter,
            keep=self._rules.catch_up_limit,
        )
        listed = [(at, self._fire_at(self._schedule, at, self._due.jitter)) for at in found.listed]
        for place, (at, fire_at) in enumerate(listed):
            if fire_at > until:  # jitter puts it beyond; those behind it are later still
                return _Due(listed[:place], found.counted, at, fire_at)
        following = self._schedule.next_after(listed[-1][0]) if listed else start
        if following is None:
            return _Due(listed, found.counted)
        return _Due(listed, found.counted, following, self._fire_at(self._schedule, following, self._due.jitter))

    def _judged(
        self, occurrences: Sequence[tuple[datetime, datetime]], counted: Rest | None, until: datetime
    ) -> Iterator[PlannedRow]:
        """A row for each: closed in the calendar, too late, or to be fired."""
        fire_at = dict(occurrences)
        closed = {at for at in fire_at if self._calendar is not None and self._calendar.excludes(at)}
        yield from (self._row(at, fire_at[at], State.SKIPPED, "excluded") for at in sorted(closed))
        candidates = [Candidate(at, self._late_s(fires)) for at, fires in fire_at.items() if at not in closed]
        judgement = judge(candidates, self._rules, now=self._now, counted=counted)
        if judgement.rest is not None:
            yield self._rest(judgement.rest, judgement.reason)
        for skip in judgement.skips:
            yield self._row(skip.scheduled_for, fire_at[skip.scheduled_for], State.SKIPPED, judgement.reason)
        for fire in judgement.fires:
            at = fire.scheduled_for
            # kept over an edit, with jitter: a number given out now would hold the watermark until then
            state = State.CLAIMED if fire_at[at] <= until else State.RETRY_WAIT
            yield self._row(at, fire_at[at], state, "")

    def _late_s(self, fire_at: datetime) -> float:
        return self._monotonic - self._clock.real_time(fire_at)

    def _fire_at(self, schedule: Schedule, at: datetime, jitter: timedelta) -> datetime:
        return jittered(self._due.work.job_id, at, jitter, schedule.next_after(at)) if jitter else at

    def _rest(self, rest: Rest, reason: str) -> PlannedRow:
        return self._row(rest.first, rest.first, State.SKIPPED, reason, covers=rest)

    def _row(
        self, at: datetime, fire_at: datetime, state: State, reason: str, *, covers: Rest | None = None
    ) -> PlannedRow:
        fire = Fire(
            work=self._due.work,
            id=fire_id(self._due.work.job_id, at),
            scheduled_for=at,
            fire_at=fire_at,
            origin="",
            fence=1,
            attempt=0,
            epoch=0,
            seq=0,
            claimed_at=self._monotonic,
        )
        if covers is not None:
            return PlannedRow(fire, state, reason, covers.count, covers.last)
        wake_at = fire_at if state is State.RETRY_WAIT else None
        nominal = nominal_times(self._schedule, at) if reason != "superseded" else ()
        return PlannedRow(fire, state, reason, wake_at=wake_at, nominal=nominal)


def _running(due: DueJob, rows: Sequence[PlannedRow]) -> list[datetime]:
    """The occurrences that will run, and so count against ``max_runs``."""
    return sorted(
        row.fire.scheduled_for
        for row in rows
        if row.state is not State.SKIPPED and (due.paused_until is None or row.fire.scheduled_for >= due.paused_until)
    )


def _before_the_end(due: DueJob, rows: list[PlannedRow]) -> list[PlannedRow]:
    """``rows`` without those behind the job's last run, where its schedule had ended."""
    if due.max_runs is None:
        return rows
    allowed = due.max_runs - due.fired
    if len(running := _running(due, rows)) < allowed:
        return rows
    ends_at = running[allowed - 1] if allowed > 0 else None
    return [
        row for row in rows if row.reason == "superseded" or (ends_at is not None and row.fire.scheduled_for <= ends_at)
    ]
