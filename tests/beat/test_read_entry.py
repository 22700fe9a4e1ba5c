"""What an entry of ``beat_schedule`` means as a job, what it cannot mean, and what is said about that."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.beat import BeatLazyFunc
from celery.schedules import BaseSchedule, crontab, schedule, solar
from kombu.utils.json import loads

from scheduling.core.clock import EPOCH
from scheduling.core.definition import JobDefinition, ScheduleFields
from scheduling.core.errors import InvalidField
from scheduling.core.fire import MisfirePolicy
from scheduling.core.recurrence import DayMatch, occurrences
from scheduling.services.read_entry import NO_LIMIT_S, cron_text, read_entry, read_schedule

Shop = Celery[Any]


def read(shop: Shop, **said: Any) -> JobDefinition:
    return read_entry(shop, "entry", {"task": "shop.report", "schedule": 60, **said}).definition


def notes(shop: Shop, **said: Any) -> str:
    return "; ".join(read_entry(shop, "entry", {"task": "shop.report", "schedule": 60, **said}).notes)


def schedule_of(shop: Shop, said: Any, **more: Any) -> ScheduleFields:
    return read(shop, schedule=said, **more).schedule


@pytest.mark.parametrize(
    ("said", "every"),
    [
        (30, timedelta(seconds=30)),
        (0.5, timedelta(milliseconds=500)),
        (timedelta(minutes=90), timedelta(minutes=90)),
        (schedule(10), timedelta(seconds=10)),
        (schedule(timedelta(hours=1), relative=True), timedelta(hours=1)),
    ],
    ids=str,
)
def test_what_repeats_becomes_an_interval_from_the_unix_epoch(shop: Shop, said: Any, every: timedelta) -> None:
    fields = schedule_of(shop, said)
    assert (fields.kind, fields.every, fields.anchor) == ("interval", every, EPOCH)


def test_relative_is_aligned_anyway_and_says_in_which_zone_where_that_may_differ(shop: Shop) -> None:
    assert schedule_of(shop, 3600, relative=True) == schedule_of(shop, 3600)
    assert "counted in UTC, not in Europe/Paris" in notes(shop, relative=True)
    assert "counted in UTC" in notes(shop, schedule=schedule(3600, relative=True))
    assert not notes(shop)


CRONTABS = [
    (crontab(), "* * * * *"),
    (crontab(minute="*/15", hour="8-17/2"), "*/15 8-17/2 * * *"),
    (crontab(minute=0, hour=4), "0 4 * * *"),
    (crontab(minute=0, hour=0, day_of_week="mon-fri"), "0 0 * * mon-fri"),
    (crontab(minute=0, hour=0, day_of_week="monday,saturday"), "0 0 * * 1,6"),  # Celery reads whole names
    (crontab(minute=0, hour="22-2"), "0 0-2,22-23 * * *"),
    (crontab(minute=0, hour=9, day_of_week="fri-mon"), "0 9 * * 0-1,5-6"),
    (crontab(minute=0, hour=9, month_of_year="nov-feb"), "0 9 * 1-2,11-12 *"),
    (crontab(minute=[0, 20, 40], hour=[8, 9]), "0,20,40 8-9 * * *"),
    (crontab(minute="1, 2", hour=3), "1-2 3 * * *"),
    (crontab(minute=0, hour=12, day_of_month="1-7,15-21", day_of_week="mon"), "0 12 1-7,15-21 * mon"),
    (crontab(minute=0, hour=12, day_of_month="*/10"), "0 12 */10 * *"),
]


@pytest.mark.parametrize(("said", "text"), CRONTABS, ids=[text for _, text in CRONTABS])
def test_a_crontab_becomes_an_expression_of_the_same_occurrences(shop: Shop, said: Any, text: str) -> None:
    shop.conf.update(timezone="UTC")
    fields = schedule_of(shop, said)
    assert (fields.kind, fields.cron, fields.day_match) == ("cron", text, DayMatch.AND)

    start = datetime(2026, 1, 30, 23, 59, tzinfo=UTC)
    ours = list(islice(occurrences(fields.build(), after=start, until=start + timedelta(days=400)), 20))
    assert ours == list(islice(minutes_of(said, start), 20))


def minutes_of(said: Any, moment: datetime) -> Any:
    """Every minute after ``moment`` of which Celery's fields all say yes."""
    while True:
        moment += timedelta(minutes=1)
        day = moment.day in said.day_of_month and moment.isoweekday() % 7 in said.day_of_week
        if day and moment.month in said.month_of_year and moment.hour in said.hour and moment.minute in said.minute:
            yield moment


def test_a_crontab_is_in_the_zone_of_the_app(shop: Shop) -> None:
    assert schedule_of(shop, crontab(minute=0, hour=9)).tz == "Europe/Paris"


def test_a_crontab_in_a_zone_without_a_name_is_refused(shop: Shop) -> None:
    shop.conf.update(timezone=UTC)
    with pytest.raises(InvalidField, match="no IANA name.*set the app's timezone"):
        schedule_of(shop, crontab())
    assert schedule_of(shop, 60).tz == "UTC"


class Custom(BaseSchedule):
    """A schedule of one's own."""


