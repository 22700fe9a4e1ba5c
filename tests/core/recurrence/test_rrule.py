"""Recurrence rules: against dateutil walked from DTSTART, and what we add to it (zones, bounds, refusals)."""

import time
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from dateutil import rrule as dateutil_rrule
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence import RRule, occurrences

START = datetime(2026, 1, 29, 9, 30, tzinfo=UTC)
FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY")
FORBIDDEN = {"BYWEEKNO": "MONTHLY WEEKLY DAILY HOURLY", "BYYEARDAY": "MONTHLY WEEKLY DAILY", "BYMONTHDAY": "WEEKLY"}


def numbers(low: int, high: int) -> st.SearchStrategy[str]:
    return st.lists(st.integers(low, high).filter(bool).map(str), min_size=1, max_size=3).map(",".join)


PARTS = {
    "BYMONTH": numbers(1, 12),
    "BYMONTHDAY": st.one_of(numbers(1, 31), numbers(-31, -1)),
    "BYYEARDAY": st.one_of(numbers(1, 366), numbers(-366, -1)),
    "BYWEEKNO": st.one_of(numbers(1, 53), numbers(-53, -1)),
    "BYHOUR": numbers(1, 23),
    "BYMINUTE": numbers(1, 59),
    "BYSECOND": numbers(1, 59),
    "BYSETPOS": st.one_of(numbers(1, 5), numbers(-5, -1)),
    "WKST": st.sampled_from(["MO", "SU", "WE"]),
}


@st.composite
def rules(draw: st.DrawFn) -> str:
    freq = draw(st.sampled_from(FREQUENCIES))
    parts = [f"FREQ={freq}", f"INTERVAL={draw(st.integers(1, 7))}"]
    if freq == "MINUTELY":
        return ";".join(parts)
    allowed = [name for name in PARTS if freq not in FORBIDDEN.get(name, "")]
    chosen = draw(st.lists(st.sampled_from(allowed), unique=True, max_size=3))
    if draw(st.booleans()):
        counted = freq in ("MONTHLY", "YEARLY") and "BYWEEKNO" not in chosen and draw(st.booleans())
        nth = ["1", "+2", "-1", "3"] if counted else [""]
        day = st.tuples(st.sampled_from(nth), st.sampled_from(["MO", "TU", "WE", "TH", "FR", "SA", "SU"])).map("".join)
        parts.append("BYDAY=" + draw(st.lists(day, min_size=1, max_size=3).map(",".join)))
    parts += [f"{name}={draw(PARTS[name])}" for name in chosen]
    return ";".join(parts)


@settings(max_examples=200, deadline=None)
@given(
    rules(),
    st.integers(0, 366 * 86_400).map(lambda second: START + timedelta(seconds=second)),
    st.integers(0, 900),
    st.one_of(st.just(""), st.integers(1, 50).map(lambda count: f";COUNT={count}")),
)
def test_it_gives_what_dateutil_gives_from_dtstart_on(rule, start, later, count):
    try:
        schedule = RRule(rule + count, start)
    except InvalidField as refusal:
        assume(not any(said in refusal.problem for said in ("never fires", "contradict", "BYSETPOS needs")))
        raise
    hours = {"HOURLY": 1, "MINUTELY": 0.1}.get(rule.partition(";")[0].removeprefix("FREQ="), 24)
    after = start + later * timedelta(hours=hours) - timedelta(seconds=1)
    found = list(islice(occurrences(schedule, after=after, until=after + timedelta(days=1500)), 40))
    theirs = dateutil_rrule.rrulestr(rule + count, dtstart=start.replace(tzinfo=None))
    aware = (moment.replace(tzinfo=UTC) for moment in theirs)
    assert found == list(islice((moment for moment in aware if moment > after), len(found)))
    if count:
        assert list(occurrences(schedule, after=after, until=datetime(9990, 1, 1, tzinfo=UTC))) == [
            moment.replace(tzinfo=UTC) for moment in theirs if moment.replace(tzinfo=UTC) > after
        ]


