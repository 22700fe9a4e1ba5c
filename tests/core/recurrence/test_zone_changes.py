"""The tables of docs/semantics.md, section "Zone changes", as literal instants."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from scheduling.core.recurrence import Cron, occurrences


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def fires(expression: str, tz: str, after: str, until: str, **options) -> list[str]:
    """What fires in (after, until], both in UTC; shown on the zone's clock, with the offset."""
    found = occurrences(Cron(expression, tz, **options), after=at(after), until=at(until))
    return [f"{moment.astimezone(ZoneInfo(tz)):%d %H:%M %z}" for moment in found]


NEW_YORK, LONDON = "America/New_York", "Europe/London"
GAP = (
    "2026-03-07 12:00",
    "2026-03-09 03:59",
)  # from Saturday 07:00 EST to Sunday midnight; the gap is Sunday 02:00 to 03:00
FOLD = ("2026-11-01 04:00", "2026-11-02 05:00")  # Sunday 1 November on the wall; the fold is 01:00 to 02:00


@pytest.mark.parametrize(
    ("expression", "options", "expected"),
    [
        ("30 2 * * *", {}, ["08 03:00 -0400"]),
        ("30 2 * * *", {"gap": "shift"}, ["08 03:30 -0400"]),
        ("30 2 * * *", {"gap": "skip"}, []),
        ("0,15,30 2 * * *", {}, ["08 03:00 -0400"]),
        ("0,15,30 2 * * *", {"gap": "shift"}, ["08 03:00 -0400", "08 03:15 -0400", "08 03:30 -0400"]),
        ("0 2,3 * * *", {}, ["08 03:00 -0400"]),
        ("0 2,3 * * *", {"gap": "skip"}, ["08 03:00 -0400"]),
        ("30 2,3 * * *", {}, ["08 03:00 -0400", "08 03:30 -0400"]),
        ("30 2,3 * * *", {"gap": "shift"}, ["08 03:30 -0400"]),
        ("0 1,3 * * *", {}, ["08 01:00 -0500", "08 03:00 -0400"]),
        ("0 */2 8 * *", {}, [f"08 {h:02}:00 {'-0500' if h < 2 else '-0400'}" for h in (0, *range(4, 24, 2))]),
        ("30 * 8 * *", {}, [f"08 {h:02}:30 {'-0500' if h < 2 else '-0400'}" for h in (0, 1, *range(3, 24))]),
        ("*/30 2 * * *", {}, []),
        ("0 12 * * *", {}, ["07 12:00 -0500", "08 12:00 -0400"]),
    ],
)
def test_new_york_s_gap(expression, options, expected):
    assert fires(expression, NEW_YORK, *GAP, **options) == expected


@pytest.mark.parametrize(
    ("expression", "options", "expected"),
    [
        ("30 1 * * *", {}, ["01 01:30 -0400"]),
        ("30 1 * * *", {"fold": "second"}, ["01 01:30 -0500"]),
        ("30 1 * * *", {"fold": "both"}, ["01 01:30 -0400", "01 01:30 -0500"]),
        ("0,30 1 * * *", {"fold": "both"}, ["01 01:00 -0400", "01 01:30 -0400", "01 01:00 -0500", "01 01:30 -0500"]),
        ("0 1,2 * * *", {}, ["01 01:00 -0400", "01 02:00 -0500"]),
        ("59 0,1 * * *", {"fold": "second"}, ["01 00:59 -0400", "01 01:59 -0500"]),
        ("*/30 1 * * *", {}, ["01 01:00 -0400", "01 01:30 -0400", "01 01:00 -0500", "01 01:30 -0500"]),
        ("*/30 1 * * *", {"fold": "second"}, ["01 01:00 -0400", "01 01:30 -0400", "01 01:00 -0500", "01 01:30 -0500"]),
        ("0 0 * * *", {}, ["02 00:00 -0500"]),
    ],
)
def test_new_york_s_fold(expression, options, expected):
    assert fires(expression, NEW_YORK, *FOLD, **options) == expected


