"""What the planner makes of jobs that are due: rows, numbers, and where each schedule goes on."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.closed_times import CalendarFields
from scheduling.core.definition import Kind, ScheduleFields
from scheduling.core.due import DueJob
from scheduling.core.fire import MisfirePolicy, State
from scheduling.core.identity import fire_id
from scheduling.core.judged_plan import plan_job
from scheduling.core.planning import plan_jobs
from scheduling.core.plans import JobPlan, PlannedRow
from scheduling.testing.clock import NOON, ManualClock
from tests.claims import SECOND, every, make_due, make_work
from tests.core.plans import cron, plan, seconds


def test_every_occurrence_in_the_window_gets_a_row_and_the_schedule_goes_on_behind_it() -> None:
    found = plan(make_due(make_work(), schedule=every(0.25)), until_s=1.0)
    assert seconds(found) == [(s, "claimed") for s in (0, 0.25, 0.5, 0.75, 1.0)]
    assert found.next_scheduled_for == found.next_fire_at == NOON + SECOND * 1.25


def test_the_fires_of_all_jobs_are_numbered_in_the_order_in_which_they_come_due() -> None:
    numbers = count(1)
    jobs = [make_due(make_work(n), NOON + SECOND * 0.1 * n, schedule=every(0.25)) for n in (2, 1)]
    plans = plan_jobs(
        jobs, until=NOON + SECOND, clock=ManualClock(), number=lambda shard: (shard + 6, next(numbers)), room=100
    )
    fires = sorted((row.fire for plan in plans for row in plan.rows), key=lambda fire: fire.seq)
    assert [fire.fire_at for fire in fires] == sorted(fire.fire_at for fire in fires)
    assert [(fire.epoch, fire.seq) for fire in fires] == [(7, n + 1) for n in range(len(fires))]


def test_a_row_says_who_it_is_and_when_it_was_claimed() -> None:
    work = make_work(5)
    fire = plan(make_due(work), at_s=3.0, until_s=4.0).rows[0].fire
    assert (fire.id, fire.work, fire.fence, fire.attempt, fire.origin) == (fire_id(work.job_id, NOON), work, 1, 0, "")
    assert fire.claimed_at == 3.0


def test_the_last_occurrence_leaves_nothing_to_come() -> None:
    found = plan(make_due(make_work()))
    assert seconds(found) == [(0, "claimed")]
    assert (found.next_scheduled_for, found.next_fire_at, found.problem) == (None, None, "")


def test_an_edited_job_is_planned_from_its_edit_on_and_nothing_before() -> None:
    due = make_due(make_work(), None, schedule=every(1.0), changed_at=NOON - SECOND * 0.5)
    assert seconds(plan(due, until_s=1.0)) == [(0, "claimed"), (1, "claimed")]


def test_an_edited_job_with_nothing_due_yet_only_learns_when_it_is() -> None:
    due = make_due(make_work(), None, schedule=every(60), changed_at=NOON + SECOND)
    found = plan(due)
    assert (found.rows, found.next_fire_at) == ([], NOON + SECOND * 60)


def test_what_fires_beyond_the_window_by_its_jitter_is_left_for_later() -> None:
    jitter = timedelta(seconds=30)
    found = plan(make_due(make_work(), schedule=every(60), jitter=jitter), until_s=0.0)
    assert found.rows == []
    assert found.next_scheduled_for == NOON
    assert found.next_fire_at is not None
    assert NOON < found.next_fire_at < NOON + jitter
    later = plan(make_due(make_work(), schedule=every(60), jitter=jitter), until_s=30.0)
    assert [row.fire.fire_at for row in later.rows] == [found.next_fire_at]


def test_after_an_outage_the_policy_decides_what_fires_and_what_is_recorded() -> None:
    def after_an_hour(policy: MisfirePolicy, **values: Any) -> JobPlan:
        work = make_work(misfire=policy, **values)
        return plan(make_due(work, schedule=every(600)), at_s=3600, until_s=3600)

    missed = [600.0 * n for n in range(6)]  # the one at 3600 is on time
    assert seconds(after_an_hour(MisfirePolicy.LATEST)) == [
        *((s, "skipped coalesced") for s in missed[:-1]),
        (3000, "claimed"),
        (3600, "claimed"),
    ]
    assert seconds(after_an_hour(MisfirePolicy.SKIP)) == [*((s, "skipped missed") for s in missed), (3600, "claimed")]
    assert seconds(after_an_hour(MisfirePolicy.ALL, catch_up_window=timedelta(minutes=25))) == [
        *((s, "skipped missed") for s in missed[:4]),
        (2400, "claimed"),
        (3000, "claimed"),
        (3600, "claimed"),
    ]


def test_beyond_the_catch_up_limit_the_rest_is_one_row() -> None:
    work = make_work(misfire=MisfirePolicy.SKIP, catch_up_limit=2)
    first, *others = plan(make_due(work, schedule=every(60)), at_s=3600, until_s=3599).rows
    assert (first.state, first.covers) == (State.SKIPPED, 58)
    assert (first.fire.scheduled_for, first.covers_to) == (NOON, NOON + SECOND * 57 * 60)
    assert [row.covers for row in others] == [1, 1]


def test_a_schedule_that_cannot_be_read_puts_its_job_aside_with_the_reason() -> None:
    due = make_due(make_work(), schedule=ScheduleFields(kind=Kind.CRON, cron="61 * * * *"))
    found = plan(due)
    assert (found.rows, found.next_scheduled_for, found.next_fire_at) == ([], None, None)
    assert found.problem.startswith("cron '61 * * * *'")


@pytest.mark.parametrize(
    ("policy", "at_s", "row"),
    [
        (MisfirePolicy.SKIP, 0.0, (0, "claimed")),
        (MisfirePolicy.SKIP, 31.0, (0, "skipped missed")),
        (MisfirePolicy.LATEST, 3600.0, (0, "claimed")),
    ],
)
def test_what_was_known_to_come_while_the_schedule_could_be_read_has_its_row(
    policy: MisfirePolicy, at_s: float, row: tuple[float, str]
) -> None:
    """No edit made it unreadable: a zone that a newer tzdata has not, a rule that a newer release refuses."""
    lost = ScheduleFields(kind=Kind.CRON, cron="0 * * * *", tz="Mars/Olympus")
    found = plan(make_due(make_work(misfire=policy), schedule=lost, next_fire_at=NOON), at_s=at_s, until_s=at_s)
    assert seconds(found) == [row]
    assert "Mars/Olympus" in found.problem
    assert found.next_fire_at is None


def test_what_was_known_to_come_only_later_has_none_yet() -> None:
    lost = ScheduleFields(kind=Kind.CRON, cron="61 * * * *")
    assert plan(make_due(make_work(), schedule=lost, next_fire_at=NOON + SECOND * 9)).rows == []


def test_a_policy_that_admits_nothing_puts_its_job_aside_too() -> None:
    found = plan(make_due(make_work(catch_up_limit=0), schedule=every()))
    assert "catch_up_limit 0" in found.problem
    assert found.rows == []


@given(
    policy=st.sampled_from(MisfirePolicy),
    limit=st.integers(1, 20),
    outage_ms=st.integers(0, 200_000),
    grace_s=st.floats(0.001, 100),
)
def test_every_occurrence_is_accounted_for_exactly_once(
    policy: MisfirePolicy, limit: int, outage_ms: int, grace_s: float
) -> None:
    work = make_work(misfire=policy, catch_up_limit=limit, misfire_grace_s=grace_s)
    found = plan(make_due(work, schedule=every(1.0)), at_s=outage_ms / 1000, until_s=outage_ms / 1000 + 1)
    assert sum(row.covers for row in found.rows) == outage_ms // 1000 + 2
    assert found.next_fire_at == NOON + SECOND * (outage_ms // 1000 + 2)


# -- calendars, bounds, zone changes --------------------------------------------------------------------------------


def test_what_is_closed_is_excluded_and_the_schedule_goes_on() -> None:
    closed = CalendarFields("UTC", (), [{"begins": "12:00", "ends": "12:02"}])
    found = plan(make_due(make_work(), schedule=every(60), calendar=closed), until_s=120)
    assert seconds(found) == [(0, "skipped excluded"), (60, "skipped excluded"), (120, "claimed")]
    assert found.next_scheduled_for == NOON + SECOND * 180


def test_a_calendar_that_cannot_be_read_puts_its_job_aside() -> None:
    for broken in (CalendarFields("Mars/Olympus", (), []), CalendarFields("UTC", (), [{"begins": 3}])):
        found = plan(make_due(make_work(), schedule=every(60), calendar=broken))
        assert (found.rows, found.next_fire_at) == ([], None)
        assert found.problem.startswith("calendar ")


def test_nothing_is_planned_before_the_start_or_behind_the_end() -> None:
    bounded = ScheduleFields(
        kind=Kind.INTERVAL,
        every=SECOND,
        anchor=NOON,
        start_at=NOON + SECOND * 2,
        end_at=NOON + SECOND * 4,
    )
    found = plan(make_due(make_work(), None, schedule=bounded, changed_at=NOON - SECOND), until_s=60)
    assert [s for s, _ in seconds(found)] == [2, 3, 4]
    assert found.next_fire_at is None


def test_behind_its_last_run_a_job_has_no_rows_at_all() -> None:
    closed = CalendarFields("UTC", (), [{"begins": "12:00", "ends": "12:01"}, {"begins": "12:04", "ends": "12:05"}])
    due = make_due(make_work(), schedule=every(60), calendar=closed, max_runs=5, fired=3)
    found = plan(due, until_s=600)
    assert seconds(found) == [(0, "skipped excluded"), (60, "claimed"), (120, "claimed")]
    assert found.fired == 2


def test_what_a_pause_takes_is_no_run() -> None:
    due = make_due(make_work(), schedule=every(60), max_runs=2, paused_until=NOON + SECOND * 120)
    found = plan(due, until_s=600)
    assert [s for s, _ in seconds(found)] == [0, 60, 120, 180]
    assert found.fired == 2


def test_the_times_that_a_gap_skipped_are_listed_on_their_one_fire() -> None:
    spring = datetime(2026, 3, 8, 6, tzinfo=UTC)
    due = make_due(
        make_work(), None, schedule=cron("0,30 2 * * *", tz="America/New_York"), changed_at=spring - timedelta(hours=1)
    )
    clock = ManualClock(spring)
    (row,) = plan_job(due, until=spring + timedelta(hours=2), clock=clock).rows
    assert row.fire.scheduled_for == spring + timedelta(hours=1)
    assert row.nominal_text == "2026-03-08 02:00:00, 2026-03-08 02:30:00"


# -- backlogs -------------------------------------------------------------------------------------------------------

WEEK_S = 7 * 86_400


def test_a_week_of_every_five_minutes_caught_up_with_is_bounded_and_accounted_for() -> None:
    work = make_work(misfire=MisfirePolicy.ALL)
    found = plan(make_due(work, schedule=cron("*/5 * * * *")), at_s=WEEK_S, until_s=WEEK_S)
    fired = [s for s, what in seconds(found) if what == "claimed"]
    assert fired == [WEEK_S - 300 * n for n in range(12, -1, -1)]  # catch_up_window is an hour
    assert len(found.rows) <= work.catch_up_limit + 2
    assert sum(row.covers for row in found.rows) == 2016 + 1
    assert {row.reason for row in found.rows if row.state is State.SKIPPED} == {"missed"}


def test_of_a_longer_window_no_more_than_the_limit_fire() -> None:
    work = make_work(misfire=MisfirePolicy.ALL, catch_up_window=timedelta(days=30), catch_up_limit=20)
    found = plan(make_due(work, schedule=cron("*/5 * * * *")), at_s=WEEK_S, until_s=WEEK_S)
    assert found.fired == 20 + 1  # and the one that is on time
    assert sum(row.covers for row in found.rows) == 2016 + 1


def test_a_week_of_every_second_is_planned_without_walking_it() -> None:
    due = make_due(make_work(misfire=MisfirePolicy.ALL), schedule=every(1.0))

    def cost_s() -> float:
        began = time.process_time()
        found = plan(due, at_s=WEEK_S, until_s=WEEK_S)
        spent = time.process_time() - began
        assert sum(row.covers for row in found.rows) == WEEK_S + 1
        return spent

    assert min(cost_s() for _ in range(5)) < 0.1


# -- windows --------------------------------------------------------------------------------------------------------

SCHEDULES = st.one_of(
    st.builds(
        lambda s, offset: every(s, anchor=NOON + SECOND * offset), st.floats(60, 5_000), st.floats(-5_000, 5_000)
    ),
    st.sampled_from(
        [
            cron("*/5 * * * *"),
            cron("7,50 */2 * * *", tz="Australia/Lord_Howe"),
            cron("0,30 1,2 * * *", tz="America/New_York"),
            ScheduleFields(kind=Kind.RRULE, rrule="FREQ=HOURLY;INTERVAL=3;BYMINUTE=5,55", dtstart=NOON),
            ScheduleFields(kind=Kind.ONCE, at=NOON + SECOND * 4000),
        ]
    ),
)


@settings(deadline=None, max_examples=60)
@given(
    schedule=SCHEDULES,
    jitter_s=st.sampled_from([0, 0, 1, 700]),
    bounds=st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)) | st.none(),
    max_runs=st.integers(1, 8) | st.none(),
    closed=st.booleans(),
    cuts=st.tuples(st.floats(0, 20_000), st.floats(0, 20_000)),
)
def test_two_windows_give_the_rows_of_one(
    schedule: ScheduleFields,
    jitter_s: int,
    bounds: tuple[int, int] | None,
    max_runs: int | None,
    closed: bool,
    cuts: tuple[float, float],
) -> None:
    if bounds:
        start, end = (NOON + SECOND * s for s in sorted(bounds))
        schedule = replace(schedule, start_at=start, end_at=end)
    calendar = CalendarFields("UTC", (), [{"begins": "12:30", "ends": "13:10"}]) if closed else None
    due = make_due(
        make_work(), None, schedule=schedule, changed_at=NOON, jitter=SECOND * jitter_s, calendar=calendar,
        max_runs=max_runs,
    )  # fmt: skip
    middle, end_s = sorted(cuts)

    once = plan(due, until_s=end_s)
    first = plan(due, until_s=middle)
    rows = first.rows
    if first.next_scheduled_for is not None and (max_runs is None or first.fired < max_runs):
        rest = DueJob(replace(due.job, fired=first.fired), first.next_scheduled_for)
        rows = rows + plan(rest, until_s=end_s).rows

    def told(rows: list[PlannedRow]) -> list[tuple[Any, ...]]:
        return sorted((row.fire.scheduled_for, row.fire.fire_at, row.state, row.reason, row.covers) for row in rows)

    assert told(rows) == told(once.rows)
