"""What an owner learns of published fires, at a take-over and while they are with workers; and of its holds."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection

from scheduling.core.errors import StaleEpoch
from scheduling.core.fire import Fire
from scheduling.core.identity import run_id
from scheduling.core.runs import RunSeen
from scheduling.models import Fire as FireRow
from scheduling.models import JobRun, WorkerTask
from scheduling.models.job_run import NOBODY
from scheduling.store import in_flight
from scheduling.store.in_flight import read_runs
from scheduling.testing.clock import NOON
from tests.claims import SECOND, make_fire, make_work
from tests.store.backends import Backend, MemoryBackend, PostgresBackend, database_now
from tests.store.pages import pages_of
from tests.store.steps import owned

TASK = "tests.none"


def tenant(world: Backend, number: int = 1) -> int:
    """As the store knows it."""
    return number if isinstance(world, MemoryBackend) else 1000 + number


def acquires(world: Backend, is_guarded: bool = True) -> None:
    """Workers have told that this task acquires its fires."""
    if isinstance(world, MemoryBackend):
        world.store.rows.guarded |= {TASK} if is_guarded else set()
    else:
        WorkerTask.objects.create(name=TASK, is_guarded=is_guarded, seen_at=NOON)


def asked(at_s: float, *, fence: int = 1, job: int = 1) -> Fire:
    return make_fire(make_work(job), NOON + SECOND * at_s, fence=fence)


def test_of_published_fires_it_is_told_which_run_and_which_are_over(world: Backend) -> None:
    world.add(1, 99)
    fires = [asked(n) for n in range(7)]
    world.put(1, 0, state="claimed", number=(1, 1))
    world.put(1, 1, state="running", attempt=1, lease_over_s=-20)
    world.put(1, 2, state="succeeded", attempt=1)
    world.put(1, 3, state="retry_wait", attempt=1, fence=2, wake_s=5)
    world.put(1, 4, state="skipped", reason="cancelled")
    world.put(1, 5, state="claimed", fence=2, number=(1, 9))  # of the next attempt
    seen = {one.fire_id: one for one in world.store.runs(fires)}
    assert fires[0].id not in seen
    assert [seen[fire.id].is_running for fire in fires[1:]] == [True, False, False, False, False, False]
    assert {one.fence for one in seen.values()} == {1}
    ran_s = seen[fires[1].id].ran_s
    assert ran_s is not None
    assert 59 < ran_s < 120
    assert world.store.runs([]) == []


def test_what_an_attempt_has_taken_is_told_by_its_own_record_whatever_came_after(committed_db: None) -> None:
    world = PostgresBackend()
    world.add(1, 99)
    fire = world.put(1, 0, state="running", attempt=2, fence=2)
    row = FireRow.objects.get(pk=fire)
    began = database_now() - timedelta(seconds=100)
    JobRun.objects.create(
        id=run_id(fire, 1), fire_id=fire, fence=1, job=row.job, tenant=row.tenant, attempt=1, state="failed",
        history_days=row.history_days, scheduled_for=row.scheduled_for, holder=uuid4(), started_at=began,
        finished_at=began + timedelta(seconds=7),
    )  # fmt: skip
    assert world.store.runs([asked(0)]) == [RunSeen(fire, 1, False, 7.0)]
    assert [one.is_running for one in world.store.runs([asked(0, fence=2)])] == [True]
    JobRun.objects.update(holder=NOBODY)  # the broker has lost its message
    assert world.store.runs([asked(0)]) == [RunSeen(fire, 1, False, None)]
    world.close()


def test_a_look_at_many_runs_costs_a_few_pages_each(committed_db: None) -> None:
    world = PostgresBackend()
    world.add(1, 99)
    for second in range(60):
        world.put(1, second, state="claimed" if second % 2 else "succeeded", attempt=second % 2)
    fires = [asked(second) for second in range(60)]
    assert pages_of(world.store, lambda counted: read_runs(counted, fires)) < 60 * 8
    world.close()


def test_a_new_owner_is_told_what_is_with_workers_or_on_the_way_there(world: Backend) -> None:
    acquires(world)
    world.add(1, 99)
    sent = world.put(1, 0, state="claimed", number=(0, 1))
    again = world.put(1, 1, state="claimed", number=(0, 2), attempt=1, fence=2)
    unsent = world.put(1, 2, state="claimed", number=(0, 3))
    runs = world.put(1, 3, state="running", attempt=1, lease_over_s=-20, number=(0, 1))
    for at_s, state in ((4, "succeeded"), (5, "parked"), (6, "skipped"), (7, "retry_wait")):
        world.put(1, at_s, state=state, reason="x", wake_s=1 if state in ("parked", "retry_wait") else None)
    world.add(2, 99, shard=2)
    world.put(2, 0, state="running", attempt=1, lease_over_s=-20)
    set_mark(world, (0, 2))
    owned(world)
    found = world.store.held([1])
    assert {one.fire.id: one.ran_s is not None for one in found.in_flight} == {sent: False, again: False, runs: True}
    assert unsent not in {one.fire.id for one in found.in_flight}
    fences = {one.fire.id: (one.fire.fence, one.fire.attempt) for one in found.in_flight}
    assert fences[again] == (2, 1)
    assert {one.fire.work.task for one in found.in_flight} == {TASK}


def set_mark(world: Backend, number: tuple[int, int]) -> None:
    """As the last owner has left it."""
    if isinstance(world, MemoryBackend):
        world.store.rows.shards[1].mark = number
    else:
        with connection.cursor() as cursor:
            cursor.execute("UPDATE scheduling_shardprogress SET seq_epoch = %s, seq = %s WHERE shard_id = 1", number)


def test_what_was_sent_to_plain_tasks_is_with_nobody(world: Backend) -> None:
    acquires(world, is_guarded=False)
    world.add(1, 99)
    for second in range(3):
        world.put(1, second, state="claimed", number=(1, second + 1))
    set_mark(world, (1, 9))
    assert world.store.held([1]).in_flight == []


def test_a_look_at_what_is_held_does_not_walk_over_all_that_was_sent(
    committed_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_flight, "LOOKED_AT", 10)
    world = PostgresBackend()
    acquires(world)
    world.add(1, 99)
    for second in range(30):
        world.put(1, second, state="claimed", number=(1, second + 1))
    set_mark(world, (1, 99))
    newest = {one.fire.scheduled_for for one in world.store.held([1]).in_flight}
    assert newest == {NOON + SECOND * second for second in range(19, 30)}
    world.close()


def test_a_hold_is_written_and_told_and_the_earlier_one_stays(world: Backend) -> None:
    world.add(1, 99)
    world.add(2, 99, tenant=2)
    one, two = (tenant(world, 1), 1), (tenant(world, 2), 1)
    epochs = owned(world)
    world.store.hold(epochs, begun={one: NOON, two: NOON + SECOND}, ended=[])
    world.store.hold(epochs, begun={one: NOON + SECOND * 9, two: NOON - SECOND}, ended=[])
    assert world.store.held([1]).since == {one: NOON, two: NOON - SECOND}
    assert world.store.held([2]).since == {}
    world.store.hold(epochs, begun={two: NOON}, ended=[one, two])
    assert world.store.held([1, 2]).since == {two: NOON}
    if not isinstance(world, MemoryBackend):
        world.store.hold(epochs, begun={(987654, 1): NOON}, ended=[])  # it was deleted meanwhile
    assert world.store.held([1]).since == {two: NOON}


def test_a_hold_of_a_shard_that_another_has_is_not_written(world: Backend) -> None:
    world.add(1, 99)
    epochs = owned(world)
    world.store.take_over([1], "node-2")
    with pytest.raises(StaleEpoch):
        world.store.hold(epochs, begun={(tenant(world), 1): NOON}, ended=[])
    assert world.store.held([1]).since == {}
