from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest

from scheduling.core.clock import EPOCH
from scheduling.core.errors import InvalidField
from scheduling.core.recurrence import Bounded, Calendar, Cron, Interval, Jitter, Mark, Once, RRule, preview

NEW_YORK = "America/New_York"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def marks(schedule, after: str, count: int, **options) -> list[tuple[str, list[str]]]:
    return [
        (f"{entry.local:%d %H:%M}", [*entry.marks])
        for entry in preview(schedule, after=at(after), count=count, **options)
    ]


def test_an_entry_reads_as_json():
    (entry,) = preview(Cron("0 9 * * *", "Asia/Kolkata"), after=at("2026-01-01 12:00"), count=1)
    assert entry.as_json() == {"utc": "2026-01-02T03:30:00Z", "local": "2026-01-02T09:00:00+05:30", "marks": []}


def test_a_fire_that_stands_for_skipped_times_is_marked_and_lists_them():
    entries = preview(Cron("0,30 2,3 * * *", NEW_YORK), after=at("2026-03-08 05:00"), count=2)
    assert [entry.as_json() for entry in entries] == [
        {
            "utc": "2026-03-08T07:00:00Z",
            "local": "2026-03-08T03:00:00-04:00",
            "marks": ["gap"],
            "nominal": ["2026-03-08T02:00:00", "2026-03-08T02:30:00"],
        },
        {"utc": "2026-03-08T07:30:00Z", "local": "2026-03-08T03:30:00-04:00", "marks": []},
    ]


def test_a_shifted_fire_is_marked_with_its_own_time():
    shifted = Cron("15 2 * * *", NEW_YORK, gap="shift")  # type: ignore[arg-type]
    (entry,) = preview(shifted, after=at("2026-03-08 05:00"), count=1)
    assert entry.marks == (Mark.GAP,)
    assert entry.nominal == (datetime.fromisoformat("2026-03-08 02:15"),)


def test_a_bounded_rule_is_looked_into_and_a_crowded_gap_is_cut_short():
    rule = Bounded(RRule("FREQ=DAILY;BYHOUR=2", at("2026-01-01"), NEW_YORK), end_at=at("2027-01-01"))
    assert marks(rule, "2026-03-08 05:00", 1) == [("08 03:00", ["gap"])]
    every_second = Cron("0-59 0-59 2 * * *", NEW_YORK)
    (entry,) = preview(every_second, after=at("2026-03-08 05:00"), count=1)
    assert len(entry.nominal) == 60


def test_both_instants_of_a_doubled_time_are_marked():
    assert marks(Cron("30 * * * *", NEW_YORK), "2026-11-01 04:00", 4) == [
        ("01 00:30", []),
        ("01 01:30", ["fold"]),
        ("01 01:30", ["fold"]),
        ("01 02:30", []),
    ]


def test_closed_days_are_marked_and_not_left_out():
    calendar = Calendar(days=frozenset({date(2026, 1, 2)}))
    assert marks(Cron("0 9 * * *"), "2026-01-01 00:00", 3, calendar=calendar) == [
        ("01 09:00", []),
        ("02 09:00", ["excluded"]),
        ("03 09:00", []),
    ]


def test_jitter_is_shown_as_it_will_be():
    jitter = Jitter(UUID(int=7), timedelta(minutes=10))
    entries = preview(Interval(timedelta(hours=1), EPOCH), after=at("2026-01-01"), count=3, jitter=jitter, tz=NEW_YORK)
    assert all(Mark.JITTERED in entry.marks and entry.utc < entry.fire_at for entry in entries)
    assert entries[0].as_json()["fire_at"] != entries[0].as_json()["utc"]
    assert str(entries[0].local.tzinfo) == NEW_YORK


def test_a_schedule_that_ends_gives_fewer():
    assert len(preview(Once(at("2026-01-01")), after=at("2025-01-01"), count=5)) == 1


@pytest.mark.parametrize("count", [0, -1, 1001])
def test_the_count_is_bounded(count):
    with pytest.raises(InvalidField, match="count"):
        preview(Once(at("2026-01-01")), after=at("2025-01-01"), count=count)
