"""What a person says of a job, checked: the one way in for the ORM, the importer, ``@job`` and the admin.

Pure. A definition that exists is valid: everything that can be refused is refused here, by an error that names the
field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any
from uuid import UUID

from scheduling.core.errors import InvalidField
from scheduling.core.fire import Lane, MisfirePolicy, OverlapPolicy
from scheduling.core.payload import payload_texts, storable
from scheduling.core.recurrence import Bounded, Cron, DayMatch, Fold, Gap, Interval, Once, RRule, Schedule
from scheduling.core.recurrence.zones import zone

NAME_LIMIT = 200
TASK_LIMIT = 255
CRON_LIMIT = 255
DESCRIPTION_LIMIT = 10_000
INT32_MAX = 2**31 - 1


class Unsaid(timedelta):
    """No length, said by nobody: where a tenant staggers its jobs, a job that names no jitter takes the tenant's."""


UNSAID = Unsaid(0)

Check = Callable[[str, Any], Any]  # (field, value) -> the value to keep; raises InvalidField


class Kind(StrEnum):
    ONCE = "once"
    INTERVAL = "interval"
    CRON = "cron"
    RRULE = "rrule"


@dataclass(frozen=True, slots=True)
class ScheduleFields:
    """The schedule as a job's row stores it; ``build()`` gives the schedule itself, and refuses an impossible one."""

    kind: Kind
    at: datetime | None = None
    every: timedelta | None = None
    anchor: datetime | None = None
    cron: str = ""
    rrule: str = ""
    dtstart: datetime | None = None
    tz: str = "UTC"
    day_match: DayMatch = DayMatch.OR
    gap: Gap = Gap.FIRST_VALID
    fold: Fold = Fold.FIRST
    start_at: datetime | None = None
    end_at: datetime | None = None

    def build(self, job_id: UUID | None = None) -> Schedule:
        """An ``H`` in a cron expression is spread over the job's identity.

        Raises InvalidField.
        """
        if not isinstance(self.cron, str):
            raise InvalidField("cron", self.cron, "is not text")
        schedule = self._unbounded(str(job_id) if self.is_spread else "")
        if self.start_at is None and self.end_at is None:
            return schedule
        return Bounded(schedule, self.start_at, self.end_at)

    @property
    def is_spread(self) -> bool:
        """Whether each job may have times of its own: there is an ``H`` in its cron expression."""
        return "H" in self.cron.upper()

    def _unbounded(self, key: str) -> Schedule:
        match self.kind:
            case Kind.ONCE:
                zone(self.tz)
                return Once(_required("at", self.at))
            case Kind.INTERVAL:
                zone(self.tz)
                return Interval(_required("every", self.every), _required("anchor", self.anchor))
            case Kind.CRON:
                if len(self.cron) > CRON_LIMIT:
                    raise InvalidField("cron", self.cron, f"is longer than {CRON_LIMIT} characters")
                said = self.cron, self.tz, key, self.day_match, self.gap, self.fold
                try:
                    return _cron(*said)
                except TypeError:  # cannot be hashed, and so is none of the words that are needed
                    return Cron(*said)
            case Kind.RRULE:
                return RRule(self.rrule, self.dtstart, self.tz, self.gap, self.fold)
            case _:
                raise InvalidField("kind", self.kind, f"is not one of {', '.join(Kind)}")


@lru_cache(maxsize=10_000)
def _cron(expression: str, tz: str, key: str, day_match: DayMatch, gap: Gap, fold: Fold) -> Cron:
    """Jobs share expressions: a thousand real ones have two hundred."""
    return Cron(expression, tz, key, day_match, gap, fold)


@dataclass(frozen=True, kw_only=True, init=False)
class JobDefinition:
    """A job before it is a row. ``args`` and ``kwargs`` are JSON values; times are aware; durations are job time
    unless named ``_s``.

    An instance keeps what was said of it, and only that is checked; the rest are the defaults of the class. Most jobs
    say four or five things, and there may be a million of them to copy: hence no slots.
    """

    task: str
    schedule: ScheduleFields
    name: str = ""
    description: str = ""
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    lane: Lane = Lane.BULK
    jitter: timedelta = UNSAID
    calendar_id: int | None = None  # of closed days and hours
    max_runs: int | None = None  # fires, after which the job is finished
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

    args_json: str = field(init=False, repr=False, compare=False)
    kwargs_json: str = field(init=False, repr=False, compare=False)
    built: Schedule = field(init=False, repr=False, compare=False)  # for a job without an identity

    def __init__(self, *, task: str, schedule: ScheduleFields, **said: Any) -> None:
        """``said`` are the other fields. Raises InvalidField."""
        kept = self.__dict__
        kept["task"], kept["schedule"] = _task(task), schedule
        for name, value in said.items():
            check = _CHECKS.get(name)
            if check is None:
                known = ", ".join(sorted(POLICY_FIELDS | SCHEDULE_OPTIONS))
                raise InvalidField(name, value, f"no such option; there are {known}")
            kept[name] = check(name, value)
        if self.retry_cap < self.retry_base:
            raise InvalidField("retry_cap", self.retry_cap, f"is below retry_base ({self.retry_base})")
        if self.soft_timeout_s is not None and self.soft_timeout_s > self.hard_timeout_s:
            raise InvalidField(
                "soft_timeout_s", self.soft_timeout_s, f"is above hard_timeout_s ({self.hard_timeout_s:g})"
            )
        args, kwargs = kept.setdefault("args", []), kept.setdefault("kwargs", {})
        kept["args_json"], kept["kwargs_json"] = payload_texts(args, kwargs)
        kept["built"] = schedule.build()

    @classmethod
    def cron_job(
        cls,
        task: str,
        expression: str,
        *,
        tz: str = "UTC",
        day_match: DayMatch = DayMatch.OR,
        gap: Gap = Gap.FIRST_VALID,
        fold: Fold = Fold.FIRST,
        **options: Any,
    ) -> JobDefinition:
        words = expression, tz, day_match, gap, fold
        try:
            schedule = _cron_fields(*words)
        except TypeError:  # cannot be hashed, and will be refused
            schedule = _new_cron_fields(*words)
        if not _MOMENTS.isdisjoint(options):
            schedule = replace(schedule, **_schedule_options(options))
        return cls(task=task, schedule=schedule, **options)

    @classmethod
    def rrule_job(cls, task: str, text: str, **options: Any) -> JobDefinition:
        said = _schedule_options(options)
        return cls(task=task, schedule=ScheduleFields(Kind.RRULE, rrule=text, **said), **options)

    @classmethod
    def interval_job(cls, task: str, every: timedelta, *, anchor: datetime, **options: Any) -> JobDefinition:
        said = _schedule_options(options)
        return cls(task=task, schedule=ScheduleFields(Kind.INTERVAL, every=every, anchor=anchor, **said), **options)

    @classmethod
    def once_job(cls, task: str, at: datetime, **options: Any) -> JobDefinition:
        return cls(task=task, schedule=ScheduleFields(Kind.ONCE, at=at, **_schedule_options(options)), **options)

    def columns(self) -> dict[str, Any]:
        """The values of the job's row that a person decides."""
        row = {name: getattr(self, name) for name in OWN_FIELDS}
        row.update({f.name: getattr(self.schedule, f.name) for f in fields(self.schedule)})
        return row


