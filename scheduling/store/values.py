"""Values of the core as parameters of ``schedule.sql``: whole batches, a list for each column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from scheduling.core.effects import Epochs, Settlement
from scheduling.core.fire import Fire, State
from scheduling.core.lost_lease import LostRun
from scheduling.core.overlap import NEWER_IS_DUE, Predecessors, gives_way
from scheduling.core.plans import JobPlan
from scheduling.store.arrays import booleans, instants, integers, uuids, words
from scheduling.store.connection import Connection
from scheduling.store.statements import statements


def claim_values(
    plans: Sequence[JobPlan],
    claim_for: timedelta | None = None,
    *,
    enters: Callable[[JobPlan], bool] | None = None,
) -> dict[str, Any]:
    """``claim_for``: how long the broker may take to confirm, at the stop that has no watermarks. ``enters``: whether a
    job's next occurrence becomes an entry of the bucketed store.

    A column that says the usual of every row is left out (None): the statement knows the usual.
    """
    plans = sorted(plans, key=lambda plan: plan.due.work.job_id.int)  # jobs are locked in this order, by people too
    rows = [row for plan in plans for row in plan.rows]
    fires = [row.fire for row in rows]
    leave = [plan.due.job.in_bucket for plan in plans]
    unusual = any(row.state is not State.CLAIMED for row in rows)
    return {
        "job_ids": uuids([plan.due.work.job_id for plan in plans]),
        "versions": integers([plan.due.job.version for plan in plans]),
        "were": instants([plan.due.next_scheduled_for if plan.due.slot is None else None for plan in plans]),
        "next_fors": instants([plan.next_scheduled_for for plan in plans]),
        "next_ats": instants([plan.next_fire_at for plan in plans]),
        "fired": integers([plan.fired for plan in plans]),
        "problems": [plan.problem for plan in plans] if any(plan.problem for plan in plans) else None,
        "leave": booleans(leave) if any(leave) else None,
        "slots": integers([plan.due.slot for plan in plans]) if any(leave) else None,
        "carried": integers([plan.due.carried for plan in plans]) if any(leave) else None,
        "enter": booleans([enters(plan) for plan in plans]) if enters is not None else None,
        "fire_job_ids": uuids([fire.work.job_id for fire in fires]),
        "fire_ats": instants([fire.fire_at for fire in fires]),
        "states": words([row.state for row in rows]) if unusual else None,
        "reasons": words([row.reason for row in rows]) if unusual else None,
        "covers": integers([row.covers for row in rows]) if unusual else None,
        "covers_tos": instants([row.covers_to for row in rows]) if unusual else None,
        "wake_ats": instants([row.wake_at for row in rows]) if unusual else None,
        "nominals": [row.nominal_text for row in rows] if any(row.nominal for row in rows) else None,
        **_numbers(fires, claim_for),
        **fire_keys(fires),
    }


def supersede(connection: Connection, plans: Sequence[JobPlan]) -> None:
    """Behind the claim of these, in its transaction: of those that an edit has changed."""
    edited = [plan.due for plan in plans if plan.due.next_scheduled_for is None]
    if edited:
        values = {
            "job_ids": uuids([due.work.job_id for due in edited]),
            "versions": integers([due.job.version for due in edited]),
            "edits": instants([due.job.first_edit for due in edited]),
        }
        connection.execute(statements("schedule")["supersede"], values)


def release_values(fires: Sequence[Fire], claim_for: timedelta | None = None) -> dict[str, Any]:
    fires = sorted(fires, key=lock_order)
    return fire_keys(fires) | _numbers(fires, claim_for)


def settle_values(settlements: Sequence[Settlement]) -> dict[str, Any]:
    settlements = sorted(settlements, key=lambda settlement: lock_order(settlement.fire))
    return fire_keys([s.fire for s in settlements]) | {
        "states": words([s.state for s in settlements]),
        "reasons": words([s.reason for s in settlements]),
        "wake_ats": instants([s.wake_at for s in settlements]),
    }


def mark_values(epochs: Epochs, marks: Mapping[int, int]) -> dict[str, Any]:
    return {"marked": list(marks), "mark_epochs": [epochs[shard] for shard in marks], "seqs": list(marks.values())}


def lock_order(fire: Fire) -> tuple[int, datetime, int]:
    """Fires are locked in this order by all who lock many: a take-over, and people who pause or delete jobs, do too.
    In any other, two of them might each hold what the other one waits for.
    """
    return fire.work.shard, fire.fire_at, fire.id.int


def fire_keys(fires: Sequence[Fire]) -> dict[str, Any]:
    """What finds the rows of these fires, each in its partition, and says under which fence."""
    return {
        "ids": uuids([fire.id for fire in fires]),
        "scheduled_fors": instants([fire.scheduled_for for fire in fires]),
        "history_days": integers([fire.work.history_days for fire in fires]),
        "fences": integers([fire.fence for fire in fires]),
    }


def read_predecessors(connection: Connection, fires: Sequence[Fire]) -> dict[UUID, Predecessors]:
    """What is unfinished ahead of each fire; one with nothing ahead is left out."""
    values = job_keys(fires) | {"give_way": booleans([gives_way(fire) for fire in fires])}
    rows = connection.execute(statements("schedule")["predecessors"], values).fetchall()
    return {fire: Predecessors(*counts) for fire, *counts in rows}


def cancel_running(connection: Connection, newest: Sequence[Fire]) -> list[LostRun]:
    """Ask to stop what has begun before these; gives the retries that are dead."""
    sql = statements("schedule", **statements("dead_letters"))
    rows = connection.execute(sql["cancel_running"], job_keys(newest) | {"reason": NEWER_IS_DUE}).fetchall()
    return [
        LostRun(
            fire_id=fire,
            job_id=job,
            tenant=tenant,
            name=name,
            task=task,
            scheduled_for=scheduled_for,
            origin=origin,
            attempt=attempt,
            state=State.DEAD,
            reason=reason,
            error=NEWER_IS_DUE,
        )
        for state, fire, job, tenant, name, task, scheduled_for, origin, attempt, reason, _ in rows
        if state == State.DEAD
    ]


def job_keys(fires: Sequence[Fire]) -> dict[str, Any]:
    """What finds the other fires of their jobs."""
    return fire_keys(fires) | {"job_ids": uuids([fire.work.job_id for fire in fires])}


def _numbers(fires: Sequence[Fire], claim_for: timedelta | None) -> dict[str, Any]:
    """(epoch, seq), counted from 1; a fire without an owner has none."""
    return {
        "seq_epochs": integers([fire.epoch if fire.seq else None for fire in fires]),
        "seqs": integers([fire.seq or None for fire in fires]),
        "claim_for": claim_for,
    }
