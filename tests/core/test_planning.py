from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduling.core.definition import Kind, ScheduleFields
from scheduling.core.fire import MisfirePolicy, State
from scheduling.core.identity import fire_id
from scheduling.core.planning import DueJob, JobPlan, plan_job
from scheduling.testing.clock import NOON, ManualClock
from tests.claims import SECOND, every, make_due, make_work


def plan(due: DueJob, *, until_s: float = 1.0, at_s: float = 0.0) -> JobPlan:
    """The plan that is made ``at_s`` seconds after noon, for what is due up to ``until_s`` seconds after it."""
    clock, numbers = ManualClock(), count(1)
    clock.advance(at_s)
    return plan_job(due, until=NOON + SECOND * until_s, clock=clock, number=lambda _: (7, next(numbers)))


def seconds(plan: JobPlan) -> list[tuple[float, str]]:
    """The rows of a plan: seconds after noon, and the state with its reason."""
    return [((row.fire.scheduled_for - NOON).total_seconds(), f"{row.state} {row.reason}".strip()) for row in plan.rows]


def test_every_occurrence_in_the_window_gets_a_row_and_the_schedule_goes_on_behind_it() -> None:
    found = plan(make_due(make_work(), schedule=every(0.25)), until_s=1.0)
    assert seconds(found) == [(s, "claimed") for s in (0, 0.25, 0.5, 0.75, 1.0)]
    assert found.next_scheduled_for == found.next_fire_at == NOON + SECOND * 1.25
    assert [(row.fire.epoch, row.fire.seq) for row in found.rows] == [(7, n) for n in range(1, 6)]


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
