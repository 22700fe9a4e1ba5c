"""What an expression may say, and how what it may not say is refused."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence import Cron, normalize_steps, occurrences
from scheduling.core.recurrence.cron_fields import LONGEST

JANUARY = datetime(2026, 1, 1, tzinfo=UTC) - timedelta(seconds=1)


def first(expression: str, count: int = 3, **options: Any) -> list[str]:
    """The first occurrences of 2026."""
    cron, moment = Cron(expression, **options), JANUARY
    found: list[str] = []
    while len(found) < count and (following := cron.next_after(moment)):
        moment = following
        found.append(f"{moment:%m-%d %H:%M:%S}".removesuffix(":00"))
    return found


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("@yearly", ["01-01 00:00"]),
        ("@annually", ["01-01 00:00"]),
        ("@monthly", ["01-01 00:00", "02-01 00:00"]),
        ("@weekly", ["01-04 00:00", "01-11 00:00"]),
        ("@daily", ["01-01 00:00", "01-02 00:00"]),
        ("@midnight", ["01-01 00:00", "01-02 00:00"]),
        ("@Hourly", ["01-01 00:00", "01-01 01:00"]),
        ("  0\t9  * * MON-fri ", ["01-01 09:00", "01-02 09:00", "01-05 09:00"]),
        ("06 014 * * 1-5", ["01-01 14:06"]),
        ("0 9 * jan,MAR sun", ["01-04 09:00", "01-11 09:00", "01-18 09:00", "01-25 09:00", "03-01 09:00"]),
        ("0 0 * * 7", ["01-04 00:00"]),
        ("0 0 * * 0", ["01-04 00:00"]),
        ("0 0 * * 5-7", ["01-02 00:00", "01-03 00:00", "01-04 00:00", "01-09 00:00"]),
        ("0 0 * * mon-fri/2", ["01-02 00:00", "01-05 00:00", "01-07 00:00"]),
        ("10-40/15 3 * * *", ["01-01 03:10", "01-01 03:25", "01-01 03:40", "01-02 03:10"]),
        ("7 2-23/24 * * *", ["01-01 02:07", "01-02 02:07"]),
        ("*/90 * * * *", ["01-01 00:00", "01-01 01:00"]),
        ("*/20 * * * * *", ["01-01 00:00", "01-01 00:00:20", "01-01 00:00:40", "01-01 00:01"]),
        ("30 59 23 * * *", ["01-01 23:59:30", "01-02 23:59:30"]),
        ("0 0 L * *", ["01-31 00:00", "02-28 00:00", "03-31 00:00"]),
        ("0 0 LW * *", ["01-30 00:00", "02-27 00:00", "03-31 00:00"]),
        ("0 0 15,L * *", ["01-15 00:00", "01-31 00:00", "02-15 00:00"]),
        ("0 0 * * 5L", ["01-30 00:00", "02-27 00:00"]),
        ("0 0 * * friL", ["01-30 00:00", "02-27 00:00"]),
        ("0 0 * * fri#2", ["01-09 00:00", "02-13 00:00"]),
        ("0 0 * * 7#1,mon#5", ["01-04 00:00", "02-01 00:00", "03-01 00:00", "03-30 00:00"]),
        ("0 0 13 * fri", ["01-02 00:00", "01-09 00:00", "01-13 00:00"]),  # either
        ("0 0 */2 * fri", ["01-09 00:00", "01-23 00:00"]),  # a field that starts with * is not set: both
        ("0 0 1-7 * */5", ["01-02 00:00", "01-04 00:00", "02-01 00:00"]),
        ("0 0 29 2 *", ["02-29 00:00"]),
        ("0 0 31 * *", ["01-31 00:00", "03-31 00:00", "05-31 00:00"]),
    ],
)
def test_an_expression_says(expression, expected):
    assert first(expression, len(expected)) == expected


def test_with_day_match_and_both_day_fields_must_match():
    assert first("0 0 13 * fri", day_match="and") == ["02-13 00:00", "03-13 00:00", "11-13 00:00"]


# field, in which the place must be shown; a word of the reason
MALFORMED = [
    ("", "0 fields", ""),
    ("   ", "0 fields", ""),
    ("*", "1 field;", ""),
    ("* * * *", "4 fields", ""),
    ("* * * * * * *", "7 fields", ""),
    ("0 0 12 1 1 ? 2026", "7 fields", ""),
    ("@", "alias '@'", "aliases are"),
    ("@fortnightly", "alias '@fortnightly' at character 1", "aliases are"),
    (" @dayly", "alias '@dayly' at character 2", "aliases are"),
    ("@reboot", "alias '@reboot'", "cluster"),
    ("@every 5m", "alias '@every 5m'", "interval"),
    ("@daily 5", "alias '@daily 5'", "aliases are"),
    ("60 * * * *", "minute '60' at character 1", "not in 0-59"),
    ("99999999999 * * * *", "minute '99999999999' at character 1", "not in 0-59"),
    ("-1 * * * *", "minute '' at character 1", "missing"),
    ("1.5 * * * *", "minute '1.5' at character 1", "not a value"),
    ("+1 * * * *", "minute '+1' at character 1", "not a value"),
    ("a * * * *", "minute 'A' at character 1", "not a value"),
    ("mon * * * *", "minute 'MON' at character 1", "not a value"),
    ("1, * * * *", "minute '' at character 3", "missing"),
    (",1 * * * *", "minute '' at character 1", "missing"),
    ("1,,2 * * * *", "minute '' at character 3", "missing"),
    (", * * * *", "minute '' at character 1", "missing"),
    ("5-1 * * * *", "minute '5-1' at character 1", "backwards"),
    ("1-60 * * * *", "minute '60' at character 3", "not in 0-59"),
    ("1- * * * *", "minute '' at character 3", "missing"),
    ("- * * * *", "minute '' at character 1", "missing"),
    ("1-2-3 * * * *", "minute '1-2-3' at character 1", "two ends"),
    ("1--3 * * * *", "minute '1--3' at character 1", "two ends"),
    ("*/0 * * * *", "minute '0' at character 3", "step"),
    ("*/ * * * *", "minute '' at character 3", "step"),
    ("*/x * * * *", "minute 'X' at character 3", "step"),
    ("*/-5 * * * *", "minute '-5' at character 3", "step"),
    ("*/5/2 * * * *", "minute '5/2' at character 3", "step"),
    ("*/1.5 * * * *", "minute '1.5' at character 3", "step"),
    ("/5 * * * *", "minute '' at character 1", "missing"),
    ("6/1 * * * *", "minute '6/1' at character 1", "write 6-59/1"),
    ("0 6/2 * * *", "hour '6/2' at character 3", "write 6-23/2"),
    ("0 0 3/5 * *", "day of month '3/5' at character 5", "write 3-31/5"),
    ("0 0 * 2/3 *", "month '2/3' at character 7", "write 2-12/3"),
    ("0 0 * feb/3 *", "month 'FEB/3' at character 7", "write FEB-12/3"),
    ("0 0 * * 1/2", "day of week '1/2' at character 9", "write 1-6/2"),
    ("0 0 * * mon/2", "day of week 'MON/2' at character 9", "write MON-6/2"),
    ("0,6/2 * * * *", "minute '6/2' at character 3", "write 6-59/2"),
    ("6/2 0 * * * *", "second '6/2' at character 1", "write 6-59/2"),
    ("99/2 * * * *", "minute '99' at character 1", "not in 0-59"),
    ("** * * * *", "minute '**' at character 1", "not a value"),
    ("*5 * * * *", "minute '*5' at character 1", "not a value"),
    ("5* * * * *", "minute '5*' at character 1", "not a value"),
    ("*-5 * * * *", "minute '*' at character 1", "a star stands alone"),
    ("1-* * * * *", "minute '*' at character 3", "a star stands alone"),
    ("? * * * *", "minute '?' at character 1", "Quartz"),
    ("0 0 ? * 1", "day of month '?' at character 5", "Quartz"),
    ("0 0 1 * ?", "day of week '?' at character 9", "Quartz"),
    ("0 24 * * *", "hour '24' at character 3", "not in 0-23"),
    ("0 9am * * *", "hour '9AM' at character 3", "not a value"),
    ("0 9:30 * * *", "hour '9:30' at character 3", "not a value"),
    ("0 noon * * *", "hour 'NOON' at character 3", "not a value"),
    ("0 22-6 * * *", "hour '22-6' at character 3", "backwards"),
    ("0 0 0 * *", "day of month '0' at character 5", "not in 1-31"),
    ("0 0 32 * *", "day of month '32' at character 5", "not in 1-31"),
    ("0 0 -1 * *", "day of month '' at character 5", "missing"),
    ("0 0 W * *", "day of month 'W' at character 5", "not a value"),
    ("0 0 15W * *", "day of month '15W' at character 5", "not a value"),
    ("0 0 WL * *", "day of month 'WL' at character 5", "not a value"),
    ("0 0 L-3 * *", "day of month 'L' at character 5", "not a value"),
    ("0 0 1-L * *", "day of month 'L' at character 7", "not a value"),
    ("0 0 L/2 * *", "day of month 'L' at character 5", "not a value"),
    ("0 0 3L * *", "day of month '3L' at character 5", "not a value"),
    ("0 0 mon * *", "day of month 'MON' at character 5", "not a value"),
    ("0 0 5#2 * *", "day of month '5#2' at character 5", "not a value"),
    ("L * * * *", "minute 'L' at character 1", "not a value"),
    ("0 0 * 0 *", "month '0' at character 7", "not in 1-12"),
    ("0 0 * 13 *", "month '13' at character 7", "not in 1-12"),
    ("0 0 * foo *", "month 'FOO' at character 7", "or a name"),
    ("0 0 * january *", "month 'JANUARY' at character 7", "or a name"),
    ("0 0 * nov-feb *", "month 'NOV-FEB' at character 7", "backwards"),
    ("0 0 * mon *", "month 'MON' at character 7", "or a name"),
    ("0 0 * L *", "month 'L' at character 7", "or a name"),
    ("0 0 * * 8", "day of week '8' at character 9", "not in 0-7"),
    ("0 0 * * 1-8", "day of week '8' at character 11", "not in 0-7"),
    ("0 0 * * monday", "day of week 'MONDAY' at character 9", "or a name"),
    ("0 0 * * mo", "day of week 'MO' at character 9", "or a name"),
    ("0 0 * * jan", "day of week 'JAN' at character 9", "or a name"),
    ("0 0 * * fri-mon", "day of week 'FRI-MON' at character 9", "backwards"),
    ("0 0 * * L", "day of week 'L' at character 9", "which last day"),
    ("0 0 * * LW", "day of week 'LW' at character 9", "or a name"),
    ("0 0 * * 8L", "day of week '8' at character 9", "not in 0-7"),
    ("0 0 * * xL", "day of week 'X' at character 9", "or a name"),
    ("0 0 * * 1-5L", "day of week '1-5' at character 9", "or a name"),
    ("0 0 * * 5#", "day of week '5#' at character 9", "1 to 5"),
    ("0 0 * * #2", "day of week '' at character 9", "missing"),
    ("0 0 * * 5#0", "day of week '5#0' at character 9", "1 to 5"),
    ("0 0 * * 5#6", "day of week '5#6' at character 9", "1 to 5"),
    ("0 0 * * 5#1#2", "day of week '5#1#2' at character 9", "1 to 5"),
    ("0 0 * * 1-5#2", "day of week '1-5' at character 9", "or a name"),
    ("0 0 * * 8#2", "day of week '8' at character 9", "not in 0-7"),
    ("Hx * * * *", "minute 'HX' at character 1", "H stands alone"),
    ("H-5 * * * *", "minute 'H-5' at character 1", "H stands alone"),
    ("H(0-29 * * * *", "minute 'H(0-29' at character 1", "H stands alone"),
    ("H(0-99) * * * *", "minute '99' at character 5", "not in 0-59"),
    ("H(9-5) * * * *", "minute '9-5' at character 3", "backwards"),
    ("H() * * * *", "minute '' at character 3", "missing"),
    ("H/0 * * * *", "minute '0' at character 3", "step"),
    ("H/ * * * *", "minute '' at character 3", "step"),
    ("H(0-29)/x * * * *", "minute 'X' at character 9", "step"),
    ("60 * * * * *", "second '60' at character 1", "not in 0-59"),
    ("0 0 0 0 1 *", "day of month '0' at character 7", "not in 1-31"),
    ("0 9 * * пн", "'п' at character 9", "only ASCII"),
    ("0 9 * * 1–5", "'–' at character 10", "only ASCII"),
    ("０ 9 * * *", "'０' at character 1", "only ASCII"),
    ("\x00 * * * *", "minute '\\x00' at character 1", "not a value"),
    ("0 0 30 2 *", "never fires", "no month of these has a day 30"),
    ("0 0 31 2,4,6,9,11 *", "never fires", "no month of these has a day 31"),
    ("0," * LONGEST + "0 * * * *", "longer than 256", ""),
]


def test_the_table_has_a_hundred_rows():
    assert len({expression for expression, *_ in MALFORMED}) >= 100


@pytest.mark.parametrize(("expression", "place", "reason"), MALFORMED)
def test_a_malformed_expression_is_refused_and_its_place_is_shown(expression, place, reason):
    with pytest.raises(InvalidField) as refusal:
        Cron(expression)
    assert refusal.value.field == "cron"
    assert refusal.value.value == expression
    assert place in refusal.value.problem
    assert reason in refusal.value.problem


@pytest.mark.parametrize("expression", [None, 5, b"* * * * *", ["* * * * *"]])
def test_what_is_no_text_is_refused(expression):
    with pytest.raises(InvalidField, match=r"cron .* is not text"):
        Cron(expression)


@pytest.mark.parametrize(
    ("expression", "day_match"),
    [("0 0 8 * 1#1", "and"), ("0 0 30 2 1", "and"), ("0 0 */31 2 5#2", "or"), ("0 0 L * mon#1", "and")],
)
def test_what_never_fires_since_its_day_fields_never_meet_is_refused(expression, day_match):
    with pytest.raises(InvalidField, match="never fires"):
        Cron(expression, day_match=day_match)


@pytest.mark.parametrize("field", ["day_match", "gap", "fold"])
def test_an_unknown_option_is_refused_by_name(field: str):
    said: dict[str, Any] = {field: "maybe"}
    with pytest.raises(InvalidField) as refusal:
        Cron("0 9 * * *", **said)
    assert refusal.value.field == field


def test_h_spreads_jobs_and_keeps_each_where_it_is():
    minutes = {first("H 3 * * *", 1, key=f"job {number}")[0] for number in range(200)}
    assert len(minutes) > 40
    assert all(moment.startswith("01-01 03:") for moment in minutes)
    assert first("H 3 * * *", 2, key="reports/daily") == ["01-01 03:20", "01-02 03:20"]


def test_h_with_a_step_is_a_phase_of_it_and_in_brackets_a_part_of_the_hour():
    for key in map(str, range(30)):
        phase = [int(moment[-2:]) for moment in first("H/15 * * * *", 4, key=key)]
        assert phase == list(range(phase[0], 60, 15))
        assert 10 <= int(first("H(10-19) * * * *", 1, key=key)[0][-2:]) <= 19
        assert int(first("0 0 H * *", 1, key=key)[0][3:5]) <= 28
        assert len(first("H(0-9)/20 * * * *", 1, key=key)) == 1


def test_jobs_share_what_is_computed_unless_they_are_hashed():
    assert Cron("0 9 * * thu", key="a").line is Cron("0 9 * * thu", key="b").line
    assert Cron("H 9 * * *", key="a").line is not Cron("H 9 * * *", key="b").line


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("0 1/6 * * *", "0 1-23/6 * * *"),
        ("6/1 0/12 2/3 4/5 mon/2", "6-59/1 0-23/12 2-31/3 4-12/5 mon-6/2"),
        ("0 0 * * 7/1", "0 0 * * 7-7/1"),
        ("5/10 * * * * *", "5-59/10 * * * * *"),
        ("0,6/2 * * * *", "0,6-59/2 * * * *"),
        ("*/5 1-23/8 * * *", "*/5 1-23/8 * * *"),
        ("0  9  * * *", "0  9  * * *"),
        ("H/5 * * * *", "H/5 * * * *"),
        ("@daily", "@daily"),
        ("x/5 * * * *", "x/5 * * * *"),
        ("1/2", "1/2"),
    ],
)
def test_importers_read_a_step_after_a_value_as_reaching_to_the_maximum(said, meant):
    assert normalize_steps(said) == meant


def test_no_expression_holds_more_than_a_few_dozen_occurrences_in_memory_at_a_time():
    for expression in ("* * * * * *", "* * * 1 1 *", "*/2 0-6 * * * *", "0 0 1 1 *", "59 59 23 31 12 *"):
        line = Cron(expression, "Europe/Paris").line
        end = JANUARY + timedelta(seconds=2**line.block_bits)
        assert sum(1 for _ in occurrences(Cron(expression, "Europe/Paris"), after=JANUARY, until=end)) <= 70