class CrontabOfOnesOwn(crontab):
    """A subclass may say anything."""


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (Custom(), "is none of a number of seconds"),
        (CrontabOfOnesOwn(), "is none of a number of seconds"),
        (crontab(nowfun=lambda: datetime(2026, 1, 1, tzinfo=UTC)), "has a clock of its own"),
        ("* * * * *", "is none of a number of seconds"),
        (None, "is none of a number of seconds"),
        (0, "is shorter than 100 ms"),
        (0.05, "is shorter than 100 ms"),
        (float("inf"), "is not a length of time"),
    ],
    ids=["custom", "subclass of crontab", "nowfun", "text", "nothing", "zero", "too short", "endless"],
)
def test_what_no_job_can_follow_is_refused_with_its_reason(shop: Shop, said: Any, problem: str) -> None:
    with pytest.raises(InvalidField, match=problem):
        read(shop, schedule=said)


def test_the_sun_is_refused(shop: Shop) -> None:
    sun: Any = solar.__new__(solar)  # made without the library that it needs
    sun.nowfun, sun.event, sun.lat, sun.lon = None, "sunset", 48.0, 2.0
    with pytest.raises(InvalidField, match="follows the sun"):
        read(shop, schedule=sun)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"task": None}, "task None"),
        ({"args": "abc"}, "args 'abc': is not a list"),
        ({"kwargs": [1]}, "is not a dictionary"),
        ({"options": [1]}, "is not a dictionary"),
        ({"crontab": "* * * * *"}, "no such key"),
        ({"args": [object()]}, "is not JSON"),
        ({"args": [BeatLazyFunc(date.today)]}, "is computed when it is sent"),
        ({"kwargs": {"day": BeatLazyFunc(date.today)}}, "is computed when it is sent"),
        ({"options": {"expires": -1}}, "expires_after"),
    ],
    ids=["task", "args", "kwargs", "options", "key", "no JSON", "lazy argument", "lazy keyword", "expires"],
)
def test_an_entry_that_cannot_be_a_job_is_refused(shop: Shop, said: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidField, match=problem):
        read(shop, **said)


def test_a_refused_entry_stops_no_other(shop: Shop) -> None:
    found = read_schedule(shop, {"good": {"task": "t", "schedule": 1}, "bad": {"task": "t"}, "worse": 7})
    assert list(found.entries) == ["good"]
    assert list(found.refused) == ["bad", "worse"]


def test_arguments_are_what_the_worker_reads_back(shop: Shop) -> None:
    key = UUID(int=7)
    definition = read(shop, args=(1, date(2026, 3, 2)), kwargs={"key": key, "deep": [(1, 2)]})
    assert loads(definition.args_json) == [1, date(2026, 3, 2)]
    assert loads(definition.kwargs_json) == {"key": key, "deep": [[1, 2]]}


def test_limits_are_those_that_celery_would_set(shop: Shop) -> None:
    assert read(shop).hard_timeout_s == JobDefinition.hard_timeout_s
    assert read(shop, task="shop.limited").hard_timeout_s == 90
    assert read(shop, task="shop.plain").hard_timeout_s == NO_LIMIT_S
    limited = read(shop, options={"time_limit": 120, "soft_time_limit": 60})
    assert (limited.hard_timeout_s, limited.soft_timeout_s) == (120, 60)
    shop.conf.task_time_limit = 45
    assert read(shop, task="shop.plain").hard_timeout_s == 45


def test_expires_in_seconds_is_the_expiry_of_each_occurrence(shop: Shop) -> None:
    assert read(shop, options={"expires": 90}).expires_after == timedelta(seconds=90)
    assert not notes(shop, options={"expires": 90})
    assert "@job" in notes(shop, task="shop.plain", options={"expires": 90})
    assert "give seconds" in notes(shop, options={"expires": datetime(2026, 1, 1, tzinfo=ZoneInfo("UTC"))})


def test_the_starting_deadline_of_crontabs_is_the_grace_of_a_job_that_skips(shop: Shop) -> None:
    shop.conf.beat_cron_starting_deadline = 300
    late = read(shop, schedule=crontab())
    assert (late.misfire, late.misfire_grace_s) == (MisfirePolicy.SKIP, 300)
    assert read(shop, schedule=60).misfire is MisfirePolicy.LATEST


def test_every_option_that_a_job_cannot_say_is_named(shop: Shop) -> None:
    options = {"queue": "reports", "priority": 5, "headers": {"a": 1}, "link": ["x"]}
    said = notes(shop, options=options)
    assert [name for name in options if f"{name} " in said] == list(options)
    assert not notes(shop, options={"queue": None, "priority": 0, "headers": {}, "time_limit": 5})


def test_add_periodic_task_says_the_same(shop: Shop) -> None:
    shop.add_periodic_task(crontab(minute=0, hour=5), shop.tasks["shop.plain"].s(1, key="v"), name="nightly")
    definition = read_entry(shop, "nightly", shop.conf.beat_schedule["nightly"]).definition
    assert (definition.task, definition.args, definition.kwargs) == ("shop.plain", [1], {"key": "v"})
    assert definition.schedule.cron == cron_text(crontab(minute=0, hour=5))
