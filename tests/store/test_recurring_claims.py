"""Schedules of every kind, claimed in Postgres: what gets a row, what it says, and what comes next."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from scheduling.models import Calendar, Fire, Job
from scheduling.store.bucketed import BucketedStore
from scheduling.store.postgres import PostgresStore
from tests.store.owner import Owner, covered, next_of, rows

TASK = "tests.none"
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture(params=[PostgresStore, BucketedStore])
def owner(request: pytest.FixtureRequest, committed_db: None) -> Iterator[Owner]:
    owner = Owner(NOON - MINUTE, make=request.param)
    yield owner
    owner.store.close()


# -- misfires: an outage from 11:59 to 12:50, every ten minutes -------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            {"misfire": "latest"},
            ["12:00:00 skipped coalesced", "12:10:00 skipped coalesced", "12:20:00 skipped coalesced",
             "12:30:00 skipped coalesced", "12:40:00 claimed", "12:50:00 claimed"],
        ),
        (
            {"misfire": "earliest"},
            ["12:00:00 claimed", "12:10:00 skipped coalesced", "12:20:00 skipped coalesced",
             "12:30:00 skipped coalesced", "12:40:00 skipped coalesced", "12:50:00 claimed"],
        ),
        (
            {"misfire": "all", "catch_up_window": timedelta(minutes=25)},
            ["12:00:00 skipped missed", "12:10:00 skipped missed", "12:20:00 skipped missed", "12:30:00 claimed",
             "12:40:00 claimed", "12:50:00 claimed"],
        ),
        (
            {"misfire": "all", "catch_up_limit": 2},
            ["12:00:00 skipped missed ×3", "12:30:00 claimed", "12:40:00 claimed", "12:50:00 claimed"],
        ),
        (
            {"misfire": "skip"},
            ["12:00:00 skipped missed", "12:10:00 skipped missed", "12:20:00 skipped missed",
             "12:30:00 skipped missed", "12:40:00 skipped missed", "12:50:00 claimed"],
        ),
        (
            {"misfire": "skip", "misfire_grace_s": 1500},
            ["12:00:00 skipped missed", "12:10:00 skipped missed", "12:20:00 skipped missed", "12:30:00 claimed",
             "12:40:00 claimed", "12:50:00 claimed"],
        ),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)  # fmt: skip
def test_after_an_outage_the_policy_decides_and_every_occurrence_has_its_row(
    policy: dict[str, Any], expected: list[str], owner: Owner
) -> None:
    job = owner.keeps(Job.objects.cron(TASK, "*/10 * * * *", **policy))
    owner.look(NOON + 50 * MINUTE)
    assert rows(job) == expected
    assert (covered(job), next_of(job)) == (6, "2026-03-02 13:00:00")


def test_a_week_down_is_caught_up_with_within_its_bounds_and_accounted_for(owner: Owner) -> None:
    job = owner.keeps(Job.objects.cron(TASK, "*/5 * * * *", misfire="all"))
    owner.look(NOON + timedelta(days=7))

    fired = Fire.objects.filter(job=job, state="claimed")
    assert fired.count() == 13  # catch_up_window is an hour, both ends in it
    assert Fire.objects.filter(job=job).count() <= 100 + 2
    assert covered(job) == 7 * 288 + 1
    (rest,) = Fire.objects.filter(job=job, covers__gt=1)
    assert (rest.state, rest.reason, rest.scheduled_for) == ("skipped", "missed", NOON)
    assert rest.covers_to == NOON + timedelta(days=7) - 101 * 5 * MINUTE


def test_an_instant_fires_once_and_completes_its_job(owner: Owner) -> None:
    job = Job.objects.once(TASK, NOON)
    owner.look(NOON)
    owner.look(NOON + MINUTE)
    assert (rows(job), next_of(job), Job.objects.get().next_fire_at) == (["12:00:00 claimed"], None, None)


# -- rules, bounds, calendars ---------------------------------------------------------------------------------------


def test_a_rule_leaves_out_its_exdates_without_a_trace(owner: Owner) -> None:
    rule = "RRULE:FREQ=HOURLY\nEXDATE:20260302T130000Z"
    job = owner.keeps(Job.objects.rrule(TASK, rule, dtstart=NOON))
    for hour in range(3):
        owner.look(NOON + timedelta(hours=hour))
    assert rows(job) == ["12:00:00 claimed", "14:00:00 claimed"]


def test_start_and_end_bound_what_is_claimed(owner: Owner) -> None:
    job = Job.objects.every(
        TASK, MINUTE, anchor=NOON - timedelta(days=1), start_at=NOON + MINUTE, end_at=NOON + 2 * MINUTE
    )
    assert next_of(job) == "2026-03-02 12:01:00"
    owner.look(NOON + MINUTE)
    owner.look(NOON + 2 * MINUTE)
    assert (rows(job), next_of(job)) == (["12:01:00 claimed", "12:02:00 claimed"], None)


def test_closed_times_are_rows_of_their_own_and_the_schedule_goes_on(owner: Owner) -> None:
    calendar = Calendar.objects.create(
        name="lunch", tz="Europe/Paris", days=[date(2026, 3, 3)], hours=[{"begins": "13:00", "ends": "13:02"}]
    )
    job = owner.keeps(Job.objects.cron(TASK, "*/1 * * * *", calendar=calendar))
    owner.look(NOON, ahead_s=120)
    assert rows(job) == ["12:00:00 skipped excluded", "12:01:00 skipped excluded", "12:02:00 claimed"]
    calendar.hours = []
    calendar.save()
    owner.look(NOON + 3 * MINUTE)
    assert rows(job)[3:] == ["12:03:00 claimed"]


def test_a_calendar_that_sql_broke_puts_its_jobs_aside_and_stops_no_other(owner: Owner) -> None:
    calendar = Calendar.objects.create(name="broken")
    broken = Job.objects.cron(TASK, "* * * * *", calendar=calendar)
    sound = Job.objects.cron(TASK, "* * * * *")
    Calendar.objects.update(tz="Mars/Olympus")
    owner.look(NOON)
    assert (rows(broken), rows(sound)) == (["12:00:00 skipped missed"], ["12:00:00 claimed"])
    assert Job.objects.get(pk=broken.pk).problem.startswith("calendar 'Mars/Olympus': tz: ")


# -- zone changes ---------------------------------------------------------------------------------------------------


def test_one_fire_stands_for_all_times_in_a_gap_and_lists_them(owner: Owner) -> None:
    owner.at(datetime(2026, 3, 8, 6, tzinfo=UTC))
    job = owner.keeps(Job.objects.cron(TASK, "0,15,30 2 * * *", tz="America/New_York"))
    plain = Job.objects.cron(TASK, "0 3 * * *", tz="America/New_York")
    owner.look(datetime(2026, 3, 8, 7, tzinfo=UTC))
    assert rows(job) == rows(plain) == ["07:00:00 claimed"]
    assert Fire.objects.get(job=job).nominal == "2026-03-08 02:00:00, 2026-03-08 02:15:00, 2026-03-08 02:30:00"
    assert Fire.objects.get(job=plain).nominal == ""


def test_a_time_that_comes_twice_fires_once_or_twice_as_its_job_says(owner: Owner) -> None:
    owner.at(datetime(2026, 11, 1, 4, tzinfo=UTC))
    jobs = {fold: Job.objects.cron(TASK, "30 1 * * *", tz="America/New_York", fold=fold) for fold in ("first", "both")}
    owner.look(datetime(2026, 11, 1, 5, 30, tzinfo=UTC))
    owner.look(datetime(2026, 11, 1, 6, 30, tzinfo=UTC))
    assert rows(jobs["first"]) == ["05:30:00 claimed"]
    assert rows(jobs["both"]) == ["05:30:00 claimed", "06:30:00 claimed"]


def test_an_interval_keeps_its_anchor_over_an_edit_unless_it_is_given_anew(owner: Owner) -> None:
    job = Job.objects.every(TASK, 10 * MINUTE, anchor=NOON - timedelta(days=1), name="poll")
    owner.at(NOON + 7 * MINUTE)
    Job.objects.declare(TASK, name="poll", every=15 * MINUTE)
    owner.look(NOON + 7 * MINUTE)
    assert next_of(job) == "2026-03-02 12:15:00"
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduling_job SET anchor = %s", [NOON + 8 * MINUTE])
    owner.look(NOON + 7 * MINUTE)
    assert next_of(job) == "2026-03-02 12:08:00"
