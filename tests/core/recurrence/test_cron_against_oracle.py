"""Cron against a naive scan: round the zone changes of many zones, and over random spans."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence import Cron, occurrences
from tests.core.recurrence.cron_oracle import NAMES, RANGES, expected

CHANGES = [
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("Europe/London", "2026-03-29"),
    ("Europe/London", "2026-10-25"),
    ("Australia/Lord_Howe", "2026-04-05"),  # by 30 minutes
    ("Australia/Lord_Howe", "2026-10-04"),
    ("America/Sao_Paulo", "2018-11-04"),  # a gap at midnight
    ("America/Sao_Paulo", "2019-02-17"),  # a fold at midnight
    ("Asia/Beirut", "2026-03-29"),  # a gap at midnight
    ("America/Havana", "2026-11-01"),  # a fold that ends at midnight
    ("Pacific/Apia", "2011-12-30"),  # a whole day is missing
    ("Pacific/Kwajalein", "1993-08-21"),
    ("Asia/Pyongyang", "2015-08-15"),  # back by 30 minutes
    ("Asia/Kathmandu", "1986-01-01"),  # ahead by 15 minutes
    ("Africa/Casablanca", "2026-02-15"),  # "summer time" is the negative one
    ("Antarctica/Troll", "2026-03-29"),  # by two hours
    ("Antarctica/Casey", "2010-03-05"),  # back by three
    ("Africa/Monrovia", "1972-01-07"),  # by 44 min 30 s
]


@st.composite
def fields(draw: st.DrawFn, place: int) -> str:
    low, high = RANGES[place]
    number = st.integers(low, high).map(str)
    span = st.tuples(st.integers(low, high), st.integers(low, high)).map(lambda ends: f"{min(ends)}-{max(ends)}")
    step = st.integers(1, high + 3).map(str)
    kinds = [number, span, st.tuples(span, step).map("/".join)]
    if place in NAMES:
        kinds.append(st.sampled_from(NAMES[place][1:]))
    if place == 3:
        kinds.append(st.sampled_from(["l", "lw"]))
    if place == 5:
        kinds.append(number.map(lambda day: f"{day}l"))
        kinds.append(st.tuples(number, st.integers(1, 5)).map(lambda pair: f"{pair[0]}#{pair[1]}"))
    starred = st.one_of(st.just("*"), step.map(lambda text: f"*/{text}"))
    return draw(st.one_of(starred, st.lists(st.one_of(kinds), min_size=1, max_size=3).map(",".join)))


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Mostly such that something fires within days."""
    day, month, weekday = draw(
        st.one_of(
            st.just(("*", "*", "*")),
            st.tuples(st.just("*"), st.just("*"), fields(5)),
            st.tuples(*map(fields, (3, 4, 5))),
        )
    )
    return " ".join([draw(fields(1)), draw(fields(2)), day, month, weekday])


options = st.fixed_dictionaries(
    {
        "day_match": st.sampled_from(["or", "and"]),
        "gap": st.sampled_from(["first_valid", "shift", "skip"]),
        "fold": st.sampled_from(["first", "second", "both"]),
    }
)


def agrees(expression: str, tz: str, after: datetime, until: datetime, chosen: dict[str, Any]) -> None:
    try:
        cron = Cron(expression, tz, **chosen)
    except InvalidField as refusal:
        assume("never fires" not in refusal.problem)
        raise
    found = list(occurrences(cron, after=after, until=until))
    assert found == expected(expression, tz, after=after, until=until, **chosen)


@settings(max_examples=75, deadline=None)
@given(st.sampled_from(CHANGES), expressions(), options)
def test_round_a_zone_change_it_fires_what_a_scan_of_the_minutes_finds(change, expression, chosen):
    tz, day = change
    middle = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
    agrees(expression, tz, middle - timedelta(days=1, hours=12), middle + timedelta(days=1, hours=12), chosen)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([tz for tz, _ in CHANGES] + ["UTC", "Asia/Kolkata"]),
    expressions(),
    options,
    st.integers(631_152_000, 2_840_140_800).map(lambda second: datetime.fromtimestamp(second, UTC)),  # 1990 to 2060
    st.integers(1, 40),
)
def test_over_any_span_it_fires_what_a_scan_of_the_minutes_finds(tz, expression, chosen, after, days):
    agrees(expression, tz, after, after + timedelta(days=days), chosen)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(CHANGES), fields(0), fields(1), fields(2), options, st.integers(-30, 30))
def test_with_seconds_it_fires_what_a_scan_of_the_seconds_finds(change, second, minute, hour, chosen, hours):
    tz, day = change
    middle = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC) + timedelta(hours=hours)
    agrees(f"{second} {minute} {hour} * * *", tz, middle - timedelta(hours=2), middle + timedelta(hours=2), chosen)


@pytest.mark.parametrize(("tz", "day"), CHANGES)
@pytest.mark.parametrize("gap", ["first_valid", "shift", "skip"])
@pytest.mark.parametrize("fold", ["first", "second", "both"])
def test_every_option_at_every_listed_change(tz, day, gap, fold):
    middle = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
    chosen = {"gap": gap, "fold": fold}
    agrees("7-57/25 0-23 * * *", tz, middle - timedelta(days=1), middle + timedelta(days=1), chosen)
