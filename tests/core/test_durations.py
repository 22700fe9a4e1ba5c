from datetime import timedelta

import pytest

from scheduling.core.durations import parse_go_duration
from scheduling.core.errors import InvalidField


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30m", timedelta(minutes=30)),
        ("1h30m0s", timedelta(hours=1, minutes=30)),
        ("168h", timedelta(days=7)),
        ("1.5h", timedelta(minutes=90)),
        (".5s", timedelta(milliseconds=500)),
        ("1.s", timedelta(seconds=1)),
        ("100ms", timedelta(milliseconds=100)),
        ("3us", timedelta(microseconds=3)),
        ("3µs", timedelta(microseconds=3)),
        ("3μs", timedelta(microseconds=3)),
        ("1999ns", timedelta(microseconds=1)),
        ("0", timedelta(0)),
        ("0s", timedelta(0)),
        ("-0", timedelta(0)),
        ("+5m", timedelta(minutes=5)),
        ("-1.5m", timedelta(seconds=-90)),
        ("0.1h", timedelta(minutes=6)),  # exactly, where a float is not
        ("1m1m", timedelta(minutes=2)),
    ],
)
def test_it_reads_what_go_reads(text, expected):
    assert parse_go_duration(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not a duration"),
        (None, "is not a duration"),
        (30, "is not a duration"),
        ("30", "a unit is missing at character 3"),
        ("1h30", "a unit is missing at character 5"),
        ("m", "a number is expected at character 1"),
        ("-", "a number is expected at character 2"),
        ("+", "a number is expected at character 2"),
        ("--1h", "a number is expected at character 2"),
        (".", "a number is expected at character 1"),
        (".h", "a number is expected at character 1"),
        ("1..5h", "a unit is missing at character 3"),
        ("1d", "unit 'd' is not one of"),
        ("1H", "unit 'H' is not one of"),
        ("1 h", "unit ' h' is not one of"),
        ("1h ", "unit 'h ' is not one of"),
        ("1e3s", "unit 'e' is not one of"),
        ("١h", "a number is expected at character 1"),
        ("1" * 30 + "h", "too long to be counted"),
        ("1h" * 33, "longer than 64"),
    ],
)
def test_it_refuses_what_go_refuses_and_shows_the_place(text, problem):
    with pytest.raises(InvalidField) as refusal:
        parse_go_duration(text)
    assert refusal.value.field == "duration"
    assert problem in refusal.value.problem
