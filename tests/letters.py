"""Dead letters written by hand, for tests of those who read and redrive them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from scheduling.models import DeadLetter, Fire, Job, Redrive
from scheduling.store.redrive import redrive
from tests.ledger_rows import DAY, add_fire

DIED_AT = datetime(2026, 3, 2, 13, tzinfo=UTC)


def add_dead(job: Job, scheduled_for: datetime = DAY, **values: Any) -> DeadLetter:
    """A fire of this job that died after its third attempt, and its letter; ``values`` are of the fire."""
    given = {"state": "dead", "reason": "attempts_exhausted", "attempt": 3, "max_attempts": 3, "fence": 4}
    return add_letter(add_fire(job, scheduled_for, **(given | values)))


def add_letter(fire: Fire | None = None, **values: Any) -> DeadLetter:
    """The letter of this fire; without one, of a message that is none of ours."""
    row: dict[str, Any] = {"reason": "undecodable", "fingerprint": "f" * 16, "died_at": DIED_AT}
    if fire is not None:
        columns = (
            "shard_id",
            "history_days",
            "scheduled_for",
            "fire_at",
            "origin",
            "schedule_version",
            "fence",
            "exclusive",
        )
        row |= {column: getattr(fire, column) for column in columns}
        row |= {"fire_id": fire.pk, "job": fire.job, "tenant": fire.tenant, "attempts": fire.attempt}
        row |= {"reason": fire.reason, "task": fire.job.task, "args": fire.job.args, "kwargs": fire.job.kwargs}
    return DeadLetter.objects.create(**(row | values))


def fire_of(letter: DeadLetter) -> UUID:
    """The id of the fire whose letter it is."""
    assert letter.fire_id is not None
    return letter.fire_id


def add_many_dead(job: Job, count: int) -> list[DeadLetter]:
    """One for each minute of the day."""
    return [add_dead(job, DAY + timedelta(minutes=minute)) for minute in range(count)]


def asked_ago(asked: Redrive, seconds: float) -> None:
    """As if it had been asked for so long ago."""
    Redrive.objects.filter(pk=asked.pk).update(asked_at=asked.asked_at - timedelta(seconds=seconds))


def carry_out(now: datetime = DAY) -> int:
    """What a node does of all open redrives, once."""
    connection.ensure_connection()
    return redrive(connection.connection, now=now)
