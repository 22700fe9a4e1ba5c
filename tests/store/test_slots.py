"""Slots of strict caps: no more fires of a cap run than it says, whatever dies in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection

from fairness.core.admission import CAP, Refusal, Request
from fairness.core.terms import Bound
from fairness.models import Tenant
from scheduling.core.fire import Fire as HeldFire
from scheduling.models import Fire, Job, ShardProgress, Slot, WorkerTask
from scheduling.store.connection import connector
from scheduling.store.ledger import PostgresLedger
from scheduling.store.ledger_port import Acquired, Refused
from scheduling.store.ledger_port import Refusal as RefusedBy
from scheduling.store.permits import Permits
from scheduling.testing.clock import NOON, ManualClock
from tests.fires import claimed, delivery_of, make_fire, make_job
from tests.store.sessions import InThread

Node = Callable[[], Permits]
SECOND = timedelta(seconds=1)
TASK = "tests.work"


@pytest.fixture
def node(committed_db: None) -> Iterator[Node]:
    made: list[Permits] = []

    def start() -> Permits:
        made.append(Permits(connector(connection.get_connection_params(), name="permits"), ManualClock(NOON)))
        return made[-1]

    WorkerTask.objects.create(name=TASK, is_guarded=True, seen_at=NOON)
    yield start
    for permits in made:
        permits.close()


@pytest.fixture
def job(committed_db: None) -> Job:
    return make_job(TASK)


def asks(fire: Fire, *caps: int, task_cap: int | None = None) -> tuple[HeldFire, Request]:
    """A fire under these strict caps: of its tenant, and of its task."""
    held = claimed(fire)
    bounds = [((fire.tenant_id, "", ""), Bound(max_in_flight=cap, is_strict=True)) for cap in caps]
    if task_cap is not None:
        bounds.append(((fire.tenant_id, "", held.work.task), Bound(max_in_flight=task_cap, is_strict=True)))
    return held, Request(str(fire.id), fire.tenant_id, held.work.lane, held.work.task, bounds)


def fires(job: Job, count: int, **columns: Any) -> list[Fire]:
    return [make_fire(job, NOON + number * SECOND, **columns) for number in range(count)]


def full(job: Job) -> Refusal:
    return Refusal(CAP, (job.tenant_id, "", ""))


def set_state(fire: Fire, state: str, **columns: Any) -> None:
    usual: dict[str, dict[str, Any]] = {
        "parked": {"reason": "turn", "wake_at": NOON},
        "dead": {"reason": "failed"},
    }
    Fire.objects.filter(pk=fire.pk).update(state=state, **usual.get(state, {}) | columns)
    fire.refresh_from_db()


def test_the_first_fires_get_the_slots_and_the_next_is_refused_until_one_has_ended(node, job) -> None:
    first, second, third = fires(job, 3)
    permits = node()
    assert permits.take([asks(first, 2), asks(second, 2), asks(third, 2)]) == [None, None, full(job)]
    assert list(Slot.objects.values_list("number", "fire_id")) == [(1, first.id), (2, second.id)]
    assert node().take([asks(third, 2)]) == [full(job)]
    set_state(first, "succeeded")
    assert node().take([asks(third, 2)]) == [None]


def test_a_fire_that_is_asked_for_again_has_its_slot(node, job) -> None:
    (fire,) = fires(job, 1)
    assert node().take([asks(fire, 1)]) == [None]
    assert node().take([asks(fire, 1), asks(fire, 1)]) == [None, None]
    assert Slot.objects.count() == 1


@pytest.mark.parametrize("state", ["claimed", "running"])
def test_a_slot_is_kept_while_its_fire_may_run(node, job, state) -> None:
    first, second = fires(job, 2)
    node().take([asks(first, 1)])
    if state == "running":
        PostgresLedger("default", lease=timedelta(seconds=30)).acquire(delivery_of(first))
    assert node().take([asks(second, 1)]) == [full(job)]


@pytest.mark.parametrize("state", ["succeeded", "dead", "skipped"])
def test_a_slot_is_free_once_its_fire_is_over(node, job, state) -> None:
    first, second = fires(job, 2)
    node().take([asks(first, 1)])
    set_state(first, state, reason="cancelled")
    assert node().take([asks(second, 1)]) == [None]


def test_a_slot_is_free_once_its_fire_has_another_fence(node, job) -> None:
    first, second = fires(job, 2)
    node().take([asks(first, 1)])
    set_state(first, "claimed", fence=2)  # a take-over: the message of the old fence is refused
    assert node().take([asks(second, 1)]) == [None]
    assert node().take([asks(first, 1)]) == [full(job)]


def test_a_slot_is_free_once_its_fires_row_is_gone(node, job) -> None:
    first, second = fires(job, 2)
    node().take([asks(first, 1)])
    first.delete()
    assert node().take([asks(second, 1)]) == [None]


def test_a_fire_that_waits_loses_its_slot_to_another_and_what_was_sent_of_it_runs_no_more(node, job) -> None:
    first, second = fires(job, 2)
    node().take([asks(first, 1)])
    sent = delivery_of(first)
    set_state(first, "parked")
    assert node().take([asks(second, 1)]) == [None]
    set_state(first, "claimed")  # released
    ledger = PostgresLedger("default", lease=timedelta(seconds=30))
    assert ledger.acquire(sent) == Refused(RefusedBy.STALE_FENCE)


def test_a_fire_that_waits_keeps_its_slot_while_there_are_others(node, job) -> None:
    first, second = fires(job, 2)
    node().take([asks(first, 2)])
    set_state(first, "parked")
    assert node().take([asks(second, 2)]) == [None]
    first.refresh_from_db()
    assert first.fence == 1
    assert Slot.objects.filter(fire_id=first.id).exists()


def test_a_plain_tasks_fire_is_over_once_it_is_sent(node, job) -> None:
    WorkerTask.objects.create(name="tests.plain", is_guarded=False, seen_at=NOON)
    plain = make_job("tests.plain")
    first, second = fires(plain, 2, seq_epoch=1, seq=1)
    node().take([asks(first, 1)])
    assert node().take([asks(second, 1)]) == [full(plain)]
    ShardProgress.objects.filter(shard_id=plain.shard_id).update(seq_epoch=1, seq=1)
    assert node().take([asks(second, 1)]) == [None]


def test_a_fire_of_a_task_that_no_worker_has_told_of_keeps_its_slot_when_it_is_sent(node, job) -> None:
    """The worker that is to come may run all that was sent before."""
    unknown = make_job("tests.unknown")
    first, second = fires(unknown, 2, seq_epoch=1, seq=1)
    node().take([asks(first, 1)])
    ShardProgress.objects.filter(shard_id=unknown.shard_id).update(seq_epoch=1, seq=1)
    assert node().take([asks(second, 1)]) == [full(unknown)]


def test_of_two_caps_a_fire_gets_both_slots_or_none(node, job) -> None:
    first, second = fires(job, 2)
    permits = node()
    assert permits.take([asks(first, 3, task_cap=1), asks(second, 3, task_cap=1)]) == [
        None,
        Refusal(CAP, (job.tenant_id, "", TASK)),
    ]
    assert Slot.objects.filter(task="").count() == 1


def test_what_did_not_go_gives_its_slot_back(node, job) -> None:
    first, second = fires(job, 2)
    permits = node()
    permits.take([asks(first, 1)])
    permits.give_back([asks(first, 1)])
    assert permits.take([asks(second, 1)]) == [None]


def test_what_may_be_in_a_queue_gives_no_slot_back(node, job) -> None:
    first, second = fires(job, 2)
    lost, request = asks(first, 1)
    node().take([(lost, request)])
    again = node()
    assert again.take([(lost, request)]) == [None]
    again.give_back([(lost, request)])
    assert again.take([asks(second, 1)]) == [full(job)]


def test_a_cap_that_was_lowered_lets_nobody_in_until_there_is_room(node, job) -> None:
    first, second, third, fourth = fires(job, 4)
    permits = node()
    permits.take([asks(first, 3), asks(second, 3), asks(third, 3)])
    set_state(first, "succeeded")
    assert permits.take([asks(fourth, 2)]) == [full(job)]
    set_state(second, "succeeded")
    assert permits.take([asks(fourth, 2)]) == [None]


def test_without_the_store_nothing_goes_that_has_a_strict_cap(job) -> None:
    limited, free = fires(job, 2)
    permits = Permits(connector({"host": "127.0.0.1", "port": 1}, name="none"), ManualClock(NOON))
    assert permits.take([asks(limited, 1), asks(free)]) == [replace(full(job), after_s=0.5), None]


def test_nodes_at_once_never_let_more_run_than_the_cap_says(node, job, in_thread: InThread) -> None:
    """Each of six takes, publishes, is seen by a worker at once; and may die, or be taken over, before that."""
    cap, rows = 2, fires(job, 60)
    running, most, guard = 0, 0, threading.Lock()
    ledger = PostgresLedger("default", lease=timedelta(seconds=30))

    def work(number: int) -> int:
        nonlocal running, most
        random, permits = Random(number), node()
        for fire in rows[number::6]:
            while True:
                if random.random() < 0.1:
                    permits = node()  # in the place of one that died
                if permits.take([asks(fire, cap)]) != [None]:
                    continue
                if random.random() < 0.7:
                    break
                set_state(fire, "claimed", fence=fire.fence + 1)  # taken over
            assert isinstance(ledger.acquire(delivery_of(fire)), Acquired)
            with guard:
                running += 1
                most = max(most, running)
            counted = Fire.objects.filter(state="running").count()
            with guard:
                running -= 1
                most = max(most, counted)
            set_state(fire, "succeeded")
        return len(rows[number::6])

    assert sum(done.result() for done in [in_thread(work, number) for number in range(6)]) == len(rows)
    assert 1 < most <= cap
    assert Slot.objects.count() == cap


def test_slots_of_two_tenants_do_not_wait_for_each_other(node, job) -> None:
    other = make_job(TASK, tenant=Tenant.objects.create(slug="other").slug)
    (mine,), (theirs,) = fires(job, 1), fires(other, 1)
    assert node().take([asks(theirs, 1), asks(mine, 1)]) == [None, None]
