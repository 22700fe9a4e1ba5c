"""Fires and entries as rows of COPY's binary format: one ``pack`` for each, where psycopg would visit every column.

Every column here has a fixed length.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from struct import Struct

from scheduling.core.copy_format import END, SIGNATURE, postgres_micros
from scheduling.core.fire import Fire, OverlapPolicy, State
from scheduling.core.plans import JobPlan

_CLAIMED = State.CLAIMED.value.encode()


def _row(types: str) -> Struct:
    """A row of columns of these struct types, each behind its length."""
    return Struct(">h" + "".join(f"i{part}" for part in types.split()))


# As the columns of copy_fires: id, job, tenant, shard, history days, scheduled_for, fire_at, version, state, …
_FIRE = _row(f"16s 16s i h h q q i {len(_CLAIMED)}s i ? i q q").pack
# As those of copy_entries: slot, shard, tenant, version, fired, bucket, job, scheduled_for, fire_at.
_ENTRY = _row("h h i i i q 16s q q").pack


def fire_rows(plans: Iterable[JobPlan], claimed_at: datetime) -> bytes:
    """The claimed fires of plain plans."""
    at = postgres_micros(claimed_at)
    rows = [SIGNATURE]
    for plan in plans:
        job = plan.due.job
        work = job.work
        exclusive = work.overlap is not OverlapPolicy.ALLOW
        rows += [_fire(row.fire, job.version, job.max_attempts, exclusive, at) for row in plan.rows]
    rows.append(END)
    return b"".join(rows)


def _fire(fire: Fire, version: int, max_attempts: int, exclusive: bool, claimed_at: int) -> bytes:
    work = fire.work
    scheduled_for = postgres_micros(fire.scheduled_for)
    fire_at = scheduled_for if fire.fire_at is fire.scheduled_for else postgres_micros(fire.fire_at)
    return _FIRE(
        14, 16, fire.id.bytes, 16, work.job_id.bytes, 4, work.tenant_id, 2, work.shard, 2, work.history_days,
        8, scheduled_for, 8, fire_at, 4, version, len(_CLAIMED), _CLAIMED, 4, max_attempts, 1, exclusive,
        4, fire.epoch, 8, fire.seq, 8, claimed_at,
    )  # fmt: skip


def entry_rows(entries: Iterable[tuple[JobPlan, int, int]]) -> bytes:
    """The next occurrences of plans, each with its slot and its bucket."""
    rows = [SIGNATURE]
    rows += [_entry(plan, slot, bucket) for plan, slot, bucket in entries]
    rows.append(END)
    return b"".join(rows)


def _entry(plan: JobPlan, slot: int, bucket: int) -> bytes:
    work, scheduled_for, fire_at = plan.due.job.work, plan.next_scheduled_for, plan.next_fire_at
    assert scheduled_for is not None
    assert fire_at is not None
    at = postgres_micros(scheduled_for)
    fired = plan.due.carried + len(plan.rows)
    return _ENTRY(
        9, 2, slot, 2, work.shard, 4, work.tenant_id, 4, plan.due.job.version, 4, fired, 8, bucket,
        16, work.job_id.bytes, 8, at, 8, at if fire_at is scheduled_for else postgres_micros(fire_at),
    )  # fmt: skip
