"""Stop 2 looks after what was published and nobody acquires; and after the newest fire, for which others make room."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db.models import F

from scheduling.core.fire import Fire as HeldFire
from scheduling.core.overlap import NEWER_IS_DUE
from scheduling.core.unstarted import START
from scheduling.models import Fire, WorkerTask
from scheduling.testing.clock import NOON
from tests.claims import SECOND
from tests.store import test_polling
from tests.store.backends import database_now
from tests.store.steps import owned
from tests.store.test_polling import poll, row

world, pollers = test_polling.world, test_polling.pollers


@pytest.fixture
def lost(world, pollers) -> HeldFire:
    """A fire that was published and confirmed, and should have been acquired by now."""
    WorkerTask.objects.create(name="tests.none", is_guarded=True, seen_at=database_now())
    world.add(1)
    store = pollers("a")
    (fire,) = poll(store)
    store.confirm([fire])
    age(61)
    return fire


def age(seconds: float) -> None:
    """As if everything had been so much earlier."""
    by = timedelta(seconds=seconds)
    Fire.objects.update(
        **{name: F(name) - by for name in ("claimed_at", "claimed_until", "sent_again_at", "started_at")}
    )


def test_what_is_confirmed_says_by_when_it_must_be_acquired_unless_its_task_is_a_plain_one(world, pollers) -> None:
    WorkerTask.objects.create(name="tests.none", is_guarded=False, seen_at=database_now())
    world.add(1)
    store = pollers("a")
    (fire,) = poll(store)
    store.confirm([fire])
    assert row(fire).claimed_until is None
    WorkerTask.objects.update(is_guarded=True)
    store.confirm([fire])
    until = row(fire).claimed_until
    assert until is not None
    assert until - database_now() == pytest.approx(timedelta(seconds=60), abs=timedelta(seconds=2))


def test_what_is_not_acquired_in_time_is_suspected_and_never_claimed_anew(pollers, lost: HeldFire) -> None:
    store = pollers("b")
    assert poll(store) == []
    found = store.unstarted(limit=10)
    assert ([fire.id for fire in found.suspects], found.overtaken) == ([lost.id], set())
    assert row(lost).fence == 1
    Fire.objects.update(state="running", attempt=1, holder=uuid4(), lease_until=database_now())
    assert store.unstarted(limit=10).suspects == []


def test_its_message_is_sent_again_under_the_same_fence_by_one_poller(pollers, lost: HeldFire) -> None:
    a, b = pollers("a"), pollers("b")
    of_a, of_b = a.unstarted(limit=10).suspects, b.unstarted(limit=10).suspects
    (again,) = a.send_again(of_a, {lost.id})
    assert (again.id, again.fence) == (lost.id, 1)
    assert b.send_again(of_b, {lost.id}) == []
    assert row(lost).confirmed is False, "until the broker has it"
    assert poll(b) == []


def test_after_each_time_it_is_left_in_peace_twice_as_long(pollers, lost: HeldFire) -> None:
    store = pollers("a")
    for patience_s in (61, 123):
        (again,) = store.send_again(store.unstarted(limit=10).suspects, {lost.id})
        store.confirm([again])
        age(patience_s - 1)
        assert store.unstarted(limit=10).suspects == []
        age(2)
        assert len(store.unstarted(limit=10).suspects) == 1


def test_what_is_not_gone_is_looked_at_again_when_its_patience_has_passed_once_more(pollers, lost: HeldFire) -> None:
    store = pollers("a")
    assert store.send_again(store.unstarted(limit=10).suspects, set()) == []
    assert (row(lost).confirmed, row(lost).sent_again_at) == (True, None)
    assert store.unstarted(limit=10).suspects == []
    age(61)
    assert len(store.unstarted(limit=10).suspects) == 1


@pytest.mark.parametrize(("claimed_s", "is_overtaken"), [(50, True), (0, False)])
def test_what_was_claimed_later_and_acquired_long_ago_has_overtaken_it(
    world, pollers, lost: HeldFire, claimed_s: float, is_overtaken: bool
) -> None:
    world.add(2, 99)
    later = world.put(2, 3, state="succeeded", attempt=1, confirmed=True)
    Fire.objects.filter(pk=later).update(
        started_at=database_now() - SECOND * 61, claimed_at=database_now() - SECOND * (61 - claimed_s)
    )
    found = pollers("b").unstarted(limit=10)
    assert found.overtaken == ({lost.id} if is_overtaken else set())


def test_from_stop_3_to_2_what_was_published_is_to_be_acquired_in_time(world, pollers) -> None:
    WorkerTask.objects.create(name="tests.none", is_guarded=True, seen_at=database_now())
    world.add(1, 99)
    world.store.record(owned(world), {1: 5})
    published = world.put(1, 1, state="claimed", number=(1, 5))
    store = pollers("a")
    store.adopt()
    assert poll(store) == []
    age(61)
    assert [fire.id for fire in store.unstarted(limit=10).suspects] == [published]


def test_from_stop_2_to_3_what_was_confirmed_and_is_not_acquired_is_still_looked_after(world, lost: HeldFire) -> None:
    epochs = owned(world)
    (found,) = world.store.unstarted({1: START}, patience=timedelta(seconds=60), limit=10).suspects
    found.epoch, found.seq = 1, 1
    assert world.store.send_again(epochs, [found]) == {lost.id}
    assert (row(lost).fence, row(lost).seq, row(lost).claimed_until) == (1, 1, None)


def test_the_newest_fire_makes_what_runs_stop_at_stop_2_too(world, pollers) -> None:
    world.add(1, overlap="cancel_running")
    runs = world.put(1, -60, state="running", attempt=1)
    assert poll(pollers("a")) == []
    assert Fire.objects.get(pk=runs).cancel_reason == NEWER_IS_DUE
    assert Fire.objects.get(scheduled_for=NOON).reason == "overlap"
