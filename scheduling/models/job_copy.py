"""Jobs as lines of COPY's text format: the fast way in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from scheduling.core.definition import OWN_FIELDS, JobDefinition, ScheduleFields
from scheduling.core.identity import uuid7
from scheduling.models.job_planning import First, first_occurrence, shard_count

CHUNK = 256  # lines in one write
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _escaped(text: str) -> str:
    return str(text) if text.isprintable() and "\\" not in text else text.translate(_ESCAPES)


def _text(value: Any) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, str):
        return _escaped(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
    return str(value)


_SCHEDULE = [(f.name, f.default, _text(f.default)) for f in fields(ScheduleFields)]
_OWN = [
    (f.name, f.default, _text(f.default)) for f in fields(JobDefinition) if f.name in {*OWN_FIELDS} - {"args", "kwargs"}
]
_COLUMNS = [
    "id", "tenant_id", "shard_id", "schedule_version", "next_scheduled_for", "next_fire_at",
    "schedule_changed_at", "created_at", "updated_at", "args", "kwargs",
    *[name for name, *_ in _SCHEDULE], *[name for name, *_ in _OWN],
]  # fmt: skip
COPY_JOBS = f"COPY scheduling_job ({', '.join(_COLUMNS)}) FROM STDIN"


def write_lines(
    definitions: Iterable[JobDefinition],
    write: Callable[[str], None],
    *,
    tenant_id: int,
    now: datetime,
    due: dict[int, datetime],
) -> int:
    """Write every job as a line, planned from ``now`` on; returns how many. ``due`` gets each shard's earliest fire."""
    shards, count, lines = shard_count(), 0, list[str]()
    tenant, created = str(tenant_id), now.isoformat()
    for definition in definitions:
        job_id = uuid7()
        first = first_occurrence(definition.schedule.build(job_id), job_id, definition.jitter, now=now, shards=shards)
        lines.append(_line(definition, job_id, tenant, first, created))
        if first.fire_at is not None:
            due[first.shard] = min(first.fire_at, due.get(first.shard, first.fire_at))
        count += 1
        if len(lines) == CHUNK:
            write("".join(lines))
            lines.clear()
    write("".join(lines))
    return count


def _line(definition: JobDefinition, job_id: UUID, tenant_id: str, first: First, created: str) -> str:
    schedule = definition.schedule
    planned = _text(first.scheduled_for)
    fires = planned if first.fire_at is first.scheduled_for else _text(first.fire_at)
    cells = [
        job_id.hex, tenant_id, str(first.shard), "1", planned, fires,
        created, created, created, _escaped(definition.args_json), _escaped(definition.kwargs_json),
    ]  # fmt: skip
    for name, default, text in _SCHEDULE:
        value = getattr(schedule, name)
        cells.append(text if value is default else _text(value))
    for name, default, text in _OWN:
        value = getattr(definition, name)
        cells.append(text if value is default else _text(value))
    return "\t".join(cells) + "\n"
