"""Cancels fires of locked jobs, within the caller's transaction.

::

    claimed | parked | retry_wait, never started    skipped(cancelled)
    claimed | parked | retry_wait, started          dead(cancelled), with its dead letter
    running                                         goes on, and is asked to stop: its worker hears of it
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from scheduling.core.fingerprint import essence
from scheduling.store.arrays import instants, integers, uuids
from scheduling.store.connection import Connection
from scheduling.store.statements import statements

CHANNEL = "fairbeat_cancel"  # a notice here is the id of a running fire: best effort, its worker's heartbeat decides


@dataclass(frozen=True, slots=True)
class FireKey:
    scheduled_for: datetime
    id: UUID
    history_days: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """``asked``: are running, and were asked to stop; ``sent``: messages of plain Celery tasks, which nobody can call
    back; ``found``: how many were unfinished; ``died``: those of ``at_once`` that had started.
    """

    at_once: int
    asked: int
    sent: int
    found: int
    died: list[UUID]


def named(connection: Connection, fires: Mapping[UUID, datetime]) -> dict[FireKey, UUID]:
    """The rows of these fires, each with its job; each id comes with the millisecond that it carries."""
    values = {"ids": uuids(fires), "milliseconds": instants(fires.values())}
    rows = connection.execute(_sql()["named"], values).fetchall()
    return {FireKey(scheduled_for, fire, days): job for scheduled_for, fire, days, job in rows}


def unfinished(connection: Connection, job_ids: Collection[UUID], shards: Collection[int]) -> list[FireKey]:
    """Of these jobs, in these shards, which are theirs."""
    values = {"job_ids": uuids(job_ids), "shards": integers(shards)}
    return [FireKey(*row) for row in connection.execute(_sql()["unfinished"], values).fetchall()]


def cancel(connection: Connection, job_ids: Collection[UUID], fires: Sequence[FireKey], *, reason: str) -> Outcome:
    """Of these locked jobs these fires, as far as they are unfinished; and wake who waited behind them."""
    values = {
        "job_ids": uuids(job_ids),
        "scheduled_fors": instants(fire.scheduled_for for fire in fires),
        "ids": uuids(fire.id for fire in fires),
        "history_days": integers(fire.history_days for fire in fires),
        "reason": reason,
        "essence": essence(reason),
        "channel": CHANNEL,
    }
    row = connection.execute(_sql()["cancel"], values).fetchone()
    assert row is not None
    done = Outcome(*row)
    if done.at_once:
        connection.execute(_sql()["wake_next"], {"job_ids": values["job_ids"]})
    return done


def _sql() -> dict[str, str]:
    return statements("cancel", **statements("dead_letters"))