def fires(rule: str, tz: str, start: str, count: int = 3, **options) -> list[str]:
    """The first occurrences, on the clock of the zone."""
    schedule = RRule(rule, datetime.fromisoformat(start), tz, **options)
    found = occurrences(schedule, after=datetime(1990, 1, 1, tzinfo=UTC), until=datetime(9990, 1, 1, tzinfo=UTC))
    return [f"{moment.astimezone(ZoneInfo(tz)):%Y-%m-%d %H:%M %z}" for moment in islice(found, count)]


def test_a_daily_rule_keeps_the_wall_clock_through_a_gap_and_a_fold():
    assert fires("FREQ=DAILY", "America/New_York", "2026-03-07T02:30:00-05:00") == [
        "2026-03-07 02:30 -0500",
        "2026-03-08 03:00 -0400",
        "2026-03-09 02:30 -0400",
    ]
    assert (
        fires("FREQ=DAILY", "America/New_York", "2026-03-07T02:30:00-05:00", 2, gap="shift")[1]
        == "2026-03-08 03:30 -0400"
    )
    assert (
        fires("FREQ=DAILY", "America/New_York", "2026-03-07T02:30:00-05:00", 2, gap="skip")[1]
        == "2026-03-09 02:30 -0400"
    )
    assert fires("FREQ=DAILY", "America/New_York", "2026-10-31T01:30:00-04:00", fold="both") == [
        "2026-10-31 01:30 -0400",
        "2026-11-01 01:30 -0400",
        "2026-11-01 01:30 -0500",
    ]


def test_an_hourly_rule_follows_real_time_through_a_fold():
    assert fires("FREQ=HOURLY", "America/New_York", "2026-11-01T00:30:00-04:00", 4) == [
        "2026-11-01 00:30 -0400",
        "2026-11-01 01:30 -0400",
        "2026-11-01 01:30 -0500",
        "2026-11-01 02:30 -0500",
    ]


def test_exdates_in_utc_and_on_the_wall_are_left_out_and_count_as_given():
    text = "RRULE:FREQ=DAILY;COUNT=5\nEXDATE:20260105T080000Z\nEXDATE;TZID=Europe/Paris:20260107T090000,20260108T090000"
    assert fires(text, "Europe/Paris", "2026-01-05T09:00:00+01:00", 9) == [
        "2026-01-06 09:00 +0100",
        "2026-01-09 09:00 +0100",
    ]


def test_dtstart_may_stand_in_the_text():
    text = "DTSTART;TZID=Europe/Paris:20260105T090000\nRRULE:FREQ=WEEKLY;BYDAY=MO,TH"
    schedule = RRule(text, tz="Europe/Paris")
    assert schedule.next_after(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 5, 8, tzinfo=UTC)
    assert schedule == RRule(text, tz="Europe/Paris")


def test_nothing_comes_before_the_start_though_its_week_began_earlier():
    assert fires("FREQ=WEEKLY;BYDAY=MO,WE,FR", "UTC", "2026-01-07T09:00:00+00:00") == [
        "2026-01-07 09:00 +0000",
        "2026-01-09 09:00 +0000",
        "2026-01-12 09:00 +0000",
    ]


@pytest.mark.parametrize("count", ["", ";COUNT=3"])
def test_bysetpos_chooses_from_what_is_left_of_the_first_week_with_count_and_without(count):
    start, text = datetime(2026, 3, 4, 9, tzinfo=UTC), "FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=1" + count  # a Wednesday
    theirs = dateutil_rrule.rrulestr(text, dtstart=start.replace(tzinfo=None))
    found = islice(
        occurrences(RRule(text, start), after=start - timedelta(days=1), until=start + timedelta(days=90)), 3
    )
    assert [at.replace(tzinfo=None) for at in found] == list(islice(theirs, 3))