OWN_FIELDS = tuple(f.name for f in fields(JobDefinition) if f.init and f.name != "schedule")
SCHEDULE_OPTIONS = frozenset({"tz", "dtstart", "day_match", "gap", "fold", "start_at", "end_at"})
POLICY_FIELDS = frozenset(OWN_FIELDS) - {"task"}


def _required(name: str, value: Any) -> Any:
    if value is None:
        raise InvalidField(name, value, "is needed for this kind of schedule")
    return value


def _schedule_options(options: dict[str, Any]) -> dict[str, Any]:
    """Those of the schedule, taken out of ``options``."""
    return {name: options.pop(name) for name in SCHEDULE_OPTIONS & options.keys()}


def _new_cron_fields(expression: str, tz: str, day_match: DayMatch, gap: Gap, fold: Fold) -> ScheduleFields:
    return ScheduleFields(Kind.CRON, cron=expression, tz=tz, day_match=day_match, gap=gap, fold=fold)


_cron_fields = lru_cache(maxsize=4096, typed=True)(_new_cron_fields)


def _task(value: Any) -> str:
    task = _text("task", value, TASK_LIMIT)
    if not task.strip():
        raise InvalidField("task", task, "a job needs the name of a Celery task, such as 'shop.tasks.charge'")
    return task


def _text(name: str, value: Any, limit: int) -> str:
    if not isinstance(value, str):
        raise InvalidField(name, value, "is not text")
    if len(value) > limit:
        raise InvalidField(name, value, f"is longer than {limit} characters")
    return storable(name, value)


def _args(name: str, value: Any) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidField(name, value, "is not a list")
    return value


def _kwargs(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidField(name, value, "is not an object with text keys")
    return value


def _member(enum: type[StrEnum]) -> Check:
    def check(name: str, value: Any) -> StrEnum:
        try:
            return enum(value)
        except ValueError:
            raise InvalidField(name, value, f"is not one of {', '.join(enum)}") from None

    return check


def _number(name: str, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidField(name, value, "is not a number")
    if not 0 < value <= INT32_MAX:
        raise InvalidField(name, value, f"is not above 0 and up to {INT32_MAX}")
    return value


def _whole(name: str, value: Any) -> float:
    if not isinstance(value, int):
        raise InvalidField(name, value, "is not a whole number")
    return _number(name, value)


def _duration(name: str, value: Any) -> timedelta:
    if not isinstance(value, timedelta):
        raise InvalidField(name, value, "is not a timedelta")
    if value < timedelta(0):
        raise InvalidField(name, value, "is negative")
    return value


def _expiry(name: str, value: Any) -> timedelta | None:
    expiry = None if value is None else _duration(name, value)
    if expiry is not None and not expiry:
        raise InvalidField(name, value, "is not above zero")
    return expiry


def _soft(name: str, value: Any) -> float | None:
    return None if value is None else _number(name, value)


_MOMENTS = frozenset({"dtstart", "start_at", "end_at"})
_CHECKS: dict[str, Check] = {
    "name": lambda name, value: _text(name, value, NAME_LIMIT),
    "description": lambda name, value: _text(name, value, DESCRIPTION_LIMIT),
    "args": _args,
    "kwargs": _kwargs,
    "lane": _member(Lane),
    "jitter": _duration,
    "calendar_id": lambda name, value: None if value is None else _whole(name, value),
    "max_runs": lambda name, value: None if value is None else _whole(name, value),
    "misfire": _member(MisfirePolicy),
    "misfire_grace_s": _number,
    "catch_up_limit": _whole,
    "catch_up_window": _duration,
    "overlap": _member(OverlapPolicy),
    "buffer_limit": _whole,
    "max_attempts": _whole,
    "retry_base": _duration,
    "retry_cap": _duration,
    "soft_timeout_s": _soft,
    "hard_timeout_s": _number,
    "expires_after": _expiry,
}
