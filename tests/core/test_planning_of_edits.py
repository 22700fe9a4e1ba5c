"""Plans after an edit: what becomes of the old schedule's occurrences, and where the new one begins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from scheduling.core.closed_times import CalendarFields
from scheduling.core.definition import ScheduleFields
from scheduling.core.due import DueJob, Superseded
from scheduling.core.fire import MisfirePolicy, State
from scheduling.testing.clock import NOON
from tests.claims import SECOND, every, make_due, make_work
from tests.core.plans import cron, plan, seconds


def edited(old: ScheduleFields, new: ScheduleFields, *, after_s: float, at_s: float, **values: Any) -> DueJob:
    """A job of ``new`` since ``at_s``, whose ``old`` schedule has rows up to ``after_s``; seconds after noon."""
    jitter = values.pop("old_jitter", timedelta(0))
    old_ = Superseded(old, jitter, NOON + SECOND * after_s, NOON + SECOND * at_s)
    work = values.pop("work", make_work())
    return make_due(work, None, schedule=new, changed_at=NOON + SECOND * at_s, superseded=(old_,), **values)


def test_an_edit_keeps_what_both_schedules_have_and_records_the_rest() -> None:
    due = edited(cron("0,5,10 12 * * *"), cron("5,20 12 * * *"), after_s=-1, at_s=660)
    assert seconds(plan(due, at_s=660, until_s=661)) == [
        (0, "skipped superseded"),
        (600, "skipped superseded"),
        (300, "claimed"),
    ]


def test_an_edit_creates_nothing_before_itself() -> None:
    due = edited(cron("50 12 * * *"), cron("0,5,10 12 * * *"), after_s=-1, at_s=660)
    found = plan(due, at_s=660, until_s=661)
    assert (found.rows, found.next_scheduled_for) == ([], NOON + timedelta(days=1))


def test_what_is_kept_for_a_later_fire_time_waits_for_it_without_a_number_in_front_of_others() -> None:
    jitter = timedelta(minutes=10)
    due = edited(every(3600), every(1800), after_s=-1, at_s=1, old_jitter=jitter)
    row = plan(due, at_s=1, until_s=2).rows[0]
    assert (row.state, row.reason, row.fire.scheduled_for) == (State.RETRY_WAIT, "", NOON)
    assert row.wake_at == row.fire.fire_at > NOON + SECOND * 2


def test_of_two_edits_each_is_looked_at_and_only_the_last_schedule_keeps() -> None:
    first = Superseded(cron("0,1 12 * * *"), timedelta(0), NOON - SECOND, NOON + SECOND * 90)
    second = Superseded(cron("2,3 12 * * *"), timedelta(0), NOON + SECOND * 90, NOON + SECOND * 200)
    due = make_due(
        make_work(),
        None,
        schedule=cron("1,3,4 12 * * *"),
        changed_at=NOON + SECOND * 200,
        superseded=(first, second),
    )
    assert seconds(plan(due, at_s=200, until_s=240)) == [
        (0, "skipped superseded"),
        (120, "skipped superseded"),
        (60, "claimed"),
        (180, "claimed"),
        (240, "claimed"),
    ]


def test_an_outage_with_an_edit_in_it_is_one_backlog_for_the_policy() -> None:
    work = make_work(misfire=MisfirePolicy.LATEST, catch_up_limit=3)
    due = edited(every(60), every(30), after_s=-1, at_s=3600, work=work)
    found = plan(due, at_s=7200, until_s=7160)
    assert [s for s, what in seconds(found) if what == "claimed"] == [7140]
    assert sum(row.covers for row in found.rows) == 61 + 118


@pytest.mark.parametrize("policy", MisfirePolicy)
def test_what_may_have_been_claimed_ahead_of_an_edit_is_summed_up_with_nothing(policy: MisfirePolicy) -> None:
    """It may have a row, which stays; a row of many that began with it would meet that one, and be dropped."""
    work = make_work(misfire=policy, catch_up_limit=1)
    found = plan(make_due(work, None, schedule=every(0.5), changed_at=NOON), at_s=3600, until_s=3601)
    (rest,) = (row for row in found.rows if row.covers > 1)
    assert rest.fire.scheduled_for == NOON + SECOND * 1.5
    assert {0.5, 1.0} <= {s for s, _ in seconds(found)}
    assert sum(row.covers for row in found.rows) == 7202


def test_of_many_late_ones_the_newest_fires_also_where_the_next_is_late_by_the_grace_to_the_microsecond() -> None:
    work = make_work(misfire=MisfirePolicy.LATEST, catch_up_limit=1, misfire_grace_s=30)
    found = plan(make_due(work, schedule=every(0.5)), at_s=3600, until_s=3600)
    assert [s for s, what in seconds(found) if what == "claimed"] == [3569.5 + 0.5 * n for n in range(62)]


def test_an_old_schedule_that_was_impossible_does_not_hinder_the_one_that_mends_it() -> None:
    due = edited(cron("61 * * * *"), every(60), after_s=-1, at_s=30)
    found = plan(due, at_s=30, until_s=60)
    assert (seconds(found), found.problem) == ([(60, "claimed")], "")


def test_an_edit_that_cannot_be_read_supersedes_what_was_to_come_before_it() -> None:
    first = Superseded(every(60), timedelta(0), NOON - SECOND, NOON + SECOND * 150)
    impossible = Superseded(cron("62 * * * *"), timedelta(0), NOON + SECOND * 150, NOON + SECOND * 160)
    second = Superseded(every(100), timedelta(0), NOON + SECOND * 160, NOON + SECOND * 250)
    due = make_due(
        make_work(),
        None,
        schedule=cron("61 * * * *"),
        changed_at=NOON + SECOND * 250,
        superseded=(first, impossible, second),
    )
    found = plan(due, at_s=250, until_s=251)
    assert seconds(found) == [(s, "skipped superseded") for s in (0, 60, 120, 200)]
    assert found.problem.startswith("cron '61 * * * *'")
    assert found.next_fire_at is None


def test_what_an_edit_that_cannot_be_read_supersedes_is_accounted_for_within_the_limit() -> None:
    for limit in (3, 0):  # a limit of 0 is itself a reason to put the job aside
        due = edited(every(60), cron("61 * * * *"), after_s=-1, at_s=3599, work=make_work(catch_up_limit=limit))
        found = plan(due, at_s=3599, until_s=3601)
        assert sum(row.covers for row in found.rows) == 60
        assert len(found.rows) == limit + 2  # the first, the newest, and one for those between


def test_a_calendar_that_cannot_be_read_supersedes_what_was_to_come_before_it() -> None:
    nowhere = CalendarFields("Mars/Olympus", (), [])
    found = plan(edited(every(60), every(60), after_s=-1, at_s=90, calendar=nowhere), at_s=90, until_s=91)
    assert seconds(found) == [(0, "skipped superseded"), (60, "skipped superseded")]
    assert "Mars/Olympus" in found.problem
