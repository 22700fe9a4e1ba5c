from datetime import UTC, datetime, timedelta

import pytest

from scheduling.core.clock import EPOCH
from scheduling.core.recurrence import Bounded, Cron, Doubt, Interval, Once, RRule, Schedule, lint, words

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("0 9 * * mon-fri", "At 09:00, Monday to Friday"),
        ("* * * * *", "Every minute"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("*/10 * * * * *", "Every 10 seconds"),
        ("* * * * * *", "Every second"),
        ("*/5 30 * * * *", "Every 5 seconds of minute 30"),
        ("@hourly", "Every hour at minute 0"),
        ("17 */2 * * *", "Every 2 hours at minute 17"),
        ("41 3-23/8 * * *", "At 03:41, 11:41 and 19:41, every day"),
        ("*/15 9-17 * * 1-5", "Every 15 minutes, 09:00 to 17:59, Monday to Friday"),
        ("* 1,3,5 * * *", "Every minute, in hours 1, 3 and 5"),
        ("5,7 * * * *", "At minutes 5 and 7, every day"),
        ("0 0 1,15 * *", "At 00:00, on days 1 and 15 of the month"),
        ("0 0 L * *", "At 00:00, on the last day of the month"),
        ("0 0 LW jan,jul *", "At 00:00, on the last day of Monday to Friday of the month, in January and July"),
        ("0 0 * jun-aug sat,sun", "At 00:00, Saturday and Sunday, in June to August"),
        ("0 9 * * fri#2", "At 09:00, the second Friday of the month"),
        ("0 9 * * 5L", "At 09:00, the last Friday of the month"),
        ("0 9 13 * fri", "At 09:00, on day 13 of the month or Friday"),
        ("30 5 4 * * *", "At 04:05:30, every day"),
        ("0 0 1-5,9 * *", "At 00:00, on days 1 to 5 and 9 of the month"),
    ],
)
def test_cron_in_words(expression, said):
    assert words(Cron(expression, "Europe/Paris")) == f"{said}, Europe/Paris"


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (Cron("0 9 13 * fri", day_match="and"), "At 09:00, on day 13 of the month that is also Friday, UTC"),  # type: ignore[arg-type]
        (Once(NOW), "Once, at 2026-01-01 00:00 UTC"),
        (Interval(timedelta(days=1), NOW), "Every day, counted from 2026-01-01 00:00 UTC"),
        (Interval(timedelta(minutes=90), EPOCH), "Every 1 hour 30 minutes, counted from the Unix epoch"),
        (Interval(timedelta(milliseconds=250), EPOCH), "Every 250 ms, counted from the Unix epoch"),
        (RRule("FREQ=DAILY", NOW, "Asia/Tokyo"), "By the rule FREQ=DAILY, Asia/Tokyo"),
        (
            Bounded(Interval(timedelta(hours=2), EPOCH), start_at=NOW, end_at=NOW),
            "Every 2 hours, counted from the Unix epoch, from 2026-01-01 00:00 UTC, until 2026-01-01 00:00 UTC",
        ),
    ],
)
def test_other_schedules_in_words(schedule, said):
    assert words(schedule) == said


def doubts(schedule: Schedule, **options) -> list[tuple[Doubt, str]]:
    return [(caution.doubt, caution.reason) for caution in lint(schedule, now=NOW, **options)]


@pytest.mark.parametrize(
    ("expression", "doubt", "reason"),
    [
        ("*/7 * * * *", Doubt.UNEVEN_STEP, "from 56 to the next 0 it is 4"),
        ("0 */5 * * *", Doubt.UNEVEN_STEP, "from 20 to the next 0 it is 4"),
        ("0 0 */2 * *", Doubt.UNEVEN_STEP, "the 1st of each month"),
        ("*/90 * * * *", Doubt.SINGLE_STEP, "matches 0 only"),
        ("0 0 30 * *", Doubt.SHORT_MONTHS, "day of month 30 is missing in short months"),
        ("0 0 13 * fri", Doubt.BOTH_DAYS, "either fires"),
        ("0 0 */2 * fri", Doubt.BOTH_DAYS, "both must match"),
        ("30 2 * * *", Doubt.IN_GAP, "skips 2026-03-08 02:30"),
    ],
)
def test_what_is_probably_not_meant_is_said_with_a_reason(expression, doubt, reason):
    found = doubts(Cron(expression, "America/New_York"))
    assert doubt in dict(found)
    assert reason in dict(found)[doubt]


@pytest.mark.parametrize(
    "expression",
    [
        "*/5 * * * *",
        "0 */6 * * *",
        "0 9 * * mon-fri",
        "@monthly",
        "0 0 L * *",
        "*/30 2 * * *",
        "0 0 * */2 *",
        "30 1 * * *",
    ],
)
def test_a_sound_expression_raises_no_doubt(expression):
    assert doubts(Cron(expression, "America/New_York")) == []


def test_a_time_in_the_gap_is_no_doubt_in_a_zone_without_gaps():
    assert doubts(Cron("30 2 * * *", "Asia/Kolkata")) == []


def test_a_schedule_denser_than_the_tenant_s_rate_is_doubted():
    assert [doubt for doubt, _ in doubts(Cron("* * * * * *"), rate_per_s=0.5)] == [Doubt.DENSE]
    assert [doubt for doubt, _ in doubts(Interval(timedelta(milliseconds=100), EPOCH), rate_per_s=9)] == [Doubt.DENSE]
    assert doubts(Interval(timedelta(milliseconds=100), EPOCH), rate_per_s=10) == []
    assert doubts(Cron("* * * * * *")) == []
    assert doubts(Once(NOW), rate_per_s=1) == []
