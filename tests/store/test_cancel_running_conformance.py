"""What every ``ScheduleStore`` does where the newest fire of a job takes the place of what runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from scheduling.core.errors import StaleEpoch
from scheduling.core.fire import Fire, OverlapPolicy
from scheduling.core.overlap import NEWER_IS_DUE, Predecessors
from scheduling.models import DeadLetter
from scheduling.models import Fire as Row
from scheduling.testing.clock import NOON
from tests.claims import SECOND
from tests.processes import PATIENCE_S
from tests.store.backends import Backend, MemoryBackend
from tests.store.sessions import OpenSession
from tests.store.steps import owned, state, waiting

BEGUN: dict[str, Any] = {"state": "running", "attempt": 1}


@pytest.fixture
def epochs(world: Backend) -> dict[int, int]:
    world.add(1, 99, overlap=OverlapPolicy.CANCEL_RUNNING)
    return owned(world)


def newest(world: Backend, at_s: float = 30) -> Fire:
    """A fire that is to be dispatched, as its node holds it."""
    fire = world.put(1, at_s, state="parked", reason="overlap", wake_s=0)
    return next(found for found in waiting(world) if found.id == fire)


def cancel_reason(world: Backend, fire: UUID) -> str:
    if isinstance(world, MemoryBackend):
        return world.store.rows.fires[fire].cancel_reason
    return Row.objects.get(pk=fire).cancel_reason


def test_counted_is_what_has_begun_before_it_and_what_is_newer_and_waits(
    world: Backend, epochs: dict[int, int]
) -> None:
    mine = newest(world)
    world.put(1, 1, **BEGUN)
    world.put(1, 2, state="retry_wait", attempt=1, wake_s=99)
    world.put(1, 3, **BEGUN, origin="manual:1")
    world.put(1, 4, state="retry_wait", attempt=2, reason="redriven", wake_s=99)
    world.put(1, 5, state="retry_wait", wake_s=99)
    world.put(1, 6, **BEGUN, cancel_reason="a person asked")
    world.put(1, 40, **BEGUN)
    world.put(1, 41, state="parked", reason="overlap", wake_s=99)
    world.put(1, 42, state="parked", reason="turn", wake_s=99)
    world.put(1, 43, state="claimed")
    world.put(1, 44, state="parked", reason="overlap", wake_s=99, origin="manual:2")
    assert world.store.predecessors([mine]) == {mine.id: Predecessors(ahead=7, queued=1, begun=2, newer=1)}


def test_for_no_other_policy_anything_is_counted_behind_it(world: Backend, epochs: dict[int, int]) -> None:
    world.add(2, 99, overlap="buffer_all")
    fire = world.put(2, 1, state="parked", reason="overlap", wake_s=0)
    world.put(2, 2, state="parked", reason="overlap", wake_s=99)
    (held,) = waiting(world)
    assert held.id == fire
    assert world.store.predecessors([held]) == {}


def test_what_runs_is_asked_to_stop_and_what_waits_for_a_retry_is_a_dead_letter(
    world: Backend, epochs: dict[int, int]
) -> None:
    mine = newest(world)
    runs = world.put(1, 1, **BEGUN)
    retry = world.put(1, 2, state="retry_wait", attempt=1, wake_s=99)
    spared = [
        world.put(1, 3, **BEGUN, origin="manual:1"),
        world.put(1, 4, state="retry_wait", attempt=2, reason="redriven", wake_s=99),
        world.put(1, 5, state="parked", reason="overlap", wake_s=99),
        world.put(1, 40, **BEGUN),
    ]
    before = [state(world, fire) for fire in spared]
    (told,) = world.store.cancel_running(epochs, [mine])
    assert (told.fire_id, told.state, told.reason, told.error) == (retry, "dead", "cancelled", NEWER_IS_DUE)
    assert (told.tenant, told.task, told.attempt) == ("tenant-1", "tests.none", 1)
    assert (state(world, runs), cancel_reason(world, runs)) == ("running", NEWER_IS_DUE)
    assert state(world, retry) == "dead cancelled"
    assert [state(world, fire) for fire in spared] == before
    assert {cancel_reason(world, fire) for fire in spared} == {""}
    assert world.store.predecessors([mine])[mine.id].begun == 0, "they are asked once"


def test_nobody_is_asked_under_a_stale_epoch(world: Backend, epochs: dict[int, int]) -> None:
    mine, runs = newest(world), world.put(1, 1, **BEGUN)
    owned(world)
    with pytest.raises(StaleEpoch):
        world.store.cancel_running(epochs, [mine])
    assert cancel_reason(world, runs) == ""


def test_a_run_that_was_asked_to_stop_and_loses_its_lease_is_dead(world: Backend, epochs: dict[int, int]) -> None:
    mine = newest(world)
    runs = world.put(1, 1, **BEGUN, lease_over_s=60)
    world.store.cancel_running(epochs, [mine])
    (lost,) = world.store.reap(epochs, now=NOON + SECOND)
    assert (lost.fire_id, lost.reason, state(world, runs)) == (runs, "cancelled", "dead cancelled")
    assert [fire.id for fire in waiting(world, now_s=1)] == [mine.id], "and the newest is due"


# -- what only a database can do ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", ["postgres"], indirect=True)
def test_its_worker_hears_of_it_at_once_and_the_letter_says_why(
    world: Backend, epochs: dict[int, int], open_session: OpenSession
) -> None:
    mine, runs = newest(world), world.put(1, 1, **BEGUN)
    retry = world.put(1, 2, state="retry_wait", attempt=1, wake_s=99)
    worker = open_session("a worker")
    worker.execute("LISTEN fairbeat_cancel")
    world.store.cancel_running(epochs, [mine])
    assert [notice.payload for notice in worker.notifies(timeout=PATIENCE_S, stop_after=1)] == [str(runs)]
    letter = DeadLetter.objects.get(fire_id=retry)
    assert (letter.reason, letter.error, letter.attempts) == ("cancelled", NEWER_IS_DUE, 1)


@pytest.mark.parametrize("world", ["postgres"], indirect=True)
def test_a_run_whose_completion_is_under_way_is_not_waited_for(
    world: Backend, epochs: dict[int, int], open_session: OpenSession
) -> None:
    mine, runs = newest(world), world.put(1, 1, **BEGUN)
    worker = open_session("a worker")
    worker.execute("BEGIN")
    worker.execute("UPDATE scheduling_fire SET state = 'succeeded', lease_until = NULL WHERE id = %s", [runs])
    world.store.cancel_running(epochs, [replace(mine)])
    worker.execute("COMMIT")
    assert (state(world, runs), cancel_reason(world, runs)) == ("succeeded", "")
    assert connection.in_atomic_block is False