@pytest.mark.parametrize(
    ("expression", "tz", "after", "until", "options", "expected"),
    [
        # London: 2026-03-29 01:00 to 02:00 is missing, 2026-10-25 01:00 to 02:00 stands twice
        ("30 1 * * *", LONDON, "2026-03-28 12:00", "2026-03-29 12:00", {}, ["29 02:00 +0100"]),
        ("30 1 * * *", LONDON, "2026-10-24 12:00", "2026-10-25 12:00", {}, ["25 01:30 +0100"]),
        ("30 1 * * *", LONDON, "2026-10-24 12:00", "2026-10-25 12:00", {"fold": "second"}, ["25 01:30 +0000"]),
        ("0 9 * * mon", LONDON, "2026-03-22 12:00", "2026-04-01 12:00", {}, ["23 09:00 +0000", "30 09:00 +0100"]),
        # Kolkata never changes, and is half an hour off
        ("0 9 * * *", "Asia/Kolkata", "2026-03-28 12:00", "2026-03-29 12:00", {}, ["29 09:00 +0530"]),
        ("0 * * * *", "Asia/Kolkata", "2026-03-29 03:00", "2026-03-29 05:00", {}, ["29 09:00 +0530", "29 10:00 +0530"]),
        ("30 2 * * *", "UTC", "2026-03-28 12:00", "2026-03-29 12:00", {}, ["29 02:30 +0000"]),
        # Lord Howe changes by 30 minutes: 2026-10-04 02:00 to 02:30 is missing, 2026-04-05 01:30 to 02:00 stands twice
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00", "2026-10-04 12:00", {}, ["04 02:30 +1100"]),
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03 12:00",
            "2026-10-04 12:00",
            {"gap": "shift"},
            ["04 02:45 +1100"],
        ),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04 12:00", "2026-04-05 12:00", {}, ["05 01:45 +1100"]),
        (
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-04 12:00",
            "2026-04-05 12:00",
            {"fold": "second"},
            ["05 01:45 +1030"],
        ),
        # São Paulo changed at midnight: 2018-11-04 00:00 to 01:00 is missing, 2019-02-16 23:00 to 24:00 stood twice
        ("0 0 * * *", "America/Sao_Paulo", "2018-11-03 12:00", "2018-11-04 12:00", {}, ["04 01:00 -0200"]),
        ("0 0 * * *", "America/Sao_Paulo", "2018-11-03 12:00", "2018-11-04 12:00", {"gap": "skip"}, []),
        ("0 0 4 * *", "America/Sao_Paulo", "2018-11-03 12:00", "2018-11-04 12:00", {}, ["04 01:00 -0200"]),
        ("30 23 * * *", "America/Sao_Paulo", "2019-02-16 12:00", "2019-02-17 12:00", {}, ["16 23:30 -0200"]),
        (
            "30 23 * * *",
            "America/Sao_Paulo",
            "2019-02-16 12:00",
            "2019-02-17 12:00",
            {"fold": "second"},
            ["16 23:30 -0300"],
        ),
        # Apia had no 30 December 2011
        (
            "0 9 * * *",
            "Pacific/Apia",
            "2011-12-29 12:00",
            "2011-12-31 00:00",
            {},
            ["29 09:00 -1000", "31 00:00 +1400", "31 09:00 +1400"],
        ),
        (
            "0 9 * * *",
            "Pacific/Apia",
            "2011-12-29 12:00",
            "2011-12-31 00:00",
            {"gap": "skip"},
            ["29 09:00 -1000", "31 09:00 +1400"],
        ),
        ("0 9 30 12 *", "Pacific/Apia", "2011-12-29 12:00", "2012-01-02 00:00", {"gap": "shift"}, ["31 09:00 +1400"]),
        (
            "0 */12 * * *",
            "Pacific/Apia",
            "2011-12-29 12:00",
            "2011-12-31 00:00",
            {},
            ["29 12:00 -1000", "31 00:00 +1400", "31 12:00 +1400"],
        ),
        # Troll changes by two hours: 2026-03-29 01:00 to 03:00 is missing
        ("0 1,2 * * *", "Antarctica/Troll", "2026-03-28 12:00", "2026-03-29 12:00", {}, ["29 03:00 +0200"]),
        (
            "30 2 * * *",
            "Antarctica/Troll",
            "2026-10-24 12:00",
            "2026-10-25 12:00",
            {"fold": "both"},
            ["25 02:30 +0200", "25 02:30 +0000"],
        ),
        # Casablanca goes back for Ramadan: 2026-02-15 02:00 to 03:00 stands twice, 2026-03-22 02:00 to 03:00 is missing
        (
            "30 2 * * *",
            "Africa/Casablanca",
            "2026-02-14 12:00",
            "2026-02-15 12:00",
            {"fold": "both"},
            ["15 02:30 +0100", "15 02:30 +0000"],
        ),
        ("30 2 * * *", "Africa/Casablanca", "2026-03-21 12:00", "2026-03-22 12:00", {}, ["22 03:00 +0100"]),
    ],
)
def test_other_zones(expression, tz, after, until, options, expected):
    assert fires(expression, tz, after, until, **options) == expected
