"""The plan of one job, judged by its misfire policy: the long way, which knows edits, calendars, pauses and backlogs.

Time for which the job's tenant was held (its jobs were left unclaimed, since it had enough under way) makes nothing a
misfire: over the limit means later. An occurrence that is late by nothing else is *throttled*. Under ``latest`` and
``earliest`` it counts as late all the same, for who asks for one of many wants no queue of them; under ``all`` and
``skip`` it runs, and they are taken THROTTLED_AT_A_TIME: the job stays due until the last of them has its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

from scheduling.core.clock import MICROSECOND, Clock
from scheduling.core.due import DueJob, Superseded
from scheduling.core.errors import InvalidField
from scheduling.core.fire import UNSENDABLE, Fire, MisfirePolicy, State, Work
from scheduling.core.identity import fire_id
from scheduling.core.jitter import jittered
from scheduling.core.lateness import Lateness
from scheduling.core.misfire import COALESCING, Candidate, MisfireReason, MisfireRules, judge
from scheduling.core.plans import JobPlan, PlannedRow, running
from scheduling.core.recurrence import Calendar, Rest, Schedule, backlog, edit, nominal_times

THROTTLED_AT_A_TIME = 10  # occurrences of a job


def plan_job(due: DueJob, *, until: datetime, clock: Clock, held_since: datetime | None = None) -> JobPlan:
    """All occurrences of a job whose ``fire_at`` is not after ``until`` (job time), judged by its misfire policy, and
    without numbers yet. ``held_since``: its tenant is held since this job time.

    A schedule that can no longer be read does not stop the shard: the plan puts the job aside, with the reason. What
    earlier schedules had up to their edits is superseded; the one occurrence that was known to come is fired.
    """
    planning = _Plan(due, clock, held_since)
    try:
        return planning.upto(until)
    except InvalidField as problem:
        rows = [*planning.all_superseded(), *planning.known_before(until)]
        return JobPlan(due, None, None, rows, problem=str(problem))


def misfire_rules(work: Work) -> MisfireRules:
    return MisfireRules(work.misfire, work.misfire_grace_s, work.catch_up_limit, work.catch_up_window)


@dataclass(frozen=True, slots=True)
class _Due:
    """Occurrences to be judged, and the first one beyond them."""

    listed: Sequence[tuple[datetime, datetime]]  # (scheduled_for, fire_at)
    counted: Rest | None  # late ones behind the first that are listed
    next_scheduled_for: datetime | None = None
    next_fire_at: datetime | None = None


class _Plan:
    """One planning; it holds what all of its steps need."""

    def __init__(self, due: DueJob, clock: Clock, held_since: datetime | None) -> None:
        self._due, self._job, self._clock = due, due.job, clock
        self._held_since, self._late = held_since, Lateness(clock, held_since)
        self._now, self._monotonic = clock.now(), clock.monotonic()

    @cached_property
    def _rules(self) -> MisfireRules:
        return misfire_rules(self._due.work)

    @cached_property
    def _schedule(self) -> Schedule:
        return self._job.build()

    def upto(self, until: datetime) -> JobPlan:
        """Raises InvalidField."""
        kept, rows = self._superseded()
        found = self._occurrences(until)
        # all of them under one policy: of an outage with an edit in it `latest` fires one
        rows += self._judged([*kept, *found.listed], found.counted, until)
        problem = self._due.work.problem
        rows = _before_the_end(self._due, [_unsendable(row) for row in rows] if problem else rows)
        return JobPlan(self._due, found.next_scheduled_for, found.next_fire_at, rows, problem)

    def _superseded(self) -> tuple[list[tuple[datetime, datetime]], list[PlannedRow]]:
        """Of old schedules: what the new one still has, with the old fire time; and rows for the rest."""
        kept, rows = [], []
        for old, schedule, after in self._old_schedules():
            change = edit(
                schedule, self._schedule, after=after, edited_at=old.edited_at, keep=self._rules.catch_up_limit
            )
            kept += [(at, self._fire_at(schedule, at, old.jitter)) for at in change.kept]
            rows += self._superseded_rows(change.superseded, change.counted)
        return kept, rows

    def all_superseded(self) -> list[PlannedRow]:
        """Of old schedules, where the new one cannot be read, and so has none of their occurrences."""
        keep = self._due.work.catch_up_limit  # of no rules: they may be what cannot be read
        rows = []
        for old, schedule, after in self._old_schedules():
            left = backlog(schedule, after=after, until=old.edited_at, late_until=old.edited_at, keep=keep)
            rows += self._superseded_rows(left.listed, left.counted)
        return rows

    def known_before(self, until: datetime) -> Iterator[PlannedRow]:
        """The occurrence that was planned while the schedule could be read, where it cannot be any more."""
        at, fire_at = self._due.next_scheduled_for, self._due.next_fire_at
        if at is None or fire_at is None or fire_at > until:
            return
        reason = self._reason_to_skip(at, fire_at)
        yield self._row(at, fire_at, State.SKIPPED if reason else State.CLAIMED, reason, is_readable=False)

    def _reason_to_skip(self, at: datetime, fire_at: datetime) -> str:
        """With a calendar that cannot be read nobody can tell whether it is open."""
        work = self._due.work
        try:
            if self._job.calendar is not None and self._job.calendar.build().excludes(at):
                return "excluded"
        except InvalidField:
            return "missed"
        is_late = self._late.own_s(fire_at) > work.misfire_grace_s
        return "missed" if is_late and work.misfire is MisfirePolicy.SKIP else ""

    def _old_schedules(self) -> Iterator[tuple[Superseded, Schedule, datetime]]:
        """Those that may have occurrences without a row, each with the instant up to which they have theirs."""
        for old in self._job.superseded:
            if old.after is None:
                continue  # its job had no entry: there was nothing to come
            try:
                schedule = old.schedule.build(self._due.work.job_id)
            except InvalidField:
                continue  # what was impossible had no occurrences; the edit that mends it must not fail by it
            yield old, schedule, old.after

    def _superseded_rows(self, listed: Iterable[datetime], counted: Rest | None) -> list[PlannedRow]:
        rows = [self._row(at, at, State.SKIPPED, "superseded") for at in listed]
        return rows if counted is None else [*rows, self._rest(counted, "superseded")]

    def _occurrences(self, until: datetime) -> _Due:
        start = self._due.next_scheduled_for or self._schedule.next_after(self._job.changed_at)
        found: list[datetime] = []
        while start is not None and self._may_have_row(start, until):
            found.append(start)
            start = self._schedule.next_after(start)
        counted = None
        if start is not None:
            late_until = self._late_until(self._now)
            if self._held_since is not None and self._rules.policy not in COALESCING:
                late_until = self._late_until(min(self._now, self._held_since))
                until = self._some_of_the_throttled(start, late_until, until)
            left = backlog(
                self._schedule,
                after=start - MICROSECOND,
                until=until,
                late_until=late_until,
                keep=self._rules.catch_up_limit,
            )
            found += left.listed
            counted = left.counted
        listed = [(at, self._fire_at(self._schedule, at, self._job.jitter)) for at in found]
        for place, (at, fire_at) in enumerate(listed):
            if fire_at > until:  # jitter puts it beyond; those behind it are later still
                return _Due(listed[:place], counted, at, fire_at)
        following = self._schedule.next_after(listed[-1][0]) if listed else start
        if following is None:
            return _Due(listed, counted)
        return _Due(listed, counted, following, self._fire_at(self._schedule, following, self._job.jitter))

    def _late_until(self, now: datetime) -> datetime:
        """What is before this has been late then, whatever its jitter; at its grace it is on time."""
        grace = timedelta(seconds=self._rules.grace_s * self._clock.speed)
        return now - grace - self._job.jitter - MICROSECOND

    def _some_of_the_throttled(self, start: datetime, late_until: datetime, until: datetime) -> datetime:
        """When the last of them is due that are taken at a time; ``until``, if there are not so many."""
        at = self._schedule.next_after(max(start - MICROSECOND, late_until))
        for _ in range(THROTTLED_AT_A_TIME - 1):
            if at is None or at > until:
                return until
            at = self._schedule.next_after(at)
        if at is None or at > until:
            return until
        fire_at = self._fire_at(self._schedule, at, self._job.jitter)
        return fire_at if self._late.is_throttled(fire_at, self._rules.grace_s) else until

    def _may_have_row(self, at: datetime, until: datetime) -> bool:
        """Whether the schedule before the edit may have been claimed ahead to this occurrence, which both have."""
        ahead = until - self._now
        return self._due.next_scheduled_for is None and at <= min(self._job.changed_at + ahead, until)

    def _judged(
        self, occurrences: Sequence[tuple[datetime, datetime]], counted: Rest | None, until: datetime
    ) -> Iterator[PlannedRow]:
        """A row for each: closed in the calendar, too late, or to be fired."""
        fire_at = dict(occurrences)
        calendar: Calendar | None = None if self._job.calendar is None else self._job.calendar.build()
        closed = {at for at in fire_at if calendar is not None and calendar.excludes(at)}
        yield from (self._row(at, fire_at[at], State.SKIPPED, "excluded") for at in sorted(closed))
        candidates = [
            Candidate(
                at,
                self._late.own_s(fires),
                may_have_row=self._may_have_row(at, until),
                is_throttled=self._late.is_throttled(fires, self._rules.grace_s),
            )
            for at, fires in fire_at.items()
            if at not in closed
        ]
        judgement = judge(candidates, self._rules, now=self._now, counted=counted)
        if judgement.rest is not None:
            is_throttled = self._late.is_throttled(judgement.rest.last, self._rules.grace_s)
            yield self._rest(judgement.rest, MisfireReason.THROTTLED if is_throttled else judgement.reason)
        for skip in judgement.skips:
            at = skip.scheduled_for
            yield self._row(at, fire_at[at], State.SKIPPED, judgement.reason_of(skip))
        for fire in judgement.fires:
            at = fire.scheduled_for
            # kept over an edit, with jitter: a number given out now would hold the watermark until then
            state = State.CLAIMED if fire_at[at] <= until else State.RETRY_WAIT
            yield self._row(at, fire_at[at], state, "")

    def _fire_at(self, schedule: Schedule, at: datetime, jitter: timedelta) -> datetime:
        return jittered(self._due.work.job_id, at, jitter, schedule.next_after(at)) if jitter else at

    def _rest(self, rest: Rest, reason: str) -> PlannedRow:
        return self._row(rest.first, rest.first, State.SKIPPED, reason, covers=rest)

    def _row(
        self,
        at: datetime,
        fire_at: datetime,
        state: State,
        reason: str,
        *,
        covers: Rest | None = None,
        is_readable: bool = True,
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
        nominal = nominal_times(self._schedule, at) if is_readable and reason != "superseded" else ()
        return PlannedRow(fire, state, reason, wake_at=wake_at, nominal=nominal)


def _unsendable(row: PlannedRow) -> PlannedRow:
    """What was to be fired is skipped."""
    return row if row.state is State.SKIPPED else replace(row, state=State.SKIPPED, reason=UNSENDABLE, wake_at=None)


def _before_the_end(due: DueJob, rows: list[PlannedRow]) -> list[PlannedRow]:
    """``rows`` without those behind the job's last run, where its schedule had ended."""
    job = due.job
    if job.max_runs is None:
        return rows
    allowed = job.max_runs - job.fired - due.carried
    if len(runs := running(job, rows)) < allowed:
        return rows
    ends_at = runs[allowed - 1] if allowed > 0 else None
    return [
        row for row in rows if row.reason == "superseded" or (ends_at is not None and row.fire.scheduled_for <= ends_at)
    ]
