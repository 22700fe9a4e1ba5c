"""Begins and ends pauses, within the caller's transaction.

::

    not paused --pause--> paused --its time comes | resume--> over --every occurrence in it has a row--> not paused

A pause is over at ``paused_until``; from then on claims, workers and the readers of waiting fires pass it by. Its end
is written, and what its catch-up choice brings back made due, once the claims have recorded what fell into it: within
a moment as a rule, later where no node runs. Times are job time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from scheduling.core.fire import CatchUp
from scheduling.store.arrays import integers, uuids
from scheduling.store.connection import Connection
from scheduling.store.statements import statements

BATCH = 500  # pauses of one shard that end in one transaction


@dataclass(frozen=True, slots=True)
class Pause:
    """What is said of a pause; ``until`` None: until someone resumes."""

    reason: str
    by: str
    until: datetime | None
    catch_up: CatchUp


def lock(connection: Connection, job_ids: Collection[UUID]) -> datetime:
    """Wait for what is in flight with these jobs, and keep it off; gives the job time at which that is so."""
    sql = statements("pauses")
    connection.execute(sql["lock"], {"job_ids": uuids(job_ids)})
    row = connection.execute("SELECT fairbeat_job_now()").fetchone()
    assert row is not None
    now: datetime = row[0]
    return now


def pause(connection: Connection, job_ids: Collection[UUID], said: Pause, *, now: datetime) -> tuple[int, int]:
    """Pause locked jobs; gives how many are paused, and how many of their fires are skipped by it."""
    sql = statements("pauses")
    values = {
        "job_ids": uuids(job_ids),
        "now": now,
        "until": said.until,
        "by": said.by,
        "reason": said.reason,
        "catch_up": said.catch_up.value,
    }
    paused = connection.execute(sql["pause"], values).fetchall()
    jobs, shards = [job for job, _ in paused], {shard for _, shard in paused}
    row = connection.execute(sql["skip"], {"job_ids": uuids(jobs), "shards": integers(shards)}).fetchone()
    assert row is not None
    return len(jobs), int(row[0])


def end_now(
    connection: Connection, job_ids: Collection[UUID], catch_up: CatchUp, *, now: datetime
) -> tuple[dict[UUID, int], dict[UUID, int]]:
    """End the pauses of locked jobs; gives the jobs that were paused with their shards, and those whose end could be
    written at once with how many of their fires are due again.
    """
    values = {"job_ids": uuids(job_ids), "now": now, "catch_up": catch_up.value}
    were_paused: dict[UUID, int] = dict(connection.execute(statements("pauses")["end_now"], values).fetchall())
    return were_paused, _end(connection, were_paused, now)


def end_those_over(connection: Connection, shards: Collection[int], *, now: datetime) -> int:
    """Write the end of pauses that are over; gives how many."""
    values = {"shards": integers(sorted(shards)), "now": now, "limit": BATCH}
    jobs = [job for (job,) in connection.execute(statements("pauses")["over"], values).fetchall()]
    return len(_end(connection, jobs, now)) if jobs else 0


def _end(connection: Connection, job_ids: Collection[UUID], now: datetime) -> dict[UUID, int]:
    rows = connection.execute(statements("pauses")["end"], {"job_ids": uuids(job_ids), "now": now}).fetchall()
    return {job: fires for job, fires, _ in rows}
