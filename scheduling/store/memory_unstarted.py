"""What was published, and nobody has acquired, on the rows of the in-memory store."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scheduling.core.fire import State
from scheduling.store.memory_rows import Rows, StoredFire


def walk(
    rows: Rows, after: Mapping[int, tuple[int, int]], *, share: int
) -> tuple[list[StoredFire], dict[int, tuple[int, int]]]:
    """Of each shard the next fires beyond these numbers; and how far those have come that have more."""
    found: list[StoredFire] = []
    reached: dict[int, tuple[int, int]] = {}
    for shard, number in after.items():
        beyond = [
            fire for fire in rows.fires.values() if fire.work.shard == shard and _is_published(rows, fire, number)
        ]
        piece = sorted(beyond, key=_number)[:share]
        if len(piece) == share:
            reached[shard] = _number(piece[-1])
        found += piece
    return found, reached


def is_suspect(rows: Rows, fire: StoredFire, *, now: float, patience_s: float) -> bool:
    """Whether a worker should have acquired it long ago; ``now`` is monotonic."""
    if fire.work.task not in rows.guarded or now - fire.claimed_at <= patience_s:
        return False
    sent = fire.sent_again_at
    return sent is None or now - sent >= sent - fire.claimed_at


def is_overtaken(fire: StoredFire, fires: Collection[StoredFire], *, now: float, patience_s: float) -> bool:
    """Whether a fire of the same queue with a higher number was acquired long ago."""
    queue = fire.work.shard, fire.work.tenant_id, fire.work.lane
    return any(
        (other.work.shard, other.work.tenant_id, other.work.lane) == queue
        and other.number is not None
        and other.number > _number(fire)
        and other.state not in (State.CLAIMED, State.PARKED)
        and other.started_at is not None
        and other.started_at < now - patience_s
        for other in fires
    )


def _is_published(rows: Rows, fire: StoredFire, beyond: tuple[int, int]) -> bool:
    if fire.state is not State.CLAIMED or fire.number is None:
        return False
    return beyond < fire.number <= rows.shards[fire.work.shard].mark


def _number(fire: StoredFire) -> tuple[int, int]:
    assert fire.number is not None
    return fire.number
