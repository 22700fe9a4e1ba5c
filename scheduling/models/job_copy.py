"""Jobs as lines of COPY's text format: the fast way in."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from scheduling.core.definition import JobDefinition, ScheduleFields
from scheduling.core.message import canonical_json
from scheduling.models.job_planning import First

_SCHEDULE = [f.name for f in fields(ScheduleFields)]
_PLAIN = [f.name for f in fields(JobDefinition) if f.name not in ("schedule", "args", "kwargs")]
_COLUMNS = [
    "id", "tenant_id", "shard_id", "schedule_version", "next_scheduled_for", "next_fire_at",
    "schedule_changed_at", "created_at", "updated_at", "problem", "args", "kwargs", *_SCHEDULE, *_PLAIN,
]  # fmt: skip
COPY_JOBS = f"COPY scheduling_job ({', '.join(_COLUMNS)}) FROM STDIN"
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def copy_line(definition: JobDefinition, job_id: UUID, tenant_id: int, first: First, now: datetime) -> str:
    """One job as a line of COPY."""
    created = now.isoformat()
    schedule = definition.schedule
    return (
        f"{job_id}\t{tenant_id}\t{first.shard}\t1\t{_text(first.scheduled_for)}\t{_text(first.fire_at)}"
        f"\t{created}\t{created}\t{created}\t"
        f"\t{canonical_json(definition.args).translate(_ESCAPES)}\t{canonical_json(definition.kwargs).translate(_ESCAPES)}\t"
        + "\t".join([_text(getattr(schedule, name)) for name in _SCHEDULE])
        + "\t"
        + "\t".join([_text(getattr(definition, name)) for name in _PLAIN])
        + "\n"
    )


def _text(value: Any) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, str):
        return str(value).translate(_ESCAPES)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
    return str(value)
