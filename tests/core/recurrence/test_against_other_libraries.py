"""Cron beside cronsim and Celery's crontab: alike but for the differences that docs/semantics.md names, each shown
here.
"""

from datetime import UTC, datetime, timedelta
from itertools import takewhile
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import ParseException, crontab
from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence import Cron, occurrences
from tests.core.recurrence.test_cron_against_oracle import CHANGES, expressions

NEW_YORK = "America/New_York"
ODD = {"Africa/Monrovia"}  # an offset with seconds: cronsim looks for the end of a gap by minutes
# cronsim steps by whole hours from minute 0, and starts a day at a midnight that may not exist
OFF_THE_HOUR = {
    "Australia/Lord_Howe",
    "Asia/Pyongyang",
    "Asia/Kathmandu",
    "America/Sao_Paulo",
    "Asia/Beirut",
    "America/Havana",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "Antarctica/Casey",
}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def ours(expression: str, tz: str, after: datetime, until: datetime, **options: Any) -> list[datetime]:
    return list(occurrences(Cron(expression, tz, **options), after=after, until=until))


def cronsim(expression: str, tz: str, after: datetime, until: datetime) -> list[datetime]:
    found = (moment.astimezone(UTC) for moment in CronSim(expression, after.astimezone(ZoneInfo(tz))))
    return list(takewhile(lambda moment: moment <= until, found))


def celery(expression: str, tz: str, after: datetime, until: datetime) -> list[datetime]:
    minute, hour, day, month, weekday = expression.split()
    schedule = crontab(
        minute=minute, hour=hour, day_of_month=day, month_of_year=month, day_of_week=weekday, nowfun=lambda: after
    )
    vars(schedule)["_app"] = SimpleNamespace(timezone=ZoneInfo(tz), conf=SimpleNamespace(enable_utc=True))
    found: list[datetime] = []
    while True:
        last, delta, _ = schedule.remaining_delta(found[-1] if found else after, tz=ZoneInfo(tz))
        following = (last + delta).astimezone(UTC)
        if following > until:
            return found
        found.append(following)


def span(day: str) -> tuple[datetime, datetime]:
    noon = at(day) + timedelta(hours=12)
    return noon - timedelta(hours=36), noon + timedelta(hours=36)


def possible(expression: str, **options: Any) -> bool:
    try:
        Cron(expression, **options)
    except InvalidField:
        return False
    # a one-value range with a step: difference 1 with cronsim
    return not any(low == high for low, _, high in _stepped_ranges(expression))


def _stepped_ranges(expression: str) -> list[tuple[str, str, str]]:
    items = [item for field in expression.split() for item in field.split(",")]
    return [item.partition("/")[0].partition("-") for item in items if "/" in item and "-" in item]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([*CHANGES, ("UTC", "2026-03-08"), ("Asia/Kolkata", "2026-03-08")]), expressions())
def test_cronsim_agrees_but_where_it_is_said(change, expression):
    tz, day = change
    assume(possible(expression))
    elapsed = not Cron(expression, tz).line.wall_clock
    assume(tz not in ODD and not (elapsed and tz in OFF_THE_HOUR))
    assert ours(expression, tz, *span(day)) == cronsim(expression, tz, *span(day))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([("UTC", "2026-03-08"), ("Asia/Kolkata", "2026-03-08"), (NEW_YORK, "2026-01-15")]), expressions()
)
def test_celery_agrees_away_from_zone_changes_on_what_it_can_say(change, expression):
    tz, day = change
    assume("l" not in expression.replace("jul", "") and "#" not in expression and "7" not in expression.split()[4])
    assume(possible(expression, day_match="and"))
    assert ours(expression, tz, *span(day), day_match="and") == celery(expression, tz, *span(day))


def test_cronsim_1_a_step_on_a_range_of_one_value_reaches_to_the_maximum_there():
    after, until = at("2026-01-01"), at("2026-01-02")
    assert ours("17 9-9/5 * * *", "UTC", after, until) == [at("2026-01-01 09:17")]
    assert cronsim("17 9-9/5 * * *", "UTC", after, until) == [at(f"2026-01-01 {h}:17") for h in ("09", "14", "19")]


