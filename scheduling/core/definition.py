"""What a person says of a job, checked: the one way in for the ORM, the importer, ``@job`` and the admin.

Pure. A definition that exists is valid: everything that can be refused is refused here, by an error that names the field.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from scheduling.core.errors import InvalidField
from scheduling.core.fire import Lane, MisfirePolicy, OverlapPolicy
from scheduling.core.message import canonical_json
from scheduling.core.recurrence import Cron, Interval, Once, Schedule

PAYLOAD_LIMIT = 256 * 1024  # bytes of JSON; one oversized frame would cost a whole batch its connection
NAME_LIMIT = 200
TASK_LIMIT = 255
INT32_MAX = 2**31 - 1


class Kind(StrEnum):
    ONCE = "once"
    INTERVAL = "interval"
    CRON = "cron"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFields:
    """The schedule as a job's row stores it; ``build()`` gives the schedule itself, and refuses an impossible one."""

    kind: Kind
    at: datetime | None = None
    every: timedelta | None = None
    anchor: datetime | None = None
    cron: str = ""
    tz: str = "UTC"

    def build(self, key: str = "") -> Schedule:
        """``key`` is the job's stable identity, over which ``H`` in a cron expression is spread.

        Raises InvalidField.
        """
        match self.kind:
            case Kind.ONCE:
                return Once(required("at", self.at))
            case Kind.INTERVAL:
                return Interval(required("every", self.every), required("anchor", self.anchor))
            case Kind.CRON:
                return Cron(self.cron, tz=self.tz, key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefinition:
    """A job before it is a row. ``args`` and ``kwargs`` are JSON values; times are aware; durations are job time unless named ``_s``."""

    task: str
    schedule: ScheduleFields
    name: str = ""
    description: str = ""
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    lane: Lane = Lane.BULK
    jitter: timedelta = timedelta(0)
    misfire: MisfirePolicy = MisfirePolicy.LATEST
    misfire_grace_s: float = 30.0
    catch_up_limit: int = 100
    catch_up_window: timedelta = timedelta(hours=1)
    overlap: OverlapPolicy = OverlapPolicy.ALLOW
    buffer_limit: int = 100
    max_attempts: int = 3
    retry_base: timedelta = timedelta(seconds=10)
    retry_cap: timedelta = timedelta(hours=1)
    soft_timeout_s: float | None = None
    hard_timeout_s: float = 3600.0
    expires_after: timedelta | None = None

    def __post_init__(self) -> None:
        _text("task", self.task, TASK_LIMIT)
        if not self.task.strip():
            raise InvalidField("task", self.task, "a job needs the name of a Celery task, such as 'shop.tasks.charge'")
        _text("name", self.name, NAME_LIMIT)
        _text("description", self.description, 10_000)
        _json(self.args, self.kwargs)
        for name, enum in (("lane", Lane), ("misfire", MisfirePolicy), ("overlap", OverlapPolicy)):
            _member(self, name, enum)
        _duration("jitter", self.jitter, at_least=timedelta(0))
        _number("misfire_grace_s", self.misfire_grace_s, above=0)
        _number("catch_up_limit", self.catch_up_limit, above=0, whole=True)
        _duration("catch_up_window", self.catch_up_window, at_least=timedelta(0))
        _number("buffer_limit", self.buffer_limit, above=0, whole=True)
        _number("max_attempts", self.max_attempts, above=0, whole=True)
        _duration("retry_base", self.retry_base, at_least=timedelta(0))
        _duration("retry_cap", self.retry_cap, at_least=self.retry_base)
        _number("hard_timeout_s", self.hard_timeout_s, above=0)
        if self.soft_timeout_s is not None:
            _number("soft_timeout_s", self.soft_timeout_s, above=0)
            if self.soft_timeout_s > self.hard_timeout_s:
                raise InvalidField(
                    "soft_timeout_s", self.soft_timeout_s, f"is above hard_timeout_s ({self.hard_timeout_s:g})"
                )
        if self.expires_after is not None:
            _duration("expires_after", self.expires_after, at_least=timedelta(milliseconds=1))
        self.schedule.build()

    @classmethod
    def cron_job(cls, task: str, expression: str, *, tz: str = "UTC", **policy: Any) -> JobDefinition:
        return _defined(cls, task, ScheduleFields(kind=Kind.CRON, cron=expression, tz=tz), policy)

    @classmethod
    def interval_job(cls, task: str, every: timedelta, *, anchor: datetime, **policy: Any) -> JobDefinition:
        return _defined(cls, task, ScheduleFields(kind=Kind.INTERVAL, every=every, anchor=anchor), policy)

    @classmethod
    def once_job(cls, task: str, at: datetime, **policy: Any) -> JobDefinition:
        return _defined(cls, task, ScheduleFields(kind=Kind.ONCE, at=at), policy)

    def columns(self) -> dict[str, Any]:
        """The values of the job's row that a person decides."""
        row = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "schedule"}
        row.update({f.name: getattr(self.schedule, f.name) for f in fields(self.schedule)})
        return row


