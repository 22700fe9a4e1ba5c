"""What every ``ScheduleStore`` does, in memory and in Postgres, with fires that wait, run, or are history."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from scheduling.core.effects import Settlement
from scheduling.core.fire import State
from scheduling.core.overlap import Predecessors
from scheduling.testing.clock import NOON
from tests.claims import SECOND, job_id
from tests.store.backends import SHARDS, Backend, plans
from tests.store.steps import claimed, due, owned, state, waiting

# -- what waits ------------------------------------------------------------------------------------------------------


def test_waiting_is_what_is_parked_or_to_be_retried_and_due_by_then(world: Backend) -> None:
    world.add(1)
    world.add(2, shard=2)
    parked = world.put(1, 1, state="parked", reason="overlap", wake_s=5)
    retry = world.put(1, 2, state="retry_wait", attempt=1, fence=2, wake_s=4)
    world.put(1, 3, state="retry_wait", wake_s=5.001)
    world.put(1, 4, state="claimed")
    elsewhere = world.put(2, 5, state="retry_wait", wake_s=0)
    assert {fire.id for fire in waiting(world, now_s=5)} == {parked, retry}
    assert {fire.id for fire in waiting(world, now_s=5, shards=(2,))} == {elsewhere}
    found = next(fire for fire in waiting(world, now_s=5) if fire.id == retry)
    assert (found.attempt, found.fence, found.fire_at) == (1, 2, NOON + SECOND * 2)


def test_a_pause_holds_the_schedules_own_fires_and_not_those_that_a_person_asked_for(world: Backend) -> None:
    world.add(1)
    world.put(1, 1, state="retry_wait", attempt=1, wake_s=0)
    manual = world.put(1, 2, state="retry_wait", origin="manual:7", wake_s=0)
    world.change(1, paused=True)
    assert [fire.id for fire in waiting(world)] == [manual]


def test_where_nothing_is_due_it_says_when_to_look_again(world: Backend) -> None:
    world.add(1)
    world.add(2, shard=2, tenant=2)

    def next_at(now_s: float = 0.0, *shards: int) -> datetime | None:
        found = world.store.waiting(shards or (1, 2), now=NOON + SECOND * now_s, limit=10)
        assert list(found.fires) == []
        return found.next_at

    assert next_at() is None
    world.put(1, 1, state="parked", reason="overlap", wake_s=7)
    world.put(2, 2, state="retry_wait", attempt=1, wake_s=5)
    assert (next_at(), next_at(4, 1)) == (NOON + SECOND * 5, NOON + SECOND * 7)
    world.change(2, paused=True)
    assert next_at(6) == NOON + SECOND * 6, "nobody knows what is behind that which a pause holds"


def test_what_a_pause_holds_does_not_hide_what_waits_behind_it(world: Backend) -> None:
    world.add(1)
    world.add(2)
    for second in range(10):
        world.put(1, second, state="retry_wait", attempt=1, wake_s=-100)
    world.change(1, paused=True)
    behind = world.put(2, state="retry_wait", attempt=1, wake_s=-1)
    assert [fire.id for fire in waiting(world, limit=3)] == [behind]


def test_beside_many_waiting_fires_of_one_shard_those_of_the_others_are_seen(world: Backend) -> None:
    world.add(1, shard=1)
    world.add(2, shard=2, tenant=2)
    for second in range(30):
        world.put(1, second, state="parked", reason="turn", wake_s=-100)
    other = world.put(2, 50, state="retry_wait", wake_s=-1)
    found = waiting(world, limit=20, shards=(1, 2))
    assert len(found) == 20
    assert other in {fire.id for fire in found}


def test_lateness_of_what_waited_for_its_turn_goes_on_and_of_anything_else_begins_anew(world: Backend) -> None:
    world.add(1)
    turn = world.put(1, 1, state="parked", reason="turn", wake_s=0)
    world.put(1, 2, state="parked", reason="overlap", wake_s=0)
    world.age(100)
    by_turn, by_overlap = sorted(waiting(world), key=lambda fire: fire.id != turn)
    assert by_overlap.claimed_at - by_turn.claimed_at == pytest.approx(100, abs=1)


def test_a_release_claims_what_still_waits_under_its_new_number_and_the_same_fence(world: Backend) -> None:
    world.add(1)
    epochs = owned(world)
    world.put(1, 1, state="retry_wait", attempt=1, fence=4, wake_s=0)
    world.put(1, 2, state="parked", reason="turn", wake_s=0)
    first, second = waiting(world)
    first.epoch, first.seq, second.epoch, second.seq = 1, 11, 1, 12
    assert world.store.release(epochs, [first, second]) == {first.id, second.id}
    row = world.row(first.id)
    assert row is not None
    assert (row.state, row.reason, row.wake_at, row.number) == ("claimed", "", None, (1, 11))
    assert (row.fence, row.attempt) == (first.fence, first.attempt)
    assert world.store.release(epochs, [first]) == set()


def test_a_release_leaves_alone_what_changed_meanwhile(world: Backend) -> None:
    world.add(1)
    epochs = owned(world)
    fence_moved = world.put(1, 1, state="retry_wait", wake_s=0)
    cancelled = world.put(1, 2, state="parked", reason="turn", wake_s=0)
    fires = waiting(world)
    next(fire for fire in fires if fire.id == fence_moved).fence = 9
    world.store.settle(epochs, [])
    world.cancel(cancelled)
    assert world.store.release(epochs, fires) == set()
    assert (state(world, fence_moved), state(world, cancelled)) == ("retry_wait", "skipped cancelled")


# -- settle ----------------------------------------------------------------------------------------------------------


def test_settle_parks_and_skips_what_is_claimed_under_the_same_fence(world: Backend) -> None:
    for number in range(4):
        world.add(number)
    epochs = owned(world)
    fires = claimed(world, epochs)
    parked, skipped, newer, acquired = fires
    newer.fence = 9
    world.acquire(acquired.id)
    world.store.settle(
        epochs,
        [
            Settlement(parked, State.PARKED, "overlap", NOON + SECOND * 3),
            Settlement(skipped, State.SKIPPED, "missed"),
            Settlement(newer, State.SKIPPED, "missed"),
            Settlement(acquired, State.PARKED, "turn", NOON),
        ],
    )
    states = [state(world, fire) for fire in fires]
    assert states == ["parked overlap", "skipped missed", "claimed", "running"]
    row = world.row(parked.id)
    assert row is not None
    assert (row.fence, row.wake_at) == (1, NOON + SECOND * 3)


# -- predecessors ----------------------------------------------------------------------------------------------------


def test_predecessors_are_what_runs_and_what_is_unfinished_and_earlier(world: Backend) -> None:
    world.add(1, overlap="buffer_all")
    world.add(2, overlap="buffer_all")
    world.put(1, 1, state="claimed")
    world.put(1, 2, state="parked", reason="overlap", wake_s=9)
    world.put(1, 3, state="retry_wait", attempt=1, wake_s=9)
    world.put(1, 4, state="retry_wait", origin="manual:1", wake_s=0)
    world.put(1, 5, state="succeeded", attempt=1)
    world.put(1, 6, state="skipped", reason="missed")
    world.put(1, 7, state="dead", reason="rejected", attempt=1)
    mine = world.put(1, 10, state="claimed")
    world.put(1, 11, state="claimed")
    world.put(1, 12, state="running", attempt=1)
    world.put(2, 1, state="running", attempt=1)
    alone = world.put(2, 0.5, state="claimed")
    _, fires = world.store.take_over([1], "node-1")
    by_id = {fire.id: fire for fire in fires}
    counts = world.store.predecessors([by_id[mine], by_id[alone]])
    assert counts == {mine: Predecessors(ahead=5, queued=2), alone: Predecessors(ahead=1, queued=0)}


def test_a_fire_without_predecessors_is_left_out(world: Backend) -> None:
    world.add(1, overlap="skip")
    world.put(1, 10, state="claimed")
    world.put(1, 20, state="claimed")
    _, fires = world.store.take_over([1], "node-1")
    first, second = fires
    assert world.store.predecessors(fires) == {second.id: Predecessors(1, 1)}
    assert first.fire_at < second.fire_at


def test_of_two_fires_at_one_instant_one_is_ahead_of_the_other(world: Backend) -> None:
    world.add(1, overlap="skip")
    world.put(1, 10, state="claimed")
    world.put(1, 10, state="claimed", origin="manual:1")
    _, fires = world.store.take_over([1], "node-1")
    assert len(world.store.predecessors(fires)) == 1


# -- reap ------------------------------------------------------------------------------------------------------------


def test_a_run_whose_lease_is_over_is_retried_at_once_the_first_time(world: Backend) -> None:
    world.add(1)
    fire = world.put(1, state="running", attempt=1, fence=2, lease_over_s=1)
    assert len(world.store.reap(owned(world), now=NOON + SECOND * 9)) == 1
    row = world.row(fire)
    assert row is not None
    assert (row.state, row.reason, row.fence, row.attempt) == ("retry_wait", "lease_lost", 3, 1)
    assert row.wake_at == NOON + SECOND * 9
    assert world.lost_runs() == {(fire, 2)}
    assert [f.id for f in waiting(world, now_s=9)] == [fire]


def test_later_retries_wait_with_backoff(world: Backend) -> None:
    world.add(1, retry_base=timedelta(seconds=100))
    fires = [world.put(1, n, state="running", attempt=2, lease_over_s=60) for n in range(20)]
    assert len(world.store.reap(owned(world), now=NOON)) == 20
    waits = [world.row(fire).wake_at - NOON for fire in fires]  # type: ignore[union-attr, operator]
    assert max(waits) > timedelta(seconds=50)
    assert max(waits) <= timedelta(seconds=100)


def test_without_attempts_left_a_lost_run_is_dead(world: Backend) -> None:
    world.add(1)
    fire = world.put(1, state="running", attempt=3, max_attempts=3, lease_over_s=60)
    assert len(world.store.reap(owned(world), now=NOON)) == 1
    assert state(world, fire) == "dead attempts_exhausted"
    assert world.lost_runs() == {(fire, 1)}


def test_a_lost_run_of_a_deleted_job_is_dead(world: Backend) -> None:
    world.add(1)
    fire = world.put(1, state="running", attempt=1, lease_over_s=60)
    world.change(1, deleted=True)
    world.store.reap(owned(world), now=NOON)
    assert state(world, fire) == "dead cancelled"


def test_a_run_within_its_lease_or_in_another_shard_is_left_alone(world: Backend) -> None:
    world.add(1)
    world.add(2, shard=2)
    fires = [
        world.put(1, 1, state="running", attempt=1, lease_over_s=-20),
        world.put(1, 2, state="running", attempt=1, lease_over_s=-3),
        world.put(2, 3, state="running", attempt=1, lease_over_s=60),
    ]
    assert len(world.store.reap(owned(world), now=NOON)) == 0
    assert {state(world, fire) for fire in fires} == {"running"}


# -- history ---------------------------------------------------------------------------------------------------------


def test_a_day_goes_when_its_class_has_run_out_and_nothing_in_it_is_unfinished(world: Backend) -> None:
    world.add(1)
    old = world.put(1, state="succeeded", attempt=1)
    next_day = world.put(1, 86_400, state="succeeded", attempt=1)
    is_over = NOON.replace(hour=0) + timedelta(days=31)
    world.store.expire(range(SHARDS), now=is_over - SECOND)
    assert world.row(old) is not None
    assert len(world.store.expire(range(SHARDS), now=is_over)) == 1
    assert (world.row(old), world.row(next_day) is not None) == (None, True)


@pytest.mark.parametrize(
    ("columns", "is_kept"),
    [
        ({"state": "parked", "reason": "overlap", "wake_s": 0}, True),
        ({"state": "retry_wait", "attempt": 1, "wake_s": 0}, True),
        ({"state": "running", "attempt": 1, "lease_over_s": 9}, True),
        ({"state": "claimed", "number": (1, 6)}, True),
        ({"state": "claimed"}, True),
        ({"state": "claimed", "number": (1, 5)}, False),
        ({"state": "claimed", "confirmed": True}, False),
        ({"state": "dead", "reason": "rejected", "attempt": 1}, False),
        ({"state": "skipped", "reason": "missed"}, False),
    ],
)
def test_a_day_with_an_unfinished_fire_is_kept(world: Backend, columns: dict, is_kept: bool) -> None:
    world.add(1)
    world.store.record(owned(world), {1: 5})
    fire = world.put(1, **columns)
    world.store.expire(range(SHARDS), now=NOON + timedelta(days=400))
    assert (world.row(fire) is not None) is is_kept


def test_a_dropped_day_is_made_again_for_an_occurrence_that_comes_late(world: Backend) -> None:
    world.add(1)
    epochs = owned(world)
    (fire,) = claimed(world, epochs)
    world.store.settle(epochs, [Settlement(fire, State.SKIPPED, "missed")])
    world.store.expire(range(SHARDS), now=NOON + timedelta(days=400))
    assert world.row(fire.id) is None
    world.add(2)
    planned = plans([job for job in due(world) if job.work.job_id == job_id(2)], epoch=1, first=5)
    assert len(world.store.claim(epochs, planned)) == 1


def test_what_a_node_reports_is_taken(world: Backend) -> None:
    world.store.report("node-1", fires=7, latency={"max": 1.5})
