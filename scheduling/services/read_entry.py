"""The entries of a Celery app's ``beat_schedule``, read as jobs.

| what the entry says | becomes |
|---|---|
| a number, a timedelta, ``schedule(…)`` | an interval of real time, counted from the Unix epoch; ``relative`` is that anyway |
| ``crontab(…)`` | the original text of each field, or its values where ours would read the text otherwise; in the app's zone; both day fields must match, as for Celery |
| ``solar(…)``, a class of one's own, a ``nowfun`` | refused |
| ``args``, ``kwargs`` | the job's, as Celery's JSON has them; a ``BeatLazyFunc`` is refused |
| ``expires`` in seconds | ``expires_after`` |
| ``time_limit``, ``soft_time_limit``, or the task's own | ``hard_timeout_s``, ``soft_timeout_s`` |
| the app's ``beat_cron_starting_deadline`` | a missed run of a ``crontab`` is skipped once it is later than this |
| any other option | noted: a job cannot say it |

No database, no clock.
"""  # noqa: E501  (rows of a table)

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from celery import Celery
from celery.beat import BeatLazyFunc
from celery.schedules import crontab, schedule, solar
from kombu.utils.json import dumps

from scheduling.core.clock import EPOCH
from scheduling.core.definition import JobDefinition, Kind, ScheduleFields
from scheduling.core.errors import InvalidField
from scheduling.core.fire import MisfirePolicy
from scheduling.core.recurrence import DayMatch
from scheduling.core.recurrence.cron_fields import parse
from scheduling.worker.task import JobTask

KEYS = frozenset({"task", "schedule", "args", "kwargs", "options", "relative"})
NO_LIMIT_S = 365 * 86_400.0  # a job has a hard limit; a plain task that Celery would not limit gets this one
_TO_ITS_TENANT = "a job's messages go to the queue of its tenant"
_NOT_SAID = {
    "queue": _TO_ITS_TENANT,
    "exchange": _TO_ITS_TENANT,
    "routing_key": _TO_ITS_TENANT,
    "priority": "the tenants' weights say who goes first",
}


@dataclass(frozen=True, slots=True)
class ReadEntry:
    """``notes``: what it says and a job cannot, a phrase each."""

    definition: JobDefinition
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class CodeSchedule:
    """A whole ``beat_schedule``, by the names of its entries; ``refused`` says why in a sentence."""

    entries: dict[str, ReadEntry] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def read_schedule(app: Celery[Any], said: Mapping[str, Any]) -> CodeSchedule:
    """Read each entry; one that is refused stops no other."""
    read = CodeSchedule()
    for name, entry in said.items():
        try:
            read.entries[name] = read_entry(app, name, entry)
        except InvalidField as problem:
            read.refused[name] = str(problem)
    return read


def read_entry(app: Celery[Any], name: str, said: Any) -> ReadEntry:
    """Raises InvalidField, in the words of the entry (``schedule``, not ``every``)."""
    if not isinstance(said, Mapping):
        raise InvalidField("entry", said, "is not a dictionary")
    for key in said:
        if key not in KEYS:
            raise InvalidField(key, said[key], f"no such key; there are {', '.join(sorted(KEYS))}")
    options = {key: value for key, value in _part(said, "options", {}).items() if value is not None and value != {}}
    name_of_task = said.get("task")
    task = app.tasks.get(name_of_task) if isinstance(name_of_task, str) else None
    policy = _limits(app, task, options)
    if isinstance(said.get("schedule"), crontab) and app.conf.beat_cron_starting_deadline is not None:
        policy |= {"misfire": MisfirePolicy.SKIP, "misfire_grace_s": app.conf.beat_cron_starting_deadline}
    if _is_seconds(options.get("expires")):
        policy["expires_after"] = timedelta(seconds=options["expires"])
    definition = JobDefinition(
        name=name,
        task=name_of_task,  # type: ignore[arg-type]  # what is no text is refused
        schedule=_schedule(app, said),
        args=_json("args", _part(said, "args", [])),
        kwargs=_json("kwargs", _part(said, "kwargs", {})),
        **policy,
    )
    return ReadEntry(definition, tuple(_notes(app, said, options, task)))


def _part(said: Mapping[str, Any], key: str, empty: Any) -> Any:
    """What the entry has under a key, as a list or a dictionary of its own."""
    value = said.get(key)
    if value is None:
        return empty
    if not isinstance(value, Mapping if isinstance(empty, dict) else (list, tuple)):
        raise InvalidField(key, value, f"is not a {'dictionary' if isinstance(empty, dict) else 'list'}")
    return type(empty)(value)


