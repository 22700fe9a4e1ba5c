"""From due jobs to a claim: which occurrences get a row, what each row says, and where each job's schedule goes next.

Pure. The store writes a plan in one transaction, and only for jobs that are still as they were read; so nothing here
has to be undone when a plan does not go through. A backlog of any length costs a bounded number of rows and steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from operator import attrgetter

from scheduling.core.clock import MICROSECOND, Clock
from scheduling.core.closed_times import CalendarFields
from scheduling.core.definition import ScheduleFields
from scheduling.core.errors import InvalidField
from scheduling.core.fire import UNSENDABLE, Fire, MisfirePolicy, State, Work
from scheduling.core.identity import fire_id
from scheduling.core.jitter import jittered
from scheduling.core.misfire import Candidate, MisfireRules, judge
from scheduling.core.recurrence import Calendar, Interval, Rest, Schedule, backlog, edit, nominal_times

FOR_EVER = datetime.max.replace(tzinfo=UTC)  # the end of a pause that ends by a person's word only

Number = Callable[[int], tuple[int, int]]  # shard -> the next (epoch, seq)


@dataclass(frozen=True, slots=True)
class Superseded:
    """A schedule that was edited while it had occurrences without a row: those after ``after``, up to the edit.

    ``after`` None: the job's entry in the bucketed store tells.
    """

    schedule: ScheduleFields
    jitter: timedelta
    after: datetime | None
    edited_at: datetime


@dataclass(slots=True, eq=False)
class ScheduledJob:
    """A job as its row says. It is read once for many of its occurrences, and never changed: a store that keeps it
    looks whether the row is still the same.

    ``paused_until`` is the end of the pause, as far as it can be told; None if the job is not paused.
    """

    work: Work
    schedule: ScheduleFields
    jitter: timedelta
    version: int
    changed_at: datetime
    calendar: CalendarFields | None = None
    max_runs: int | None = None
    max_attempts: int = 3
    fired: int = 0  # of max_runs
    superseded: tuple[Superseded, ...] = ()
    paused_until: datetime | None = None
    in_bucket: bool = False  # its next occurrence is, or was before an edit, an entry of the bucketed store
    read_from: tuple[str, str] = ("", "")  # which versions of its row and its tenant's, where a store keeps it
    _built: Schedule | None = field(default=None, init=False, repr=False)

    def build(self) -> Schedule:
        """Its schedule. Raises InvalidField for a row that says something impossible."""
        if self._built is None:
            self._built = self.schedule.build(self.work.job_id)
        return self._built

    @property
    def first_edit(self) -> datetime:
        """Since it was planned last: what it had claimed ahead of this instant is no longer of its schedule."""
        if not self.superseded:
            return self.changed_at
        first = self.superseded[0]
        return first.edited_at if first.after is None else first.after

    @property
    def is_plain(self) -> bool:
        """Nothing but its schedule and its misfire policy has a say in which occurrences run."""
        return (
            self.calendar is None
            and self.max_runs is None
            and self.paused_until is None
            and not self.superseded
            and not self.work.problem
        )


@dataclass(slots=True, eq=False)
class DueJob:
    """A job and its next occurrence, as the claim reads them. No ``next_scheduled_for``: its schedule was edited, and
    has to be planned anew.

    ``slot`` says where the bucketed store keeps the occurrence; None: in the job's row. ``carried`` is how often it has
    fired since it left the row. ``is_kept``: its job was read some time ago, so that the claim has to look whether that
    still holds.
    """

    job: ScheduledJob
    next_scheduled_for: datetime | None
    next_fire_at: datetime | None = None
    slot: int | None = None
    carried: int = 0
    is_kept: bool = False

    @property
    def work(self) -> Work:
        return self.job.work


@dataclass(slots=True, eq=False)
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


@dataclass(slots=True, eq=False)
class JobPlan:
    """What the claim does to one job. ``next_fire_at`` None: it has no further occurrence, or none can be told.

    A ``problem`` is shown with the job until a claim finds it mended. With a schedule that cannot be read the job
    stops; with arguments that cannot be sent it goes on, and each of its occurrences is skipped.

    ``is_plain``: every row is a claimed fire, and nothing but its schedule had a say; so it can be written by the
    shortest way. Where ``fired`` reaches the job's ``max_runs`` the store ends it, whatever comes next: only the store
    knows which of the rows a pause took.
    """

    due: DueJob
    next_scheduled_for: datetime | None
    next_fire_at: datetime | None
    rows: list[PlannedRow] = field(default_factory=list)
    problem: str = ""
    is_plain: bool = False

    @property
    def fired(self) -> int:
        return len(_running(self.due.job, self.rows))


def plan_jobs(jobs: Iterable[DueJob], *, until: datetime, clock: Clock, number: Number, room: int) -> list[JobPlan]:
    """All occurrences of these jobs whose ``fire_at`` is not after ``until`` (job time), judged by their misfire
    policies. Once there are ``room`` rows the other jobs are left for another time.

    They are numbered in order of ``fire_at``: so the watermark keeps up with the clock, and what waits in the wheel is
    beyond what was published.
    """
    now, monotonic = clock.now(), clock.monotonic()
    plans: list[JobPlan] = []
    for due in jobs:
        plan = _on_time(due, until, clock, now, monotonic) or plan_job(due, until=until, clock=clock)
        plans.append(plan)
        room -= len(plan.rows)
        if room <= 0:
            break
    _number([row.fire for plan in plans for row in plan.rows], number)
    return plans


def plan_job(due: DueJob, *, until: datetime, clock: Clock) -> JobPlan:
    """All occurrences of a job whose ``fire_at`` is not after ``until`` (job time), judged by its misfire policy, and
    without numbers yet.

    A schedule that can no longer be read does not stop the shard: the plan puts the job aside, with the reason. What
    earlier schedules had up to their edits is superseded; the one occurrence that was known to come is fired.
    """
    planning = _Plan(due, clock)
    try:
        return planning.upto(until)
    except InvalidField as problem:
        rows = [*planning.all_superseded(), *planning.known_before(until)]
        return JobPlan(due, None, None, rows, problem=str(problem))


def _number(fires: list[Fire], number: Number) -> None:
    """Last: a number that was given out must have its row."""
    fires.sort(key=attrgetter("fire_at"))
    for fire in fires:
        fire.epoch, fire.seq = number(fire.work.shard)


def _on_time(due: DueJob, until: datetime, clock: Clock, now: datetime, monotonic: float) -> JobPlan | None:
    """The plan of a job whose due occurrences all simply fire, as nearly all do; None: there is more to it."""
    job, at, fire_at = due.job, due.next_scheduled_for, due.next_fire_at
    if at is None or fire_at is None or not job.is_plain:
        return None
    work, jitter = job.work, job.jitter
    if fire_at < now and monotonic - clock.real_time(fire_at) > work.misfire_grace_s:
        return None
    try:
        schedule = job.build()
    except InvalidField:
        return None
    gaps = not isinstance(schedule, Interval)
    rows: list[PlannedRow] = []
    following: datetime | None = at
    while fire_at <= until:
        if gaps and nominal_times(schedule, at):
            return None
        fire = Fire(work, fire_id(work.job_id, at), at, fire_at, "", 1, 0, 0, 0, monotonic)
        rows.append(PlannedRow(fire))
        following = schedule.next_after(at)
        if following is None:
            return JobPlan(due, None, None, rows, is_plain=True)
        at = following
        fire_at = jittered(work.job_id, at, jitter, schedule.next_after(at)) if jitter else at
    return JobPlan(due, following, fire_at, rows, is_plain=True)


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

    def __init__(self, due: DueJob, clock: Clock) -> None:
        self._due, self._job, self._clock = due, due.job, clock
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
        is_late = self._late_s(fire_at) > work.misfire_grace_s
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
            grace = timedelta(seconds=self._rules.grace_s * self._clock.speed)
            left = backlog(
                self._schedule,
                after=start - MICROSECOND,
                until=until,
                late_until=self._now - grace - self._job.jitter - MICROSECOND,  # at its grace it is on time
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
            Candidate(at, self._late_s(fires), may_have_row=self._may_have_row(at, until))
            for at, fires in fire_at.items()
            if at not in closed
        ]
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


def _running(job: ScheduledJob, rows: Sequence[PlannedRow]) -> list[datetime]:
    """The occurrences that will run, and so count against ``max_runs``."""
    return sorted(
        row.fire.scheduled_for
        for row in rows
        if row.state is not State.SKIPPED and (job.paused_until is None or row.fire.scheduled_for >= job.paused_until)
    )


def _before_the_end(due: DueJob, rows: list[PlannedRow]) -> list[PlannedRow]:
    """``rows`` without those behind the job's last run, where its schedule had ended."""
    job = due.job
    if job.max_runs is None:
        return rows
    allowed = job.max_runs - job.fired - due.carried
    if len(running := _running(job, rows)) < allowed:
        return rows
    ends_at = running[allowed - 1] if allowed > 0 else None
    return [
        row for row in rows if row.reason == "superseded" or (ends_at is not None and row.fire.scheduled_for <= ends_at)
    ]
