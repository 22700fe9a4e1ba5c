"""What became of published fires, and what an owner finds of them, on the rows of the in-memory store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime

from scheduling.core.fire import Fire, State
from scheduling.core.runs import HELD_BACK, Held, InFlight, RunSeen
from scheduling.store.memory_rows import Rows, StoredFire

Key = tuple[int, int]  # a tenant, and a shard


def held(rows: Rows, shards: Collection[int], now: float, as_held: Callable[[StoredFire], Fire]) -> Held:
    """``now`` is monotonic."""
    mine = [fire for fire in rows.fires.values() if fire.work.shard in shards and _is_in_flight(rows, fire)]
    in_flight = [InFlight(as_held(fire), _runs_for(fire, now)) for fire in mine]
    return Held(in_flight, {key: since for key, since in rows.holds.items() if key[1] in shards})


def wake(rows: Rows, shards: Collection[int], now: datetime) -> None:
    """What has waited for its turn with the last owner of these."""
    for fire in rows.fires.values():
        is_held_back = fire.state is State.PARKED and fire.reason in HELD_BACK and fire.work.shard in shards
        if is_held_back and fire.wake_at is not None:
            fire.wake_at = min(fire.wake_at, now)


def _is_in_flight(rows: Rows, fire: StoredFire) -> bool:
    if fire.state is State.CLAIMED:
        return fire.number is not None and not rows.is_beyond(fire) and fire.work.task in rows.guarded
    return fire.state is State.RUNNING


def runs(rows: Rows, fires: Sequence[Fire], now: float) -> Iterator[RunSeen]:
    for asked in fires:
        fire = rows.fires.get(asked.id)
        stands = None if fire is None or fire.fence != asked.fence else fire.state
        if fire is not None and stands is State.RUNNING:
            yield RunSeen(asked.id, asked.fence, True, _runs_for(fire, now))
        elif stands is not State.CLAIMED:
            run = rows.runs.get((asked.id, asked.fence))
            yield RunSeen(asked.id, asked.fence, False, None if run is None else run.ran_s)


def hold(rows: Rows, begun: Mapping[Key, datetime], ended: Collection[Key]) -> None:
    """Of one that is held already the earlier time stays."""
    for key in ended:
        rows.holds.pop(key, None)
    for key, since in begun.items():
        rows.holds[key] = min(since, rows.holds.get(key, since))


def _runs_for(fire: StoredFire, now: float) -> float | None:
    return None if fire.state is not State.RUNNING or fire.started_at is None else now - fire.started_at
