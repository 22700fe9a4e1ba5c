"""A schedule as arguments of a command: what is typed becomes ``ScheduleFields``, without a database."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from typing import Any

from django.core.management.base import CommandParser

from scheduling.core.clock import EPOCH
from scheduling.core.closed_times import calendar_of
from scheduling.core.definition import Kind, ScheduleFields
from scheduling.core.durations import parse_go_duration
from scheduling.core.errors import InvalidField
from scheduling.core.recurrence import Calendar, DayMatch, Fold, Gap

KINDS = {"cron": Kind.CRON, "every": Kind.INTERVAL, "rrule": Kind.RRULE, "at": Kind.ONCE}


def add_schedule_arguments(parser: CommandParser) -> None:
    parser.add_argument("--cron", help="five fields, or six with seconds first")
    parser.add_argument("--every", metavar="LENGTH", help="an interval, as 30m, 1h30m or 500ms")
    parser.add_argument("--rrule", metavar="RULE", help="RFC 5545, as FREQ=WEEKLY;BYDAY=MO; lines DTSTART and EXDATE")
    parser.add_argument("--at", metavar="ISO", help="one instant, with its offset: 2026-03-08T09:00:00Z")
    parser.add_argument("--tz", default="UTC", metavar="ZONE", help="IANA time zone, as Europe/Paris (UTC)")
    parser.add_argument("--anchor", metavar="ISO", help="what an interval counts from (the Unix epoch)")
    parser.add_argument("--dtstart", metavar="ISO", help="what a rule counts from (the moment of --from)")
    parser.add_argument("--start-at", metavar="ISO", help="nothing before this")
    parser.add_argument("--end-at", metavar="ISO", help="nothing after this")
    parser.add_argument("--day-match", default="or", help=f"both day fields of a cron set: {', '.join(DayMatch)} (or)")
    parser.add_argument("--gap", default=Gap.FIRST_VALID.value, help=f"a time that does not exist: {', '.join(Gap)}")
    parser.add_argument("--fold", default=Fold.FIRST.value, help=f"a time that comes twice: {', '.join(Fold)}")
    parser.add_argument(
        "--calendar", metavar="JSON", help='closed times: {"days": ["2026-12-25"], "hours": [{"begins": …, "ends": …}]}'
    )


def schedule_of(options: dict[str, Any], *, after: datetime) -> ScheduleFields:
    """Raises InvalidField, in the words of the command line."""
    given = [name for name in KINDS if options[name] is not None]
    if len(given) != 1:
        raise InvalidField("schedule", given, f"give exactly one of {', '.join(f'--{name}' for name in KINDS)}")
    kind = KINDS[given[0]]
    dtstart = instant("dtstart", options["dtstart"])
    if kind is Kind.RRULE and dtstart is None and "DTSTART" not in options["rrule"].upper():
        dtstart = after
    return ScheduleFields(
        kind=kind,
        at=instant("at", options["at"]),
        every=length("every", options["every"]),
        anchor=instant("anchor", options["anchor"]) or EPOCH,
        cron=options["cron"] or "",
        rrule=options["rrule"] or "",
        dtstart=dtstart,
        tz=options["tz"],
        day_match=options["day_match"],
        gap=options["gap"],
        fold=options["fold"],
        start_at=instant("start_at", options["start_at"]),
        end_at=instant("end_at", options["end_at"]),
    )


def calendar_from(text: str | None, *, tz: str) -> Calendar | None:
    """Raises InvalidField (``calendar``)."""
    if text is None:
        return None
    try:
        said = json.loads(text)
        days = [date.fromisoformat(day) for day in said.get("days", [])]
    except (ValueError, TypeError, AttributeError, RecursionError) as problem:
        raise InvalidField("calendar", text, f"is no object with days and hours: {problem}") from None
    return calendar_of(said.get("tz", tz), days, said.get("hours", []))


def instant(name: str, text: str | None) -> datetime | None:
    """Raises InvalidField, naming ``name``."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidField(name, text, "is not an ISO 8601 instant such as 2026-03-08T09:00:00Z") from None
    if moment.utcoffset() is None:
        raise InvalidField(name, text, "has no time zone; end it with Z or an offset")
    return moment


def length(name: str, text: str | None) -> timedelta | None:
    """Raises InvalidField, naming ``name``."""
    if text is None:
        return None
    try:
        return parse_go_duration(text)
    except InvalidField as problem:
        raise InvalidField(name, text, problem.problem) from None


def whole(name: str, text: str) -> int:
    """Raises InvalidField, naming ``name``."""
    try:
        return int(text)
    except ValueError:
        raise InvalidField(name, text, "is not a whole number") from None
