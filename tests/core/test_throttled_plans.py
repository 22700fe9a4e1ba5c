"""What becomes of occurrences whose tenant was held: later, never lost, and never a misfire for that."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.due import DueJob
from scheduling.core.fire import MisfirePolicy, State
from scheduling.core.jitter import jittered
from scheduling.core.judged_plan import THROTTLED_AT_A_TIME, plan_job
from scheduling.core.lateness import Lateness
from scheduling.core.planning import plan_jobs
from scheduling.core.plans import JobPlan
from scheduling.testing.clock import NOON, ManualClock
from tests.claims import SECOND, every, make_due, make_work
from tests.core.plans import seconds

HELD_S, GRACE_S = 1000.0, 30.0
POLICIES = st.sampled_from(MisfirePolicy)


def due(policy: str, *, every_s: float = 60.0, at_s: float = 0.0, jitter_s: float = 0.0) -> DueJob:
    work = make_work(misfire=MisfirePolicy(policy), misfire_grace_s=GRACE_S)
    at, jitter = NOON + SECOND * at_s, timedelta(seconds=jitter_s)
    fire_at = jittered(work.job_id, at, jitter, at + SECOND * every_s)
    return make_due(work, at, schedule=every(every_s, anchor=NOON), next_fire_at=fire_at, jitter=jitter)


def planned(due: DueJob, *, at_s: float, since_s: float | None, ahead_s: float = 1.0) -> JobPlan:
    """The plan that is made then, by the way that a claim goes."""
    clock = ManualClock()
    clock.advance(at_s)
    held = {} if since_s is None else {(due.work.tenant_id, due.work.shard): NOON + SECOND * since_s}
    until = clock.now() + SECOND * ahead_s
    (plan,) = plan_jobs([due], until=until, clock=clock, number=lambda _: (1, 1), room=1000, held=held)
    return plan


def test_lateness_does_not_count_what_lies_in_the_hold() -> None:
    clock = ManualClock()
    clock.advance(500)
    late = Lateness(clock, NOON + SECOND * 100)
    assert [late.own_s(NOON + SECOND * at) for at in (0, 90, 100, 400, 510)] == [100, 10, 0, 0, -10]
    assert [late.is_throttled(NOON + SECOND * at, 30.0) for at in (0, 90, 100, 469, 470, 510)] == [
        False, True, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize("policy", ["latest", "earliest", "all", "skip"])
def test_a_single_occurrence_of_a_held_tenant_runs_however_late(policy: str) -> None:
    work = make_work(misfire=MisfirePolicy(policy))
    plan = planned(make_due(work, NOON, next_fire_at=NOON), at_s=HELD_S, since_s=0)
    assert seconds(plan) == [(0, "claimed")]
    assert plan.is_plain


def test_recurrences_of_a_held_job_coalesce_as_its_policy_says() -> None:
    assert seconds(planned(due("latest"), at_s=150, since_s=0)) == [
        (0, "skipped throttled"),
        (60, "claimed"),
        (120, "claimed"),  # within its grace
    ]
    assert sorted(seconds(planned(due("earliest"), at_s=220, since_s=0))) == [
        (0, "claimed"),
        (60, "skipped throttled"),
        (120, "skipped throttled"),
        (180, "skipped throttled"),
    ]


@pytest.mark.parametrize("policy", ["all", "skip"])
def test_under_the_policies_that_want_each_of_them_all_run_some_at_a_time(policy: str) -> None:
    job, ran = due(policy), []
    while job.next_fire_at is not None and job.next_fire_at <= NOON + SECOND * HELD_S * 4:
        plan = planned(job, at_s=HELD_S * 4, since_s=0)
        assert len(plan.rows) <= THROTTLED_AT_A_TIME + 2  # those in their grace are not counted
        assert {row.state for row in plan.rows} == {State.CLAIMED}
        ran += [at for at, _ in seconds(plan)]
        job = DueJob(job.job, plan.next_scheduled_for, plan.next_fire_at)
    assert ran == [60.0 * n for n in range(67)]


def test_what_was_late_before_the_hold_is_a_misfire_as_ever() -> None:
    plan = planned(due("skip"), at_s=400, since_s=200)
    assert seconds(plan) == [
        (0, "skipped missed"), (60, "skipped missed"), (120, "skipped missed"),
        (180, "claimed"), (240, "claimed"), (300, "claimed"), (360, "claimed"),
    ]  # fmt: skip
    assert seconds(planned(due("latest"), at_s=400, since_s=200)) == [
        (0, "skipped coalesced"), (60, "skipped coalesced"), (120, "skipped coalesced"),
        (180, "skipped throttled"), (240, "skipped throttled"), (300, "skipped throttled"), (360, "claimed"),
    ]  # fmt: skip


def test_a_long_hold_of_a_fast_job_costs_few_rows() -> None:
    plan = planned(due("latest", every_s=1.0), at_s=86_400, since_s=10)
    reasons = {row.reason for row in plan.rows if row.state is State.SKIPPED}
    assert reasons == {"throttled"} | ({"coalesced"} & reasons)
    assert len(plan.rows) < 200
    assert sum(row.covers for row in plan.rows) == 86_402


@given(
    POLICIES,
    st.sampled_from([0.0, 0.0, 20.0, 200.0]),
    st.floats(0, 3000),
    st.one_of(st.none(), st.floats(-100, 3000)),
    st.sampled_from([7.0, 60.0, 600.0]),
)
def test_each_occurrence_is_accounted_for_once_whatever_the_hold(
    policy: MisfirePolicy, jitter_s: float, at_s: float, since_s: float | None, every_s: float
) -> None:
    job = due(policy, every_s=every_s, jitter_s=jitter_s)
    until, seen = NOON + SECOND * (at_s + 1), 0
    while job.next_fire_at is not None and job.next_fire_at <= until:
        plan = planned(job, at_s=at_s, since_s=since_s)
        assert plan.rows
        seen += sum(row.covers for row in plan.rows)
        starts = sorted(row.fire.scheduled_for for row in plan.rows)
        assert all(one < other for one, other in pairwise(starts))
        assert plan.next_scheduled_for is not None
        assert plan.next_scheduled_for == NOON + SECOND * every_s * seen
        if policy in (MisfirePolicy.ALL, MisfirePolicy.SKIP) and since_s is not None and since_s <= 0:
            assert not [row for row in plan.rows if row.state is State.SKIPPED]
        job = DueJob(job.job, plan.next_scheduled_for, plan.next_fire_at)


@given(POLICIES, st.floats(0, 900), st.floats(-50, 900), st.sampled_from([7.0, 60.0]))
def test_the_short_way_to_the_plan_of_a_held_job_says_what_the_long_one_says(
    policy: MisfirePolicy, at_s: float, since_s: float, every_s: float
) -> None:
    job = due(policy, every_s=every_s)
    clock = ManualClock()
    clock.advance(at_s)
    short = planned(job, at_s=at_s, since_s=since_s)
    until, since = clock.now() + SECOND, NOON + SECOND * since_s
    long = plan_job(job, until=until, clock=clock, held_since=since)
    assert seconds(short) == seconds(long)
    assert (short.next_scheduled_for, short.next_fire_at) == (long.next_scheduled_for, long.next_fire_at)
