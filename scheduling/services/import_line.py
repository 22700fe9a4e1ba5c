"""One line of a file of jobs, read: a JSON object becomes a tenant's slug and a checked definition.

::

    {"tenant": "acme", "name": "report", "cron": "0 6 * * mon-fri", "tz": "Europe/Paris", "task": "acme.tasks.report"}
    {"tenant": "acme", "name": "poll", "interval": "30m", "timeout": "5m", "max_concurrency": 1}

| key | meaning |
|---|---|
| `tenant`, `name` | the identity of the job; both are needed |
| `cron` | five fields, or six with seconds; `n/step` is read as `n-max/step`, and a note says so |
| `interval`, `minimum_interval` | a Go duration of job time, counted from `anchor` (the Unix epoch) |
| `timeout` | a Go duration of real time: the hard limit of a run |
| `max_concurrency` | 1 or more: runs do not overlap, they queue (`buffer_all`, up to 10,000); 0: no limit |
| `task`, `args`, `kwargs`, `tz`, `lane`, `anchor` | as the job's fields of these names; `tz` is UTC by default |

Exactly one of `cron`, `interval`, `minimum_interval` is needed. An unknown key refuses the line: a misspelt policy that
is dropped in silence would be found out in production. Pure: no database, no clock.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fairness.models import SLUG_PATTERN
from scheduling.core.clock import EPOCH
from scheduling.core.definition import JobDefinition, Kind, ScheduleFields
from scheduling.core.durations import parse_go_duration
from scheduling.core.errors import InvalidField
from scheduling.core.fire import OverlapPolicy
from scheduling.core.recurrence import normalize_steps
from scheduling.core.recurrence.zones import zone

SCHEDULES = ("cron", "interval", "minimum_interval")
KEYS = frozenset(
    {*SCHEDULES, "tenant", "name", "timeout", "max_concurrency", "task", "args", "kwargs", "tz", "lane", "anchor"}
)
CRON_LIMIT = 255  # characters that the job's column holds
BUFFER_LIMIT = 10_000  # fires that may wait for the one that runs: the file asks for an order, and to drop none


@dataclass(frozen=True, slots=True)
class ImportLine:
    """A line that can be imported. ``note`` says where the job differs from what the line says, if it does."""

    tenant: str
    definition: JobDefinition
    note: str = ""


def read_line(text: bytes, *, default_task: str = "") -> ImportLine:
    """Read one line; ``default_task`` serves a line that names none.

    Raises InvalidField, in the words of the line (``interval``, not ``every``).
    """
    values = _object(text)
    for key in values:
        if key not in KEYS:
            raise InvalidField(key, values[key], f"no such key; there are {', '.join(sorted(KEYS))}")
    for key in ("tenant", "name"):
        _needed_text(values, key)
    if not re.fullmatch(SLUG_PATTERN, values["tenant"]):
        problem = "is not lower-case letters, digits, '.', '_' and '-', up to 100, a letter or digit first"
        raise InvalidField("tenant", values["tenant"], problem)
    if not values.get("task", default_task):
        raise InvalidField("task", values.get("task"), "the line names no task, and there is no default for such lines")
    given = [key for key in SCHEDULES if key in values]
    if len(given) != 1:
        raise InvalidField("schedule", given, f"give exactly one of {', '.join(SCHEDULES)}")
    schedule, note = _cron(values) if given == ["cron"] else _interval(values, given[0])
    policy: dict[str, Any] = {key: values[key] for key in ("name", "args", "kwargs", "lane") if key in values}
    if "timeout" in values:
        policy["hard_timeout_s"] = _duration(values, "timeout").total_seconds()
    if "max_concurrency" in values:
        policy["overlap"], note = _overlap(values["max_concurrency"], note)
        policy["buffer_limit"] = BUFFER_LIMIT
    definition = JobDefinition(task=values.get("task", default_task), schedule=schedule, **policy)
    return ImportLine(values["tenant"], definition, note)


def _object(text: bytes) -> dict[str, Any]:
    try:
        values = json.loads(text.decode())
        json.dumps(values, ensure_ascii=False).encode()  # half a surrogate pair is JSON, and Postgres cannot store it
    except json.JSONDecodeError as problem:
        raise InvalidField("line", _start(text), f"is not JSON: {problem.msg} at character {problem.pos + 1}") from None
    except (UnicodeError, ValueError, RecursionError) as problem:
        raise InvalidField("line", _start(text), f"cannot be read: {problem}") from None
    if not isinstance(values, dict):
        raise InvalidField("line", _start(text), "is not a JSON object")
    return values


def _start(text: bytes) -> str:
    return text[:60].decode(errors="replace").rstrip()


def _needed_text(values: dict[str, Any], key: str) -> None:
    if not isinstance(values.get(key), str) or not values[key].strip():
        raise InvalidField(key, values.get(key), "is needed, as text: a job is found again by its tenant and name")


def _cron(values: dict[str, Any]) -> tuple[ScheduleFields, str]:
    said = values["cron"]
    if not isinstance(said, str):
        raise InvalidField("cron", said, "is not text")
    if "anchor" in values:
        raise InvalidField("anchor", values["anchor"], "goes with an interval only")
    cron = normalize_steps(said)
    if len(cron) > CRON_LIMIT:
        raise InvalidField("cron", said, f"is longer than {CRON_LIMIT} characters")
    note = f"cron {said!r} is read as {cron!r}" if cron != said else ""
    return ScheduleFields(kind=Kind.CRON, cron=cron, tz=values.get("tz", "UTC")), note


def _interval(values: dict[str, Any], key: str) -> tuple[ScheduleFields, str]:
    every = _duration(values, key)
    anchor = _instant(values["anchor"]) if "anchor" in values else EPOCH
    tz = values.get("tz", "UTC")
    zone(tz)
    schedule = ScheduleFields(kind=Kind.INTERVAL, every=every, anchor=anchor, tz=tz)
    try:
        schedule.build()
    except InvalidField as problem:
        raise InvalidField(key, values[key], problem.problem) from None
    note = "minimum_interval is read as an interval between starts" if key == "minimum_interval" else ""
    return schedule, note


def _duration(values: dict[str, Any], key: str) -> timedelta:
    try:
        length = parse_go_duration(values[key])
    except InvalidField as problem:
        raise InvalidField(key, values[key], problem.problem) from None
    if length <= timedelta(0):
        raise InvalidField(key, values[key], "is not above zero")
    return length


def _instant(text: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise InvalidField("anchor", text, "is not an ISO 8601 instant such as 2026-01-01T00:00:00Z") from None
    if moment.utcoffset() is None:
        raise InvalidField("anchor", text, "has no time zone; end it with Z or an offset")
    return moment


def _overlap(limit: Any, note: str) -> tuple[OverlapPolicy, str]:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise InvalidField("max_concurrency", limit, "is not a whole number from 0 on")
    if limit == 0:
        return OverlapPolicy.ALLOW, note
    if limit > 1:
        note = "; ".join(filter(None, [note, f"max_concurrency {limit} is read as 1"]))
    return OverlapPolicy.BUFFER_ALL, note
