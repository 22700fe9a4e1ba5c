"""``manage.py explain JOB``: why it waits, and what happens next; ``--fire ID`` for one fire.

``--json`` prints one object::

    {"job": "0195…", "name": "acme/report", "reason": "rate", "words": "held by the rate of acme …",
     "until": "2026-03-02T12:00:03+00:00", "expected_at": …, "ahead": 17, "ahead_is_least": false, "rank": 3,
     "tenants": 12, "holders": [], "due_at": …, "paused": null, "problem": "", "held_since": null,
     "coming": [{"utc": …, "local": …, "marks": []}, …],
     "fires": [{"fire": "0195…", "scheduled_for": …, "state": "parked", "reason": …, …}, …]}

The first fields are of the next occurrence that has no row yet, those of ``fires`` of the unfinished ones; there is
exactly one ``reason`` for each (scheduling/core/why.py lists them). ``ahead``: fires of the tenant's lane that go
before it; ``rank``: its tenant is that one in line, of so many ``tenants``; ``expected_at``: when it may start, null
where nobody can tell. ``due_at`` and ``held_since`` are job times, the others real ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser

from scheduling.core.errors import InvalidField
from scheduling.core.recurrence import Preview
from scheduling.core.why import Explained
from scheduling.management.operating_command import OperatingCommand
from scheduling.services.explain import ExplainedFire, ExplainedJob, explain_fires, explain_job
from scheduling.services.find_job import find_job


class Command(OperatingCommand):
    help = "Say why a job, or one of its fires, waits: exactly one reason for each, and when it may start."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("job", nargs="?", default="", metavar="JOB", help="TENANT/NAME, or an id")
        parser.add_argument("--fire", default="", metavar="ID", help="a fire alone")
        super().add_arguments(parser)

    def operate(self, *_: Any, **options: Any) -> None:
        if bool(options["job"]) == bool(options["fire"]):
            raise CommandError("name a job, or a fire with --fire")
        if options["fire"]:
            fire = _fire(options["fire"])
            self.tell(_fire_json(fire), "\n".join(_fire_lines(fire)), as_json=options["json"])
        else:
            found = explain_job(find_job(options["job"]))
            self.tell(_job_json(found), "\n".join(_job_lines(found)), as_json=options["json"])


def _fire(text: str) -> ExplainedFire:
    try:
        fire = UUID(text)
    except ValueError:
        raise InvalidField("fire", text, "is no id") from None
    found = explain_fires([fire]).get(fire)
    if found is None:
        raise InvalidField("fire", text, "there is no such fire")
    return found


def _job_lines(found: ExplainedJob) -> Iterator[str]:
    job = found.job
    yield f"{_name(found)}: {found.next.words}"
    yield from _details(found.next)
    if found.held_since is not None:
        yield f"  its tenant has had more due than is claimed since {_time(found.held_since)}"
    if job.paused_at is not None and found.next.why != "paused":
        yield f"  paused by {job.paused_by or 'someone'}: {job.pause_reason or 'without a reason'}"
    if found.coming:
        yield f"  its schedule: {', '.join(_coming(entry) for entry in found.coming)}"
    for fire in found.fires:
        yield from _fire_lines(fire)


def _coming(entry: Preview) -> str:
    marks = f" ({', '.join(map(str, entry.marks))})" if entry.marks else ""
    return f"{_time(entry.utc)}{marks}"


def _fire_lines(fire: ExplainedFire) -> Iterator[str]:
    yield f"fire {fire.id} of {_time(fire.scheduled_for)}: {fire.explained.words}"
    yield from _details(fire.explained)


def _details(found: Explained) -> Iterator[str]:
    if found.expected_at is not None:
        yield f"  may start at {_time(found.expected_at)}"
    for holder in found.holders:
        yield f"  behind {holder}"


def _time(moment: Any) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _name(found: ExplainedJob) -> str:
    return f"{found.job.tenant.slug}/{found.job.name or found.job.pk}"


def _job_json(found: ExplainedJob) -> dict[str, Any]:
    job = found.job
    pause = {"at": job.paused_at, "by": job.paused_by, "reason": job.pause_reason, "until": job.paused_until}
    return {
        "job": job.pk,
        "name": _name(found),
        **_explained_json(found.next),
        "due_at": found.due_at,
        "paused": None if job.paused_at is None else pause,
        "problem": job.problem,
        "held_since": found.held_since,
        "coming": [entry.as_json() for entry in found.coming],
        "fires": [_fire_json(fire) for fire in found.fires],
    }


def _fire_json(fire: ExplainedFire) -> dict[str, Any]:
    about = {"fire": fire.id, "scheduled_for": fire.scheduled_for, "state": fire.state}
    return about | _explained_json(fire.explained)


def _explained_json(found: Explained) -> dict[str, Any]:
    columns = ("words", "until", "expected_at", "ahead", "ahead_is_least", "rank", "tenants")
    return {"reason": found.why, **{name: getattr(found, name) for name in columns}, "holders": list(found.holders)}