POLICY_FIELDS = frozenset(f.name for f in fields(JobDefinition)) - {"task", "schedule"}


def required(name: str, value: Any) -> Any:
    if value is None:
        raise InvalidField(name, value, "is needed for this kind of schedule")
    return value


def _defined(
    cls: type[JobDefinition], task: str, schedule: ScheduleFields, policy: dict[str, Any]
) -> JobDefinition:
    for name in policy:
        if name not in POLICY_FIELDS:
            raise InvalidField(name, policy[name], f"no such option; there are {', '.join(sorted(POLICY_FIELDS))}")
    return cls(task=task, schedule=schedule, **policy)


def _text(name: str, value: Any, limit: int) -> None:
    if not isinstance(value, str):
        raise InvalidField(name, value, "is not text")
    if len(value) > limit:
        raise InvalidField(name, value, f"is longer than {limit} characters")
    if "\x00" in value:
        raise InvalidField(name, value, "contains a NUL character, which Postgres cannot store")


def _json(args: Any, kwargs: Any) -> None:
    if not isinstance(args, list | tuple):
        raise InvalidField("args", args, "is not a list")
    if not isinstance(kwargs, dict) or not all(isinstance(key, str) for key in kwargs):
        raise InvalidField("kwargs", kwargs, "is not an object with text keys")
    size = 0
    for name, value in (("args", args), ("kwargs", kwargs)):
        try:
            text = canonical_json(value)
        except (TypeError, ValueError, RecursionError) as problem:
            raise InvalidField(name, value, f"is not JSON: {problem}") from problem
        if "\\u0000" in text:
            raise InvalidField(name, value, "contains a NUL character, which Postgres cannot store")
        size += len(text)
    if size > PAYLOAD_LIMIT:
        raise InvalidField("args", args, f"arguments take {size} bytes of JSON, more than {PAYLOAD_LIMIT}")


def _member(definition: JobDefinition, name: str, enum: type[StrEnum]) -> None:
    value = getattr(definition, name)
    try:
        object.__setattr__(definition, name, enum(value))
    except ValueError:
        raise InvalidField(name, value, f"is not one of {', '.join(enum)}") from None


def _number(name: str, value: Any, *, above: float, whole: bool = False) -> None:
    kind = int if whole else (int, float)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidField(name, value, "is not a whole number" if whole else "is not a number")
    if not above < value <= INT32_MAX:
        raise InvalidField(name, value, f"is not above {above:g} and up to {INT32_MAX}")


def _duration(name: str, value: Any, *, at_least: timedelta) -> None:
    if not isinstance(value, timedelta):
        raise InvalidField(name, value, "is not a timedelta")
    if value < at_least:
        raise InvalidField(name, value, f"is below {at_least}")