def _schedule(app: Celery[Any], said: Mapping[str, Any]) -> ScheduleFields:
    wanted = said.get("schedule")
    if isinstance(wanted, int | float):
        wanted = _interval_of(wanted)
    if isinstance(wanted, timedelta):
        return ScheduleFields(Kind.INTERVAL, every=wanted, anchor=EPOCH)
    if getattr(wanted, "nowfun", None) is not None:
        raise InvalidField("schedule", wanted, "has a clock of its own (nowfun); a job has none")
    if type(wanted) is schedule:
        every: Any = wanted
        return ScheduleFields(Kind.INTERVAL, every=every.run_every, anchor=EPOCH)
    if type(wanted) is crontab:
        return ScheduleFields(Kind.CRON, cron=cron_text(wanted), tz=_zone(app), day_match=DayMatch.AND)
    if isinstance(wanted, solar):
        raise InvalidField("schedule", wanted, "follows the sun, which no schedule of a job does")
    raise InvalidField("schedule", wanted, "is none of a number of seconds, a timedelta, schedule() and crontab()")


def _interval_of(seconds: float) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        raise InvalidField("schedule", seconds, "is not a length of time") from None


def _zone(app: Celery[Any]) -> str:
    zone = app.timezone
    name: str | None = getattr(zone, "key", None)
    if name is None:
        problem = "has no IANA name, so that a crontab cannot be read in it; set the app's timezone, as Europe/Paris"
        raise InvalidField("timezone", zone, problem)
    return name


def cron_text(said: Any) -> str:
    """A ``crontab`` as an expression that means the same: ``22-2`` is written out, since ours runs over no end."""
    fields = (
        (said._orig_minute, said.minute),
        (said._orig_hour, said.hour),
        (said._orig_day_of_month, said.day_of_month),
        (said._orig_month_of_year, said.month_of_year),
        (said._orig_day_of_week, said.day_of_week),
    )
    return " ".join(_field(place, original, values) for place, (original, values) in enumerate(fields))


def _field(place: int, original: Any, values: set[int]) -> str:
    if isinstance(original, int | str) and _means(place, str(original)) == values:
        return str(original)
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in _runs(values))


def _means(place: int, text: str) -> set[int]:
    """The values of one field as our parser reads it; none where it refuses."""
    words = ["*"] * 5
    words[place] = text
    try:
        read = parse(" ".join(words), "")
    except InvalidField:
        return set()
    mask = (read.minutes, read.hours, read.day_rule.days, read.months, read.day_rule.weekdays)[place]
    return {value for value in range(60) if mask >> value & 1}


def _runs(values: set[int]) -> Iterator[tuple[int, int]]:
    """
    >>> list(_runs({0, 1, 2, 22, 23}))
    [(0, 2), (22, 23)]
    """
    for low in sorted(value for value in values if value - 1 not in values):
        high = low
        while high + 1 in values:
            high += 1
        yield low, high


def _json(name: str, value: Any) -> Any:
    """As Celery's serializer writes it: a date becomes ``{"__type__": "date", …}``, which the worker reads back."""
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, BeatLazyFunc):
            raise InvalidField(name, part, "is computed when it is sent (BeatLazyFunc); a job's arguments are stored")
    try:
        return json.loads(dumps(value))
    except (TypeError, ValueError, RecursionError) as problem:
        raise InvalidField(name, value, f"is not JSON: {problem}") from problem


def _limits(app: Celery[Any], task: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The limits that Celery would set: of the options, the task, the app. A message of ours always has a hard one."""
    limits: dict[str, Any] = {}
    hard = options.get("time_limit") or getattr(task, "time_limit", None) or app.conf.task_time_limit
    if hard or not isinstance(task, JobTask):
        limits["hard_timeout_s"] = hard or NO_LIMIT_S
    if soft := options.get("soft_time_limit"):
        limits["soft_timeout_s"] = soft
    return limits


def _notes(app: Celery[Any], said: Mapping[str, Any], options: Mapping[str, Any], task: Any) -> Iterator[str]:
    relative = said.get("relative") or getattr(said.get("schedule"), "relative", False)
    if relative and str(app.timezone) != "UTC":
        yield f"relative (intervals are counted in UTC, not in {app.timezone}; a crontab is in the app's zone)"
    for option, value in options.items():
        if option in ("time_limit", "soft_time_limit") or (option == "priority" and value == 0):
            continue
        if option == "expires":
            if not _is_seconds(value):
                yield f"expires {value!r} (a job's expiry counts from each occurrence: give seconds)"
            elif not isinstance(task, JobTask):
                yield f"expires {value!r} (only a task made with @job is held to it)"
        else:
            yield f"{option} {value!r} ({_NOT_SAID.get(option, 'a job has nothing like it')})"


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float)
