"""Carries out redrives: dead letters become fires again, as many as their rate allows by now.

Whoever calls it, and however often: a redrive's rate is kept by its own row (when it was asked for, how many were done
since), and while one caller moves letters of it the others pass it over. So any node may do it, and none has to
remember anything. Letters are done in the order of their ids; a fire keeps its identity, with it its steps, and gets a
higher fence.

Does not start fires: they wait (``retry_wait``) for the owner of their shard, spread over the second to come, so that
what is due meanwhile is not stuck behind a second's worth at once.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from scheduling.store import partitions
from scheduling.store.arrays import instants, integers, uuids
from scheduling.store.connection import Connection
from scheduling.store.statements import statements

logger = logging.getLogger(__name__)
BATCH = 1000  # letters in a call: a mass of them must not hold up the claims for long
CATCH_UP_S = 2.0  # what nobody did in time is made up for up to here


@dataclass(frozen=True, slots=True)
class _Letter:
    """``standing``: the state of its fire, or why there is none: ``gone`` with its day, ``deleted`` with its job."""

    id: int
    fire_id: UUID
    scheduled_for: datetime
    history_days: int
    job_id: UUID
    standing: str


def redrive(connection: Connection, *, now: datetime) -> int:
    """Move what may be moved now of all open redrives, each in a transaction of its own; returns how many fires wait to
    run again. ``now`` is job time.
    """
    ids = [redrive_id for (redrive_id,) in connection.execute(statements("redrive")["open"]).fetchall()]
    return sum(_carry_out(connection, redrive_id, now=now, most=max(1, BATCH // len(ids))) for redrive_id in ids)


def allowed(*, rate_per_s: float, done: int, elapsed_s: float, idle_s: float) -> int:
    """How many letters may be moved now, of a redrive that was asked for ``elapsed_s`` ago, and of which ``done`` were
    moved or skipped, the last ``idle_s`` ago. The first may go at once.

    Where no node was there to move any for a while, that time is lost: a rate is kept from the last move on.

    >>> allowed(rate_per_s=100, done=50, elapsed_s=1.0, idle_s=0.5)
    51
    >>> allowed(rate_per_s=100, done=50, elapsed_s=3600.0, idle_s=0.5)
    50
    """
    now = int(rate_per_s * elapsed_s) + 1 - done
    at_once = max(1, int(rate_per_s * CATCH_UP_S))
    return now if now <= at_once else min(at_once, int(rate_per_s * idle_s))


def _carry_out(connection: Connection, redrive_id: int, *, now: datetime, most: int) -> int:
    try:
        with connection.transaction():
            return _move(connection, redrive_id, now, most)
    except psycopg.errors.CheckViolation:  # one of the days was just being dropped, its history being over
        with connection.transaction():
            return _move(connection, redrive_id, now, most)


def _move(connection: Connection, redrive_id: int, now: datetime, most: int) -> int:
    sql = statements("redrive")
    row = connection.execute(sql["hold"], {"redrive": redrive_id}).fetchone()
    if row is None:
        return 0  # another node is at it, or it was stopped just now
    rate_per_s, done, elapsed_s, idle_s, speed = row
    limit = min(most, allowed(rate_per_s=rate_per_s, done=done, elapsed_s=elapsed_s, idle_s=idle_s))
    if limit <= 0:
        return 0
    letters = [
        _Letter(*found) for found in connection.execute(sql["take"], {"redrive": redrive_id, "limit": limit}).fetchall()
    ]
    step = timedelta(seconds=speed / max(rate_per_s, len(letters)))
    wake_at = {letter.id: now + step * place for place, letter in enumerate(letters)}
    dead = [letter for letter in letters if letter.standing == "dead"]
    gone = [letter for letter in letters if letter.standing == "gone"]
    skipped = [letter for letter in letters if letter.standing not in ("dead", "gone")]

    moved = _run(connection, "move", dead, wake_at)
    if gone:
        partitions.ensure(connection, {partitions.day_of(one.history_days, one.scheduled_for) for one in gone})
        moved += _run(connection, "make", gone, wake_at)
    connection.execute(sql["note_moved"], {"letters": integers(moved)})
    if skipped:
        _tell(redrive_id, skipped)
        connection.execute(sql["note_skipped"], {"letters": integers(letter.id for letter in skipped)})
    connection.execute(sql["count"], {"redrive": redrive_id, "moved": len(moved), "skipped": len(skipped)})
    return len(moved)


def _run(connection: Connection, statement: str, letters: Sequence[_Letter], wake_at: dict[int, datetime]) -> list[int]:
    """Gives the letters whose fires wait now."""
    if not letters:
        return []
    values: dict[str, Any] = {
        "letters": integers(letter.id for letter in letters),
        "ids": uuids(letter.fire_id for letter in letters),
        "scheduled_fors": instants(letter.scheduled_for for letter in letters),
        "history_days": integers(letter.history_days for letter in letters),
        "job_ids": uuids({letter.job_id for letter in letters}),
        "wake_ats": instants(wake_at[letter.id] for letter in letters),
    }
    return [letter for (letter,) in connection.execute(statements("redrive")[statement], values).fetchall()]


def _tell(redrive_id: int, skipped: Sequence[_Letter]) -> None:
    for standing, count in Counter(letter.standing for letter in skipped).items():
        why = "their jobs were deleted" if standing == "deleted" else f"their fires are {standing} by now"
        logger.warning("redrive %d leaves %d dead letters as they are: %s", redrive_id, count, why)
