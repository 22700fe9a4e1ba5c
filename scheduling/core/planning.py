"""From due jobs to a claim: which occurrences get a row, what each row says, and where each job's schedule goes next.

Pure. The store writes a plan in one transaction, and only for jobs that are still as they were read; so nothing here
has to be undone when a plan does not go through. A backlog of any length costs a bounded number of rows and steps.

Here is the short way, which nearly all go; ``judged_plan`` is the long one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType

from scheduling.core.clock import Clock
from scheduling.core.due import DueJob
from scheduling.core.errors import InvalidField
from scheduling.core.fire import Fire
from scheduling.core.identity import fire_id
from scheduling.core.jitter import jittered
from scheduling.core.judged_plan import THROTTLED_AT_A_TIME, plan_job
from scheduling.core.lateness import Lateness
from scheduling.core.misfire import COALESCING
from scheduling.core.plans import JobPlan, PlannedRow
from scheduling.core.recurrence import Interval, nominal_times

Number = Callable[[int], tuple[int, int]]  # shard -> the next (epoch, seq)
Holds = Mapping[tuple[int, int], datetime]  # (tenant, shard) -> since when, in job time, it is held there
NO_HOLDS: Holds = MappingProxyType({})


def plan_jobs(
    jobs: Iterable[DueJob], *, until: datetime, clock: Clock, number: Number, room: int, held: Holds = NO_HOLDS
) -> list[JobPlan]:
    """All occurrences of these jobs whose ``fire_at`` is not after ``until`` (job time), judged by their misfire
    policies. Once there are ``room`` rows the other jobs are left for another time. Of a job whose tenant is ``held``
    some may be left to be planned again.

    They are numbered in order of ``fire_at``: so the watermark keeps up with the clock, and what waits in the wheel is
    beyond what was published.
    """
    now, monotonic = clock.now(), clock.monotonic()
    plans: list[JobPlan] = []
    for due in jobs:
        since = held.get((due.work.tenant_id, due.work.shard)) if held else None
        plan = _on_time(due, until, clock, now, monotonic, since)
        plans.append(plan or plan_job(due, until=until, clock=clock, held_since=since))
        room -= len(plans[-1].rows)
        if room <= 0:
            break
    _number([row.fire for plan in plans for row in plan.rows], number)
    return plans


def _number(fires: list[Fire], number: Number) -> None:
    """Last: a number that was given out must have its row."""
    fires.sort(key=attrgetter("fire_at"))
    for fire in fires:
        fire.epoch, fire.seq = number(fire.work.shard)


def _on_time(
    due: DueJob, until: datetime, clock: Clock, now: datetime, monotonic: float, held_since: datetime | None
) -> JobPlan | None:
    """The plan of a job whose due occurrences all simply fire, as nearly all do; None: there is more to it."""
    job, at, fire_at = due.job, due.next_scheduled_for, due.next_fire_at
    if at is None or fire_at is None or not job.is_plain:
        return None
    work, jitter = job.work, job.jitter
    is_late = fire_at < now and monotonic - clock.real_time(fire_at) > work.misfire_grace_s
    if is_late and (held_since is None or Lateness(clock, held_since).own_s(fire_at) > work.misfire_grace_s):
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
        if is_late and rows and work.misfire in COALESCING:
            return None  # one of them, or each that is no longer late
        if is_late and len(rows) == THROTTLED_AT_A_TIME and _is_beyond_grace(rows[-1], clock, monotonic):
            break
        fire = Fire(work, fire_id(work.job_id, at), at, fire_at, "", 1, 0, 0, 0, monotonic)
        rows.append(PlannedRow(fire))
        following = schedule.next_after(at)
        if following is None:
            return JobPlan(due, None, None, rows, is_plain=True)
        at = following
        fire_at = jittered(work.job_id, at, jitter, schedule.next_after(at)) if jitter else at
    return JobPlan(due, following, fire_at, rows, is_plain=True)


def _is_beyond_grace(row: PlannedRow, clock: Clock, monotonic: float) -> bool:
    return monotonic - clock.real_time(row.fire.fire_at) > row.fire.work.misfire_grace_s
