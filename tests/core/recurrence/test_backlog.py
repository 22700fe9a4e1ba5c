import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.clock import EPOCH
from scheduling.core.errors import InvalidField
from scheduling.core.recurrence import (
    Bounded,
    Cron,
    Interval,
    Once,
    RRule,
    Schedule,
    backlog,
    count_between,
    occurrences,
)

CHANGE = datetime(2026, 3, 8, 7, tzinfo=UTC)  # New York's gap
FALL = datetime(2026, 11, 1, 6, tzinfo=UTC)  # and its fold
SCHEDULES: list[Schedule] = [
    Once(CHANGE),
    Interval(timedelta(seconds=77), EPOCH),
    Interval(timedelta(minutes=11), CHANGE),
    Cron("*/7 * * * *", "America/New_York"),
    Cron("3-50/4 1,2,3 * * *", "America/New_York"),
    Cron("3-50/4 1,2,3 * * *", "America/New_York", gap="shift", fold="both"),  # type: ignore[arg-type]
    Cron("*/20 5 1-3 7,8 * mon", "America/New_York", gap="skip", fold="second"),  # type: ignore[arg-type]
    Cron("15 2 8-9 * *", "Australia/Lord_Howe"),
    RRule("FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=0,30", datetime(2026, 1, 1, tzinfo=UTC), "America/New_York"),
    Bounded(Cron("*/3 * * * *"), start_at=CHANGE - timedelta(hours=30), end_at=FALL),
]
near = st.tuples(st.sampled_from([CHANGE, FALL]), st.integers(-4 * 86_400_000_000, 4 * 86_400_000_000)).map(
    lambda pair: pair[0] + pair[1] * timedelta(microseconds=1)
)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_counting_is_as_looking_at_each(schedule):
    @settings(max_examples=25, deadline=None)
    @given(near, st.integers(0, 4 * 86_400))
    def holds(after, seconds):
        until = after + timedelta(seconds=seconds)
        expected = sum(1 for _ in occurrences(schedule, after=after, until=until))
        assert count_between(schedule, after=after, until=until) == expected

    holds()


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_a_backlog_lists_the_first_and_the_newest_and_counts_the_others(schedule):
    @settings(max_examples=25, deadline=None)
    @given(near, st.integers(0, 3 * 86_400), st.integers(0, 7200), st.integers(1, 20))
    def holds(after, seconds, fresh_s, keep):
        late_until = after + timedelta(seconds=seconds)
        until = late_until + timedelta(seconds=fresh_s)
        every = list(occurrences(schedule, after=after, until=until))
        late = [moment for moment in every if moment <= late_until]
        found = backlog(schedule, after=after, until=until, late_until=late_until, keep=keep)
        hidden = late[1 : max(1, len(late) - keep)]
        assert list(found.listed) == [moment for moment in every if moment not in hidden]
        if hidden:
            assert found.counted is not None
            assert (found.counted.first, found.counted.last, found.counted.count) == (
                hidden[0],
                hidden[-1],
                len(hidden),
            )
        else:
            assert found.counted is None

    holds()


@pytest.mark.parametrize(
    "schedule", [Cron("* * * * * *", "Europe/Paris"), Interval(timedelta(milliseconds=100), EPOCH)]
)
def test_a_year_of_every_second_costs_milliseconds(schedule):
    began = time.process_time()
    found = backlog(schedule, after=FALL - timedelta(days=365), until=FALL, late_until=FALL, keep=100)
    assert time.process_time() - began < 0.5  # one by one it is a minute
    assert len(found.listed) == 101
    assert found.counted is not None
    assert found.counted.count + 101 == timedelta(days=365) // (found.listed[-1] - found.listed[-2])


def test_naive_moments_are_refused():
    with pytest.raises(InvalidField, match="late_until"):
        backlog(Once(FALL), after=FALL, until=FALL, late_until=FALL.replace(tzinfo=None), keep=1)
