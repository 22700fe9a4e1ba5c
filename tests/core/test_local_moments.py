"""Days and times as people write them for a job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduling.core.errors import InvalidField
from scheduling.core.local_moments import read_end, read_shared, read_start

MICROSECOND = timedelta(microseconds=1)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("text", "tz", "start", "end"),
    [
        ("2026-03-08", "UTC", utc(2026, 3, 8), utc(2026, 3, 9) - MICROSECOND),
        ("2026-03-08", "America/New_York", utc(2026, 3, 8, 5), utc(2026, 3, 9, 4) - MICROSECOND),  # 23 hours
        ("2026-11-01", "America/New_York", utc(2026, 11, 1, 4), utc(2026, 11, 2, 5) - MICROSECOND),  # 25 hours
        ("2026-01-15T09:30", "Asia/Kolkata", utc(2026, 1, 15, 4), utc(2026, 1, 15, 4)),
        ("2026-01-15 09:30:15.5", "UTC", utc(2026, 1, 15, 9, 30, 15, 500_000), utc(2026, 1, 15, 9, 30, 15, 500_000)),
        ("2026-01-15T09:30Z", "Asia/Kolkata", utc(2026, 1, 15, 9, 30), utc(2026, 1, 15, 9, 30)),
        ("2026-01-15T09:30+02:00", "Asia/Kolkata", utc(2026, 1, 15, 7, 30), utc(2026, 1, 15, 7, 30)),
        ("2026-11-01T01:30", "America/New_York", utc(2026, 11, 1, 5, 30), utc(2026, 11, 1, 5, 30)),  # the first of two
        ("2026-03-08T02:30", "America/New_York", utc(2026, 3, 8, 7, 30), utc(2026, 3, 8, 7, 30)),  # does not exist
        ("2011-12-30", "Pacific/Apia", utc(2011, 12, 30, 10), utc(2011, 12, 30, 10) - MICROSECOND),  # nor does this day
    ],
)
def test_a_local_moment_is_one_of_the_zone(text: str, tz: str, start: datetime, end: datetime) -> None:
    assert (read_start("from", text, tz), read_end("until", text, tz)) == (start, end)


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-02-30", "2026-03-08T25:00", "08.03.2026", None, "9" * 5000])
def test_what_is_no_moment_is_refused_by_the_name_of_its_field(text: str) -> None:
    for read in (read_start, read_end):
        with pytest.raises(InvalidField, match="^from .*is not a day such as 2026-03-08"):
            read("from", text, "UTC")


def test_moments_at_the_ends_of_time_and_unknown_zones_are_refused() -> None:
    with pytest.raises(InvalidField, match="^until .*outside the years 1 to 9999"):
        read_end("until", "9999-12-31", "UTC")
    with pytest.raises(InvalidField, match="^from .*outside the years 1 to 9999"):
        read_start("from", "0001-01-01", "Asia/Tokyo")
    with pytest.raises(InvalidField, match="^tz 'Mars'"):
        read_start("from", "2026-01-01", "Mars")


def test_for_several_jobs_a_moment_must_be_the_same_for_all() -> None:
    assert read_shared("until", "2026-01-01", ["UTC", "Etc/UTC"]) == utc(2026, 1, 1)
    assert read_shared("until", "2026-01-01T00:00Z", ["UTC", "Asia/Tokyo"]) == utc(2026, 1, 1)
    assert read_shared("until", "2026-01-01", []) == utc(2026, 1, 1)
    with pytest.raises(InvalidField, match="^until .*these jobs have several; give its offset"):
        read_shared("until", "2026-01-01", ["UTC", "Asia/Tokyo"])
