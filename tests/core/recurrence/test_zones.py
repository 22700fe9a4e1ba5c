"""Segments against the transition tables that the pure-Python zoneinfo reads from the files, for every zone."""

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import _zoneinfo, available_timezones  # type: ignore[attr-defined]

import pytest

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence import Cron
from scheduling.core.recurrence.zones import segment_at, transitions, zone

FROM = int(datetime(2010, 1, 1, tzinfo=UTC).timestamp())
UNTIL = int(datetime(2037, 12, 31, tzinfo=UTC).timestamp())  # where the tables end and the rule behind them goes on


def tabled(name: str, since: int = FROM) -> list[tuple[int, int, int]]:
    """The changes of offset as the file has them; entries that change only a name are not among them."""
    table = _zoneinfo.ZoneInfo.no_cache(name)
    infos = [table._tti_before or table._ttinfos[0], *table._ttinfos] if table._ttinfos else []
    offsets = [int(info.utcoff.total_seconds()) for info in infos]
    changes = [
        (at, before, after)
        for at, (before, after) in zip(table._trans_utc, pairwise(offsets), strict=True)
        if before != after
    ]
    return [change for change in changes if since < change[0] <= UNTIL]


def test_every_change_since_2010_of_every_zone_is_found_to_the_second():
    seen = set()
    for name in sorted(available_timezones() - {"Factory", "localtime"}):
        expected = tabled(name)
        if expected and tuple(expected) in seen:
            continue  # another name of the same zone
        seen.add(tuple(expected))
        # older files list each year up to 2037, newer ones leave the last rule to the footer
        last = expected[-1][0] if expected else UNTIL
        assert list(transitions(name, after=FROM, until=last)) == expected, name


def test_changes_are_far_enough_apart_for_the_probe_and_longer_than_they_skip():
    for name in sorted(available_timezones() - {"Factory", "localtime"}):
        for (at, *_), (following, before, after) in pairwise(tabled(name, since=0)):
            assert following - at > 6 * 86_400, name
            assert abs(after - before) <= 86_400, name


@pytest.mark.parametrize("name", ["Europe/Paris", "Pacific/Apia", "Asia/Kolkata", "UTC", "Africa/Casablanca"])
def test_segments_follow_each_other_without_a_hole(name):
    instant = int(datetime(1971, 1, 1, tzinfo=UTC).timestamp())
    while instant < UNTIL:
        segment = segment_at(name, instant)
        assert segment.start <= instant < segment.end
        local = datetime.fromtimestamp(instant, zone(name)).utcoffset()
        assert local == timedelta(seconds=segment.offset)
        assert segment_at(name, segment.end - 1).offset == segment.offset
        assert segment_at(name, segment.end).offset == segment.after
        instant = segment.end


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Mars/Base",
        "europe/parus",
        "Europe",
        "../etc/passwd",
        "/etc/passwd",
        "right/UTC",
        "posix/UTC",
        "localtime",
        "Europe/Paris\x00",
        3,
        None,
    ],
)
def test_an_unknown_zone_is_refused_at_the_border(name):
    with pytest.raises(InvalidField) as refusal:
        Cron("0 9 * * *", name)
    assert refusal.value.field == "tz"


def test_a_misspelt_zone_gets_a_hint():
    with pytest.raises(InvalidField, match=r"did you mean Europe/Paris\?"):
        Cron("0 9 * * *", "Europe/Pariss")


def test_the_ends_of_time_are_no_error():
    cron = Cron("0 9 * * *", "Pacific/Apia")
    assert cron.next_after(datetime(9999, 12, 31, 23, tzinfo=UTC)) is None
    assert cron.next_after(datetime(1, 1, 1, tzinfo=UTC)) is not None
    assert Cron("* * * * * *", "America/New_York").next_after(datetime(9999, 12, 31, 23, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("expression", "day_match", "after", "expected"),
    [
        ("0 0 29 2 1", "and", "2072-03-01", "2112-02-29"),  # forty years of nothing, over 2100
        ("0 0 29 2 *", "or", "2096-03-01", "2104-02-29"),
        ("0 0 1 1 6#1", "and", "2026-01-01", "2028-01-01"),
        ("59 59 23 31 12 0L", "and", "2023-12-31 23:59:59", "2028-12-31 23:59:59"),
    ],
)
def test_years_of_nothing_cost_no_time(expression, day_match, after, expected):
    cron = Cron(expression, "America/New_York", day_match=day_match)
    zone_ = zone("America/New_York")
    segment_at("America/New_York", int(datetime.fromisoformat(expected).replace(tzinfo=UTC).timestamp()))
    began = time.process_time()
    found = cron.next_after(datetime.fromisoformat(after).replace(tzinfo=zone_))
    spent = time.process_time() - began
    assert found == datetime.fromisoformat(expected).replace(tzinfo=zone_)
    assert spent < 0.05