def test_until_is_a_moment_or_the_end_of_a_day():
    start = "2026-01-05T09:00:00+01:00"
    assert len(fires("FREQ=DAILY;UNTIL=20260107T080000Z", "Europe/Paris", start, 9)) == 3
    assert len(fires("FREQ=DAILY;UNTIL=20260107T075959Z", "Europe/Paris", start, 9)) == 2
    assert len(fires("FREQ=DAILY;UNTIL=20260107", "Europe/Paris", start, 9)) == 3


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;INTERVAL=12;BYMONTHDAY=30",
        "FREQ=YEARLY;BYWEEKNO=53;BYYEARDAY=100",
        "FREQ=YEARLY;BYDAY=1MO;BYMONTHDAY=20;BYMONTH=3",
        "FREQ=MONTHLY;BYDAY=5MO;BYMONTHDAY=1",
        "FREQ=YEARLY;INTERVAL=10000;BYMONTH=2;BYMONTHDAY=29",
    ],
)
def test_what_never_fires_is_refused_at_once(rule):
    began = time.process_time()
    with pytest.raises(InvalidField, match="never fires"):
        RRule(rule, datetime(2026, 2, 1, tzinfo=UTC))
    assert time.process_time() - began < 0.25  # dateutil alone: many seconds


def test_asking_a_century_after_the_start_costs_no_walk_from_it():
    schedule = RRule("FREQ=MINUTELY;INTERVAL=7", datetime(1970, 1, 1, tzinfo=UTC))
    began = time.process_time()
    assert schedule.next_after(datetime(2100, 1, 1, tzinfo=UTC)) == datetime(2100, 1, 1, 0, 2, tzinfo=UTC)
    assert time.process_time() - began < 0.1


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("", "0 rules"),
        ("FREQ=SECONDLY", "SECONDLY"),
        ("FREQ=HOURLYISH", "'HOURLYISH'"),
        ("INTERVAL=2", "FREQ None"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL '0'"),
        ("FREQ=DAILY;INTERVAL=x", "INTERVAL 'X'"),
        ("FREQ=DAILY;FREQ=DAILY", "stands twice"),
        ("FREQ=DAILY;COUNT=10001", "COUNT '10001'"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20270101", "exclude each other"),
        ("FREQ=DAILY;UNTIL=tomorrow", "'TOMORROW'"),
        ("FREQ=DAILY;UNTIL=20260230", "'20260230'"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR '24'"),
        ("FREQ=DAILY;BYHOUR=-1", "BYHOUR '-1'"),
        ("FREQ=DAILY;BYHOUR=", "'BYHOUR='"),
        ("FREQ=DAILY;BYFOO=1", "'BYFOO'"),
        ("FREQ=DAILY;", "''"),
        ("FREQ=DAILY;BYDAY=2MO", "'2MO'"),
        ("FREQ=MONTHLY;BYDAY=XX", "'XX'"),
        ("FREQ=MONTHLY;BYDAY=0MO", "'0MO'"),
        ("FREQ=MONTHLY;BYDAY=MO,2TU", "mixes"),
        ("FREQ=YEARLY;BYDAY=2TU;BYWEEKNO=3", "BYDAY with numbers"),
        ("FREQ=MONTHLY;BYWEEKNO=3", "BYWEEKNO has no meaning"),
        ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS needs"),
        ("FREQ=DAILY;WKST=XX", "WKST 'XX'"),
        ("FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30", "MINUTELY with BYMONTH"),
        ("RRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY", "2 rules"),
        ("RRULE:FREQ=DAILY\nRDATE:20260101", "'RDATE'"),
        ("RRULE:FREQ=DAILY\nEXDATE;TZID=Mars/Base:20260101", "'MARS/BASE'"),
        ("RRULE:FREQ=DAILY\nEXDATE;X=1:20260101", "'X=1'"),
        ("FREQ=HOURLY;INTERVAL=2;BYHOUR=1", "contradict"),
        ("FREQ=DAILY;" + "BYHOUR=1" * 2000, "longer than"),
    ],
)
def test_a_malformed_rule_is_refused_and_the_part_is_shown(rule, problem):
    with pytest.raises(InvalidField) as refusal:
        RRule(rule, datetime(2026, 1, 1, tzinfo=UTC))
    assert refusal.value.field == "rrule"
    assert problem in refusal.value.problem


def test_a_start_is_needed_once():
    with pytest.raises(InvalidField, match="dtstart None: is needed"):
        RRule("FREQ=DAILY")
    with pytest.raises(InvalidField, match="beside a DTSTART"):
        RRule("DTSTART:20260101\nRRULE:FREQ=DAILY", datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidField, match=r"dtstart .* has no time zone"):
        RRule("FREQ=DAILY", datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None))
