"""The shortest way to a plan against the long one: where ``plan_jobs`` goes it, both say the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduling.core.definition import Kind, ScheduleFields
from scheduling.core.due import DueJob, ScheduledJob
from scheduling.core.errors import InvalidField
from scheduling.core.fire import MisfirePolicy
from scheduling.core.jitter import jittered
from scheduling.core.judged_plan import plan_job
from scheduling.core.planning import plan_jobs
from scheduling.core.plans import JobPlan
from scheduling.testing.clock import ManualClock
from tests.claims import make_work

START = datetime(2026, 3, 7, 21, tzinfo=UTC)  # ten hours before New York's clocks go forward
MINUTE = timedelta(minutes=1)
DURATIONS = [0.0, 0.2, 1.0, 29.9, 30.0, 60.0, 700.0]

crons = st.sampled_from(
    ["* * * * *", "*/15 * * * * *", "*/10 * * * *", "0,15,30 2 * * *", "30 2 * * *", "0 3 * * *", "H * * * *"]
)
schedules = st.one_of(
    st.builds(
        lambda every, ahead: ScheduleFields(kind=Kind.INTERVAL, every=every, anchor=START + ahead),
        st.sampled_from([timedelta(seconds=s) for s in (0.7, 1, 60, 3600)]),
        st.timedeltas(timedelta(days=-2), timedelta(hours=1)),
    ),
    st.builds(
        lambda cron, tz, gap, fold: ScheduleFields(kind=Kind.CRON, cron=cron, tz=tz, gap=gap, fold=fold),
        crons,
        st.sampled_from(["UTC", "America/New_York", "Asia/Kathmandu"]),
        st.sampled_from(["first_valid", "shift", "skip"]),
        st.sampled_from(["first", "second", "both"]),
    ),
    st.just(ScheduleFields(kind=Kind.RRULE, rrule="FREQ=MINUTELY;INTERVAL=7;COUNT=90", dtstart=START)),
    st.builds(lambda minute: ScheduleFields(kind=Kind.ONCE, at=START + minute * MINUTE), st.integers(0, 60)),
)
bounds = st.fixed_dictionaries(
    {},
    optional={
        "end_at": st.timedeltas(timedelta(minutes=1), timedelta(hours=12)).map(lambda after: START + after),
        "start_at": st.timedeltas(timedelta(minutes=1), timedelta(hours=2)).map(lambda after: START + after),
    },
)


def due_job(said: ScheduleFields, jitter: timedelta, begin: datetime, policy: dict[str, Any]) -> DueJob | None:
    """A job with its first occurrence after ``begin``; None if there is none, or the schedule is refused."""
    job = ScheduledJob(make_work(**policy), said, jitter, 1, begin)
    try:
        schedule = job.build()
    except InvalidField:
        return None
    if (at := schedule.next_after(begin)) is None:
        return None
    fire_at = jittered(job.work.job_id, at, jitter, schedule.next_after(at)) if jitter else at
    return DueJob(job, at, fire_at)


def said_of(plan: JobPlan) -> list[Any]:
    rows = [
        (
            row.state, row.reason, row.covers, row.covers_to, row.wake_at, row.nominal, row.fire.id,
            row.fire.scheduled_for, row.fire.fire_at, row.fire.origin, row.fire.fence, row.fire.attempt,
            row.fire.claimed_at, row.fire.work,
        )
        for row in plan.rows
    ]  # fmt: skip
    return [plan.next_scheduled_for, plan.next_fire_at, plan.problem, plan.fired, rows]


@given(
    schedules,
    bounds,
    st.sampled_from([0.0, 0.0, 0.3, 40.0, 600.0]),
    st.timedeltas(timedelta(0), timedelta(hours=11)),
    st.sampled_from(DURATIONS),
    st.sampled_from(DURATIONS),
    st.sampled_from(MisfirePolicy),
    st.sampled_from([0.5, 30.0, 5000.0]),
    st.sampled_from([1.0, 60.0]),
)
@example(  # just at the end of its grace
    ScheduleFields(kind=Kind.INTERVAL, every=timedelta(minutes=1), anchor=START), {}, 0.0, timedelta(0), 30.0, 0.0,
    MisfirePolicy.SKIP, 30.0, 1.0,
)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_the_shortest_way_to_a_plan_says_what_the_long_one_says(
    said: ScheduleFields, bounds: dict[str, Any], jitter_s: float, begin: timedelta, late_s: float, window_s: float,
    misfire: MisfirePolicy, grace_s: float, speed: float,
) -> None:  # fmt: skip
    policy = {"misfire": misfire, "misfire_grace_s": grace_s, "catch_up_limit": 3}
    due = due_job(replace(said, **bounds), timedelta(seconds=jitter_s), START + begin, policy)
    if due is None or due.next_fire_at is None:
        return
    clock = ManualClock(due.next_fire_at + timedelta(seconds=late_s), speed=speed)
    until = clock.now() + timedelta(seconds=window_s)
    (short,) = plan_jobs([due], until=until, clock=clock, number=lambda _: (7, 1), room=1)
    long = plan_job(due, until=until, clock=clock)
    assert said_of(short) == said_of(long)
