from datetime import UTC, date, datetime, time

import pytest

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence import Bounded, Calendar, ClosedHours, Cron, Once, occurrences

PARIS = "Europe/Paris"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_a_closed_day_is_closed_from_its_first_to_its_last_local_instant():
    christmas = Calendar(days=frozenset({date(2026, 12, 25)}), tz=PARIS)
    assert not christmas.excludes(at("2026-12-24 22:59:59"))
    assert christmas.excludes(at("2026-12-24 23:00"))
    assert christmas.excludes(at("2026-12-25 22:59:59"))
    assert not christmas.excludes(at("2026-12-25 23:00"))


def test_closed_hours_hold_on_their_weekdays():
    lunch = Calendar(hours=(ClosedHours(time(12), time(13), frozenset({1, 2, 3, 4, 5})),), tz=PARIS)
    assert lunch.excludes(at("2026-07-06 10:00"))  # Monday, 12:00 in summer
    assert not lunch.excludes(at("2026-07-06 11:00"))
    assert not lunch.excludes(at("2026-07-05 10:00"))  # Sunday


def test_hours_over_midnight_belong_to_the_day_on_which_they_begin():
    friday_night = Calendar(hours=(ClosedHours(time(22), time(6), frozenset({5})),))
    assert friday_night.excludes(at("2026-07-03 22:00"))
    assert friday_night.excludes(at("2026-07-04 05:59"))
    assert not friday_night.excludes(at("2026-07-04 06:00"))
    assert not friday_night.excludes(at("2026-07-04 23:00"))
    assert not friday_night.excludes(at("2026-07-03 05:00"))
    sunday_night = ClosedHours(time(22), time(6), frozenset({7}))
    assert sunday_night.covers(datetime.fromisoformat("2026-07-06 01:00"))


def test_hours_that_begin_and_end_alike_are_a_whole_day():
    sundays = ClosedHours(time(0), time(0), frozenset({7}))
    assert sundays.covers(datetime.fromisoformat("2026-07-05 00:00"))
    assert sundays.covers(datetime.fromisoformat("2026-07-05 23:59"))
    assert not sundays.covers(datetime.fromisoformat("2026-07-06 00:00"))


@pytest.mark.parametrize("weekdays", [{0}, {8}, set()])
def test_weekdays_are_iso_weekdays(weekdays):
    with pytest.raises(InvalidField, match="weekdays"):
        ClosedHours(time(1), time(2), frozenset(weekdays))


def test_bounds_include_both_ends():
    hourly = Bounded(Cron("0 * * * *"), start_at=at("2026-01-01 03:00"), end_at=at("2026-01-01 05:00"))
    found = occurrences(hourly, after=at("2025-01-01"), until=at("2027-01-01"))
    assert [moment.hour for moment in found] == [3, 4, 5]


def test_open_bounds_bound_nothing():
    assert Bounded(Once(at("2026-01-01"))).next_after(at("2025-01-01")) == at("2026-01-01")
    assert Bounded(Once(at("2026-01-01")), end_at=at("2025-12-31")).next_after(at("2025-01-01")) is None


def test_bounds_are_checked():
    with pytest.raises(InvalidField, match=r"end_at .* is before start_at"):
        Bounded(Once(at("2026-01-01")), start_at=at("2026-01-02"), end_at=at("2026-01-01"))
    for name in ("start_at", "end_at"):
        with pytest.raises(InvalidField, match=name):
            Bounded(Once(at("2026-01-01")), **{name: at("2026-01-01").replace(tzinfo=None)})
