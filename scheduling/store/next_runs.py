"""When jobs fire next, whichever store has their next occurrence in its care."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from scheduling.store.arrays import uuids
from scheduling.store.connection import Connection
from scheduling.store.statements import statements


@dataclass(frozen=True, slots=True)
class NextRun:
    """``fire_at`` None: there is none to come. ``scheduled_for`` None while there is: its owner is about to plan it."""

    scheduled_for: datetime | None
    fire_at: datetime | None


def next_runs(connection: Connection, job_ids: Collection[UUID]) -> dict[UUID, NextRun]:
    """Of each of these jobs that exists, in job time."""
    rows = connection.execute(statements("buckets")["next_runs"], {"job_ids": uuids(job_ids)})
    return {job_id: NextRun(scheduled_for, fire_at) for job_id, scheduled_for, fire_at in rows}