def test_cronsim_2_an_elapsed_schedule_loses_a_fire_where_the_clock_moves_by_half_an_hour():
    after, until = at("2026-10-03 14:00"), at("2026-10-03 17:00")  # Lord Howe skips 02:00 to 02:30 at 15:30 UTC
    assert ours("57 * * * *", "Australia/Lord_Howe", after, until) == [
        at("2026-10-03 14:27"),
        at("2026-10-03 15:27"),
        at("2026-10-03 15:57"),
        at("2026-10-03 16:57"),
    ]
    assert at("2026-10-03 15:57") not in cronsim("57 * * * *", "Australia/Lord_Howe", after, until)


def test_cronsim_3_an_elapsed_schedule_fires_at_an_hour_it_does_not_name_where_midnight_is_missing():
    after, until = at("2018-11-04 00:00"), at("2018-11-04 04:00")  # São Paulo skips 00:00 to 01:00 at 03:00 UTC
    assert ours("0 */14 * * */7", "America/Sao_Paulo", after, until) == []
    assert cronsim("0 */14 * * */7", "America/Sao_Paulo", after, until) == [at("2018-11-04 03:00")]


def test_cronsim_4_the_end_of_a_gap_is_found_to_the_minute_only():
    after, until = at("1972-01-07 00:00"), at("1972-01-07 12:00")  # Monrovia moves by 44 min 30 s
    assert ours("0 0 * * *", "Africa/Monrovia", after, until)[0] == at("1972-01-07 00:44:30")
    assert cronsim("0 0 * * *", "Africa/Monrovia", after, until)[0] == at("1972-01-07 00:45")


def test_cronsim_5_an_expression_that_never_fires_is_taken_there_and_searched_for_fifty_years():
    assert list(CronSim("0 0 */31 2 mon#2", at("2026-01-01"))) == []
    with pytest.raises(InvalidField, match="never fires"):
        Cron("0 0 */31 2 mon#2")


def test_cronsim_6_six_fields_are_wall_clock_here_too():
    after, until = at("2026-03-08 05:00"), at("2026-03-08 12:00")
    assert ours("0 30 2 * * *", NEW_YORK, after, until) == [at("2026-03-08 07:00")]
    assert cronsim("0 30 2 * * *", NEW_YORK, after, until) == []


def test_celery_1_both_day_fields_must_match_there():
    after, until = at("2026-02-01"), at("2026-02-28")
    assert celery("0 9 13 * fri", "UTC", after, until) == [at("2026-02-13 09:00")]
    assert ours("0 9 13 * fri", "UTC", after, until, day_match="and") == [at("2026-02-13 09:00")]
    assert len(ours("0 9 13 * fri", "UTC", after, until)) == 4


def test_celery_2_the_second_hour_of_a_fold_is_lost_there():
    after, until = at("2026-11-01 04:59"), at("2026-11-01 07:00")
    assert celery("0 * * * *", NEW_YORK, after, until) == [at("2026-11-01 05:00"), at("2026-11-01 07:00")]
    assert ours("0 * * * *", NEW_YORK, after, until) == [at(f"2026-11-01 0{hour}:00") for hour in (5, 6, 7)]


def test_celery_3_an_elapsed_schedule_fires_for_the_missing_hour_there():
    after, until = at("2026-03-08 05:00"), at("2026-03-08 08:00")
    assert celery("0 */2 * * *", NEW_YORK, after, until) == [at("2026-03-08 07:00"), at("2026-03-08 08:00")]
    assert ours("0 */2 * * *", NEW_YORK, after, until) == [at("2026-03-08 08:00")]


def test_celery_4_a_time_in_a_gap_is_shifted_there_and_the_later_ones_are_lost():
    after, until = at("2026-03-08 05:00"), at("2026-03-08 12:00")
    assert celery("10,40 2 * * *", NEW_YORK, after, until) == [at("2026-03-08 07:10")]
    assert ours("10,40 2 * * *", NEW_YORK, after, until) == [at("2026-03-08 07:00")]
    assert ours("10,40 2 * * *", NEW_YORK, after, until, gap="shift") == [
        at("2026-03-08 07:10"),
        at("2026-03-08 07:40"),
    ]


def test_celery_5_sunday_is_not_7_there_and_ranges_may_run_over_the_end():
    with pytest.raises((ParseException, ValueError)):
        crontab(day_of_week="5-7")
    assert vars(crontab(day_of_week="fri-mon"))["day_of_week"] == {5, 6, 0, 1}
    with pytest.raises(InvalidField, match="backwards"):
        Cron("0 0 * * fri-mon")
