from datetime import UTC, datetime, timedelta

from scheduling.core.recurrence import Cron, Interval, Once
from scheduling.core.recurrence.edit import edit, has


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_an_edit_creates_nothing_before_itself():
    changed = edit(
        Cron("0 9 * * *"), Cron("0 8 * * *"), after=at("2026-01-01 09:00"), edited_at=at("2026-01-02 08:30"), keep=100
    )
    assert changed.kept == changed.superseded == ()
    assert changed.next_scheduled_for == at("2026-01-03 08:00")


def test_an_occurrence_that_waits_for_its_jitter_is_kept_where_the_new_schedule_has_it_too():
    changed = edit(
        Cron("0 9 * * *"),
        Cron("0 9,17 * * *"),
        after=at("2026-01-01 09:00"),
        edited_at=at("2026-01-02 09:05"),
        keep=100,
    )
    assert changed.kept == (at("2026-01-02 09:00"),)
    assert changed.superseded == ()
    assert changed.next_scheduled_for == at("2026-01-02 17:00")


def test_what_only_the_old_schedule_had_is_superseded_and_the_edit_s_own_instant_is_the_old_one_s():
    changed = edit(
        Cron("0 * * * *"), Cron("0 */2 * * *"), after=at("2026-01-01 00:00"), edited_at=at("2026-01-01 04:00"), keep=100
    )
    assert changed.kept == (at("2026-01-01 02:00"), at("2026-01-01 04:00"))
    assert changed.superseded == (at("2026-01-01 01:00"), at("2026-01-01 03:00"))
    assert changed.next_scheduled_for == at("2026-01-01 06:00")


def test_a_long_wait_is_superseded_in_one_row():
    minute = Interval(timedelta(minutes=1), at("2026-01-01"))
    changed = edit(minute, Once(at("2026-06-01")), after=at("2026-01-01"), edited_at=at("2026-01-02"), keep=3)
    first, last = at("2026-01-01 00:01"), at("2026-01-02")
    assert changed.superseded == (first, last - timedelta(minutes=2), last - timedelta(minutes=1), last)
    assert changed.counted is not None
    assert changed.counted.count == 24 * 60 - 4
    assert changed.next_scheduled_for == at("2026-06-01")


def test_an_edit_to_a_schedule_that_is_over_leaves_no_next():
    changed = edit(
        Cron("0 9 * * *"), Once(at("2025-01-01")), after=at("2026-01-01"), edited_at=at("2026-01-01 01:00"), keep=1
    )
    assert changed.next_scheduled_for is None


def test_a_schedule_has_its_occurrences_and_no_others():
    assert has(Cron("0 9 * * *"), at("2026-01-01 09:00"))
    assert not has(Cron("0 9 * * *"), at("2026-01-01 09:00:01"))
