"""What all kinds of schedules promise alike, and the two simple kinds."""

import pickle
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.clock import EPOCH
from scheduling.core.errors import InvalidField
from scheduling.core.recurrence import Cron, Interval, Once, RRule, occurrences
from scheduling.core.recurrence.calendar import Bounded

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SCHEDULES = [
    Once(NOON),
    Interval(timedelta(minutes=7), EPOCH),
    Interval(timedelta(milliseconds=1700), NOON),
    Cron("*/7 * * * *", "Europe/Paris"),
    Cron("30 2 * * *", "America/New_York", fold="both"),  # type: ignore[arg-type]
    Cron("17 0-23/3 * * 1-5", "Australia/Lord_Howe", gap="shift"),  # type: ignore[arg-type]
    Cron("0 0 L * *", "Pacific/Apia"),
    RRule("FREQ=WEEKLY;BYDAY=MO,SA;BYHOUR=2,3", datetime(2020, 1, 1, tzinfo=UTC), "Europe/London"),
    RRule("FREQ=HOURLY;COUNT=5000;INTERVAL=5", datetime(2026, 1, 1, tzinfo=UTC), "Europe/London"),
    Bounded(Cron("5 4 * * *", "Asia/Beirut"), start_at=NOON - timedelta(days=9), end_at=NOON + timedelta(days=9)),
]
moments = st.integers(-20 * 86_400_000_000, 20 * 86_400_000_000).map(lambda us: NOON + us * MICROSECOND)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_the_next_is_strictly_after_and_nothing_lies_between(schedule):
    @settings(max_examples=30, deadline=None)
    @given(moments)
    def holds(moment):
        following = schedule.next_after(moment)
        if following is not None:
            assert following > moment
            assert following.tzinfo is UTC
            assert schedule.next_after(following - MICROSECOND) == following
            middle = moment + (following - moment) / 2
            assert schedule.next_after(middle) == following or middle == following

    holds()


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_a_span_is_the_sum_of_its_parts_and_holds_none_twice(schedule):
    @settings(max_examples=15, deadline=None)
    @given(st.lists(moments, min_size=3, max_size=3).map(sorted))
    def holds(ends):
        first, middle, last = (max(NOON - timedelta(days=3), min(end, NOON + timedelta(days=3))) for end in ends)
        whole = list(occurrences(schedule, after=first, until=last))
        halves = [*occurrences(schedule, after=first, until=middle), *occurrences(schedule, after=middle, until=last)]
        assert whole == halves
        assert all(earlier < later for earlier, later in pairwise(whole))
        assert all(first < moment <= last for moment in whole)

    holds()


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_a_schedule_is_a_value(schedule):
    copy = pickle.loads(pickle.dumps(schedule))
    assert copy == schedule
    assert hash(copy) == hash(schedule)
    assert copy.next_after(EPOCH) == schedule.next_after(EPOCH)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_a_naive_moment_is_refused_and_any_zone_is_taken(schedule):
    with pytest.raises(InvalidField, match=r"moment .* has no time zone"):
        schedule.next_after(NOON.replace(tzinfo=None))
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert schedule.next_after(elsewhere) == schedule.next_after(NOON)


def test_a_walk_is_lazy_and_refuses_naive_ends_at_once():
    every_second = Cron("* * * * * *")
    endless = occurrences(every_second, after=NOON, until=datetime(9999, 1, 1, tzinfo=UTC))
    assert next(endless) == NOON + timedelta(seconds=1)
    with pytest.raises(InvalidField, match="after"):
        occurrences(every_second, after=NOON.replace(tzinfo=None), until=NOON)
    with pytest.raises(InvalidField, match="until"):
        occurrences(every_second, after=NOON, until=NOON.replace(tzinfo=None))


def test_once_is_one_instant():
    assert Once(NOON).next_after(NOON - MICROSECOND) == NOON
    assert Once(NOON).next_after(NOON) is None
    assert Once(NOON.astimezone(timezone(timedelta(hours=2)))) == Once(NOON)
    with pytest.raises(InvalidField, match=r"at .* has no time zone"):
        Once(NOON.replace(tzinfo=None))
    with pytest.raises(InvalidField, match="at 'noon': is not a datetime"):
        Once("noon")  # type: ignore[arg-type]


def test_an_interval_counts_from_its_anchor_which_is_the_first():
    quarter = Interval(timedelta(minutes=15), NOON)
    assert quarter.next_after(NOON - timedelta(days=400)) == NOON
    assert quarter.next_after(NOON) == NOON + timedelta(minutes=15)
    assert quarter.next_after(NOON + timedelta(minutes=14, seconds=59)) == NOON + timedelta(minutes=15)
    assert Interval(timedelta(hours=168), EPOCH).next_after(NOON) == datetime(2026, 4, 2, tzinfo=UTC)


def test_an_interval_is_exact_a_thousand_years_away_and_ends_with_the_calendar():
    third = Interval(timedelta(microseconds=333_333), EPOCH)
    moment = datetime(2970, 1, 1, tzinfo=UTC)
    following = third.next_after(moment)
    assert following is not None
    assert (following - EPOCH) % timedelta(microseconds=333_333) == timedelta(0)
    assert timedelta(0) < following - moment <= timedelta(microseconds=333_333)
    assert Interval(timedelta(days=3650), EPOCH).next_after(datetime(9999, 1, 1, tzinfo=UTC)) is None


@settings(max_examples=50, deadline=None)
@given(st.integers(100_000, 40_000_000), moments, moments)
def test_an_interval_gives_what_counting_gives(every_us, anchor, moment):
    every = every_us * MICROSECOND
    expected = anchor + max(0, (moment - anchor) // every + 1) * every
    assert Interval(every, anchor).next_after(moment) == expected


@pytest.mark.parametrize(
    ("every", "anchor", "field"),
    [
        (timedelta(milliseconds=99), NOON, "every"),
        (timedelta(0), NOON, "every"),
        (timedelta(hours=-1), NOON, "every"),
        (3600, NOON, "every"),
        (timedelta(hours=1), NOON.replace(tzinfo=None), "anchor"),
        (timedelta(hours=1), None, "anchor"),
    ],
)
def test_an_impossible_interval_is_refused(every, anchor, field):
    with pytest.raises(InvalidField) as refusal:
        Interval(every, anchor)
    assert refusal.value.field == field
