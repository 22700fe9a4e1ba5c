"""Steps that the tests of the schedule's stores share: what an owner of shard 1 does."""

from __future__ import annotations

from scheduling.core.due import DueJob
from scheduling.core.effects import ReadDue
from scheduling.core.fire import Fire
from scheduling.testing.clock import NOON
from tests.claims import SECOND
from tests.store.backends import Backend, plans


def owned(world: Backend, *shards: int) -> dict[int, int]:
    """The epochs of these shards (shard 1), taken over by node-1."""
    return dict(world.store.take_over(shards or (1,), "node-1")[0])


def due(world: Backend, *, until_s: float = 0.0, limit: int = 100, shards: tuple[int, ...] = (1,)) -> list[DueJob]:
    return list(world.store.due(ReadDue(frozenset(shards), NOON + SECOND * until_s, limit)).jobs)


def claimed(world: Backend, epochs: dict[int, int], *, until_s: float = 0.0) -> list[Fire]:
    """Read what is due, and claim it; gives the fires that were planned, with their fences."""
    planned = plans(due(world, until_s=until_s), epoch=epochs[1], until_s=until_s)
    fences = world.store.claim(epochs, planned)
    fires = [row.fire for plan in planned for row in plan.rows]
    for fire in fires:
        fire.fence = fences.get(fire.id, 0)
    return fires


def waiting(world: Backend, *, now_s: float = 0.0, limit: int = 100, shards: tuple[int, ...] = (1,)) -> list[Fire]:
    return list(world.store.waiting(shards, now=NOON + SECOND * now_s, limit=limit).fires)


def state(world: Backend, fire: Fire | object) -> str:
    row = world.row(fire.id if isinstance(fire, Fire) else fire)  # type: ignore[arg-type]
    assert row is not None
    return f"{row.state} {row.reason}".strip()
