"""What every ``ScheduleStore`` does with fires that were published, and nobody acquires."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db.models import F

from scheduling.core.errors import StaleEpoch
from scheduling.core.unstarted import START, Unstarted
from scheduling.models import Fire, WorkerTask
from scheduling.testing.clock import NOON
from tests.store.backends import Backend, MemoryBackend, database_now
from tests.store.steps import owned, state

PATIENCE = timedelta(seconds=60)
TASK = "tests.none"
MARK = 100


def look(world: Backend, after: dict[int, tuple[int, int]] | None = None, *, limit: int = 100) -> Unstarted:
    return world.store.unstarted(after or {1: START}, patience=PATIENCE, limit=limit)


def suspects(world: Backend) -> set[UUID]:
    return {fire.id for fire in look(world).suspects}


@pytest.fixture
def epochs(world: Backend) -> dict[int, int]:
    """Of shard 1, whose watermark stands at ``MARK``; a worker has the task of every job."""
    register(world, is_guarded=True)
    mine = owned(world)
    world.store.record(mine, {1: MARK})
    return mine


def register(world: Backend, *, is_guarded: bool) -> None:
    """As a worker does at its start."""
    if isinstance(world, MemoryBackend):
        (world.store.rows.guarded.add if is_guarded else world.store.rows.guarded.discard)(TASK)
    else:
        WorkerTask.objects.create(name=TASK, is_guarded=is_guarded, seen_at=database_now())


def published(world: Backend, seq: int, *, job: int = 1, ago_s: float = 61, **columns: Any) -> UUID:
    """A fire that was claimed and published so long ago."""
    fire = world.put(job, seq, state="claimed", number=(1, seq), **columns)
    if isinstance(world, MemoryBackend):
        world.store.rows.fires[fire].claimed_at -= ago_s
    else:
        Fire.objects.filter(pk=fire).update(claimed_at=F("claimed_at") - timedelta(seconds=ago_s))
    return fire


def acquired(world: Backend, seq: int, *, job: int = 1, ago_s: float = 61, is_over: bool = True) -> UUID:
    """A fire that a worker acquired so long ago."""
    fire = world.put(job, seq, state="succeeded" if is_over else "running", number=(1, seq), attempt=1)
    if isinstance(world, MemoryBackend):
        world.store.rows.fires[fire].started_at = world.clock.monotonic() - ago_s
    else:
        Fire.objects.filter(pk=fire).update(started_at=database_now() - timedelta(seconds=ago_s))
    return fire


def pass_time(world: Backend, seconds: float) -> None:
    world.age(seconds)
    if not isinstance(world, MemoryBackend):
        Fire.objects.update(sent_again_at=F("sent_again_at") - timedelta(seconds=seconds))


def send(world: Backend, epochs: dict[int, int], seq: int) -> set[UUID]:
    """Send what is suspected again, from this number on."""
    fires = list(look(world).suspects)
    for number, fire in enumerate(fires, start=seq):
        fire.epoch, fire.seq = epochs[1], number
    return world.store.send_again(epochs, fires)


# -- suspects ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("epochs")
def test_suspected_is_what_was_published_long_ago_and_is_still_claimed(world: Backend) -> None:
    world.add(1)
    world.add(2, shard=2)
    gone = published(world, 1, fence=3)
    published(world, 2, ago_s=50)
    published(world, MARK + 1)  # not known to be confirmed
    published(world, 4, job=2)  # another's
    acquired(world, 5, is_over=False)
    (found,) = look(world).suspects
    assert (found.id, found.fence, found.attempt, (found.epoch, found.seq)) == (gone, 3, 0, (1, 1))
    assert found.scheduled_for == NOON + timedelta(seconds=1)


def test_what_plain_tasks_were_sent_is_never_suspected(world: Backend) -> None:
    world.store.record(owned(world), {1: MARK})
    world.add(1)
    published(world, 1)
    assert suspects(world) == set(), "no worker has told of the task"
    register(world, is_guarded=False)
    assert suspects(world) == set()


@pytest.mark.usefixtures("epochs")
def test_a_walk_reads_a_piece_at_a_time_and_leaves_none_out(world: Backend) -> None:
    world.add(1)
    fires = [published(world, seq) for seq in range(1, 6)]
    seen, after, rounds = [], {1: START}, 0
    while after:
        found = look(world, after, limit=2)
        seen += [fire.id for fire in found.suspects]
        after, rounds = dict(found.reached), rounds + 1
    assert (seen, rounds) == (fires, 3)


@pytest.mark.usefixtures("epochs")
def test_a_young_fire_is_passed_by_and_the_walk_goes_on(world: Backend) -> None:
    world.add(1)
    published(world, 1, ago_s=0)
    assert look(world, limit=1).reached == {1: (1, 1)}


# -- overtaken ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("epochs")
@pytest.mark.parametrize(
    ("later", "is_overtaken"),
    [
        ({"seq": 9}, True),
        ({"seq": 9, "is_over": False}, True),
        ({"seq": 9, "job": 2}, True),
        ({"seq": 9, "ago_s": 59}, False),
        ({"seq": 2}, False),
        ({"seq": 9, "job": 3}, False),
        ({"seq": 9, "job": 4}, False),
    ],
    ids=["later", "later and running", "of a neighbour", "only now", "earlier", "other lane", "other tenant"],
)
def test_overtaken_is_what_a_later_fire_of_its_queue_that_was_acquired_long_ago_has_passed(
    world: Backend, later: dict[str, Any], is_overtaken: bool
) -> None:
    for number, of in ((1, {}), (2, {}), (3, {"lane": "transactional"}), (4, {"tenant": 2})):
        world.add(number, 99, **({"lane": "bulk"} | of))
    gone = published(world, 5)
    acquired(world, **later)
    found = look(world)
    assert [fire.id for fire in found.suspects] == [gone]
    assert set(found.overtaken) == ({gone} if is_overtaken else set())


@pytest.mark.usefixtures("epochs")
def test_a_later_fire_that_was_published_and_is_not_acquired_has_overtaken_nothing(world: Backend) -> None:
    world.add(1)
    published(world, 1)
    published(world, 2, attempt=1)
    assert set(look(world).overtaken) == set()


# -- sent again --------------------------------------------------------------------------------------------------------


def test_sent_again_it_keeps_its_fence_and_gets_a_new_number(world: Backend, epochs: dict[int, int]) -> None:
    world.add(1)
    fire = published(world, 1, fence=3)
    assert send(world, epochs, MARK + 7) == {fire}
    row = world.row(fire)
    assert row is not None
    assert (row.state, row.fence, row.attempt, row.number) == ("claimed", 3, 0, (1, MARK + 7))


def test_after_each_time_it_is_left_in_peace_twice_as_long(world: Backend, epochs: dict[int, int]) -> None:
    world.add(1)
    fire = published(world, 1)
    age_s = 61.0
    for seq in (10, 20, 30):
        assert send(world, epochs, seq) == {fire}
        pass_time(world, age_s - 2)
        assert suspects(world) == set()
        pass_time(world, 3)
        age_s = 2 * age_s + 1
    assert suspects(world) == {fire}


def test_what_was_acquired_or_claimed_anew_meanwhile_is_not_sent_again(world: Backend, epochs: dict[int, int]) -> None:
    world.add(1)
    started, newer = published(world, 1), published(world, 2)
    fires = list(look(world).suspects)
    world.acquire(started)
    world.claim_again(newer)
    assert world.store.send_again(epochs, fires) == set()
    assert state(world, started) == "running"


def test_nothing_is_sent_again_under_a_stale_epoch(world: Backend, epochs: dict[int, int]) -> None:
    world.add(1)
    fire = published(world, 1)
    fires = list(look(world).suspects)
    owned(world)
    with pytest.raises(StaleEpoch):
        world.store.send_again(epochs, fires)
    assert world.row(fire).number == (1, 1)  # type: ignore[union-attr]
