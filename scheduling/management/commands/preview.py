"""``manage.py preview``: the next fires of a schedule, by the code that schedules.

Only ``--job`` needs a database; without it no connection is opened.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseError

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence import Jitter, Preview, Schedule, lint, preview, words
from scheduling.management.schedule_arguments import (
    KINDS,
    add_schedule_arguments,
    calendar_from,
    instant,
    length,
    schedule_of,
    whole,
)

NOBODY = UUID(int=0)


@dataclass(frozen=True, slots=True)
class _Shown:
    schedule: Schedule
    after: datetime
    entries: list[Preview]
    rate_per_s: float | None = None  # of its tenant
    spread: str = ""  # how long its jitter is, and who has said so


class Command(BaseCommand):
    help = "Print the next fires of a schedule: the instant, the local time with its offset, and what is odd about it."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        add_schedule_arguments(parser)
        parser.add_argument("--job", metavar="TENANT/NAME", help="a job of the database, in place of a schedule")
        parser.add_argument("--from", dest="after", metavar="ISO", help="only what is after this instant (now)")
        parser.add_argument("--count", default="6", metavar="N", help="how many (6)")
        parser.add_argument("--jitter", metavar="LENGTH", help="show when they would fire, with jitter")
        parser.add_argument("--id", metavar="UUID", help="the job by which H and jitter are spread")
        parser.add_argument("--json", action="store_true", help="print a list of JSON objects")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            shown = _of_job(options) if options["job"] is not None else _of_arguments(options)
        except InvalidField as problem:
            raise CommandError(str(problem)) from problem
        except DatabaseError as problem:
            reason = str(problem).strip().partition("\n")[0]
            raise CommandError(f"job {options['job']!r}: the database does not answer: {reason}") from problem
        if options["json"]:
            self.stdout.write(json.dumps([entry.as_json() for entry in shown.entries], indent=1))
        else:
            self._print(shown)

    def _print(self, shown: _Shown) -> None:
        self.stdout.write(words(shown.schedule))
        for entry in shown.entries:
            self.stdout.write(f"  {_line(entry)}")
        if not shown.entries:
            self.stdout.write("  nothing more")
        if shown.spread:
            self.stdout.write(shown.spread)
        for caution in lint(shown.schedule, now=shown.after, rate_per_s=shown.rate_per_s):
            self.stdout.write(f"warning: {caution.reason}")


def _of_arguments(options: dict[str, Any]) -> _Shown:
    after = instant("from", options["after"]) or datetime.now(UTC)
    fields = schedule_of(options, after=after)
    job_id = _id(options["id"])
    schedule = fields.build(job_id)
    jitter = length("jitter", options["jitter"])
    entries = preview(
        schedule,
        after=after,
        count=whole("count", options["count"]),
        tz=fields.tz,
        calendar=calendar_from(options["calendar"], tz=fields.tz),
        jitter=Jitter(job_id, jitter) if jitter else None,
    )
    return _Shown(schedule, after, entries)


def _of_job(options: dict[str, Any]) -> _Shown:
    from scheduling.models import JobClock
    from scheduling.services.find_job import find_job

    given = [name for name in KINDS if options[name] is not None]
    if given:
        raise InvalidField("job", options["job"], f"has a schedule of its own; leave --{given[0]} out")
    job = find_job(options["job"])
    after = instant("from", options["after"]) or JobClock.objects.now()
    entries = job.preview(whole("count", options["count"]), after=after)
    spread = f"spread over {job.jitter}" if job.jitter else ""
    if job.jitter and job.jitter == job.tenant.stagger:
        spread += ", as its tenant staggers its jobs"
    return _Shown(job.schedule, after, entries, job.tenant.rate_per_s, spread)


def _id(text: str | None) -> UUID:
    try:
        return NOBODY if text is None else UUID(text)
    except ValueError:
        raise InvalidField("id", text, "is not a UUID") from None


def _line(entry: Preview) -> str:
    said = entry.as_json()
    line = f"{entry.local:%a} {entry.local.isoformat(' ')}  {said['utc']}"
    if entry.marks:
        line += f"  {', '.join(entry.marks)}"
    if entry.nominal:
        line += f" (stands for {', '.join(local.isoformat(' ') for local in entry.nominal)})"
    return f"{line}, fires at {said['fire_at']}" if "fire_at" in said else line
