"""Fires that a person asks for, manual ones and backfills: rows that wait for the owner of their shard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg

from scheduling.core.identity import fire_id
from scheduling.store import partitions
from scheduling.store.arrays import instants, integers, uuids
from scheduling.store.connection import Connection
from scheduling.store.statements import statements


@dataclass(frozen=True, slots=True)
class Asked:
    """``fire_at``: when it is to run, job time; ``scheduled_for``: for which instant."""

    job_id: UUID
    history_days: int
    scheduled_for: datetime
    fire_at: datetime


def ask(connection: Connection, fires: Sequence[Asked], *, origin: str, reason: str, exclusive: bool = False) -> int:
    """Insert these fires of locked jobs in one statement; gives how many were new. ``exclusive``: one at a time of each
    job, though its policy allows overlap.
    """
    values = {
        "ids": uuids([fire_id(fire.job_id, fire.scheduled_for, origin) for fire in fires]),
        "job_ids": uuids([fire.job_id for fire in fires]),
        "history_days": integers([fire.history_days for fire in fires]),
        "scheduled_fors": instants([fire.scheduled_for for fire in fires]),
        "fire_ats": instants([fire.fire_at for fire in fires]),
        "origin": origin,
        "reason": reason,
        "exclusive": exclusive,
    }
    days = [partitions.day_of(fire.history_days, fire.scheduled_for) for fire in fires]
    try:
        with connection.transaction():
            return _insert(connection, days, values)
    except psycopg.errors.CheckViolation:  # one of the days was just being dropped, its history being over
        return _insert(connection, days, values)


def _insert(connection: Connection, days: Sequence[partitions.Day], values: dict[str, Any]) -> int:
    partitions.ensure(connection, days)
    return connection.execute(statements("asked_fires")["ask"], values).rowcount
