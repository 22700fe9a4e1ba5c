"""The leases of running fires are renewed, each until its hard timeout, by one thread with a connection of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError, connection

from scheduling import LeaseLost, current_job
from scheduling.models import Fire
from scheduling.store.ledger_port import Delivery, Renewal
from scheduling.worker.heartbeat import Heartbeat
from scheduling.worker.process import worker_process
from tests.processes import PATIENCE_S, eventually


class Clock:
    """Monotonic seconds that only move when told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Leases:
    """A ledger that knows of heartbeats only."""

    def __init__(self) -> None:
        self.calls: list[set[UUID]] = []
        self.lost: set[UUID] = set()
        self.is_down = False
        self.closed = 0

    def heartbeat(self, deliveries: Collection[Delivery]) -> Renewal:
        if self.is_down:
            raise OperationalError("down")
        self.calls.append({delivery.holder for delivery in deliveries})
        return Renewal(frozenset(self.lost), {})

    def close(self) -> None:
        self.closed += 1


class Running(SimpleNamespace):
    """As much of a context as the heartbeat looks at."""

    lost = False

    def mark_lost(self) -> None:
        self.lost = True

    @property
    def holder(self) -> UUID:
        return self.fired.delivery.holder


def context_of_a_run() -> Any:
    return Running(fired=SimpleNamespace(delivery=SimpleNamespace(holder=uuid4())), fire_id=uuid4())


def heart(leases: Leases, clock: Clock | None = None) -> Any:
    """One that beats when told."""
    ledger: Any = leases
    return Heartbeat(ledger, every_s=3600, monotonic=clock or Clock())


@contextmanager
def keeping(heartbeat: Heartbeat, context: Any, *, hard_timeout_s: float) -> Iterator[None]:
    """As long as a run does."""
    heartbeat.keep(context, hard_timeout_s=hard_timeout_s)
    try:
        yield
    finally:
        heartbeat.release(context)


def test_one_call_renews_all_that_run_and_nothing_that_ended():
    leases, one, two = Leases(), context_of_a_run(), context_of_a_run()
    heartbeat = heart(leases)

    with keeping(heartbeat, one, hard_timeout_s=60):
        with keeping(heartbeat, two, hard_timeout_s=60):
            heartbeat.beat()
        heartbeat.beat()

    assert leases.calls == [{one.holder, two.holder}, {one.holder}]


def test_a_fire_is_not_renewed_past_its_hard_timeout():
    leases, clock, short, long = Leases(), Clock(), context_of_a_run(), context_of_a_run()
    heartbeat = heart(leases, clock)

    with keeping(heartbeat, short, hard_timeout_s=10), keeping(heartbeat, long, hard_timeout_s=60):
        clock.now = 9.9
        heartbeat.beat()
        clock.now = 10
        heartbeat.beat()

    assert leases.calls == [{short.holder, long.holder}, {long.holder}]


def test_a_lost_fire_is_told_and_the_others_are_not():
    leases, kept, lost = Leases(), context_of_a_run(), context_of_a_run()
    heartbeat = heart(leases)
    leases.lost = {lost.holder}

    with keeping(heartbeat, kept, hard_timeout_s=60), keeping(heartbeat, lost, hard_timeout_s=60):
        heartbeat.beat()

    assert (kept.lost, lost.lost) == (False, True)


def test_a_database_that_does_not_answer_loses_nothing():
    leases, context = Leases(), context_of_a_run()
    heartbeat = heart(leases)

    with keeping(heartbeat, context, hard_timeout_s=60):
        leases.is_down = True
        heartbeat.beat()
        leases.is_down = False
        heartbeat.beat()

    assert context.lost is False
    assert leases.calls == [{context.holder}]


def test_the_thread_ends_some_time_after_the_last_run_and_starts_again_with_the_next():
    leases: Any = Leases()
    heartbeat = Heartbeat(leases, every_s=0.02)

    for _ in range(2):
        leases.calls.clear()
        with keeping(heartbeat, context_of_a_run(), hard_timeout_s=60):
            thread = heartbeat._thread
            assert thread
            assert thread.daemon
            eventually(lambda: leases.calls)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert leases.closed >= 2, "its connection"


@pytest.mark.usefixtures("committed_db")
class TestInAWorker:
    @pytest.fixture(autouse=True)
    def _short_lease(self, settings):
        settings.SCHEDULING = settings.SCHEDULING | {"FIRE_LEASE_S": 0.3}

    def test_a_long_run_keeps_its_lease(self, define, deliver, fire_of):
        def lease_until():
            return Fire.objects.get().lease_until

        last = []

        def task():
            for _ in range(3):
                last.append(lease_until())
                eventually(lambda: lease_until() > last[-1])
            return current_job().lost

        fire = fire_of(define(task))
        assert deliver(fire).value is False
        assert Fire.objects.get().state == "succeeded"

    def test_a_run_past_its_hard_timeout_does_not(self, define, deliver):
        from tests.fires import make_fire, make_job

        def lease_is_out():
            with connection.cursor() as cursor:
                cursor.execute("SELECT lease_until < clock_timestamp() FROM scheduling_fire")
                return cursor.fetchone()[0]

        task = define(lambda: eventually(lease_is_out))
        assert deliver(make_fire(make_job(task.name, hard_timeout_s=0.1))).value is True

    def test_a_long_run_hears_that_its_fire_is_another_workers_and_cannot_commit(self, define, deliver, fire_of):
        def task():
            Fire.objects.update(fence=2, holder=uuid4())
            fire = current_job()
            eventually(lambda: fire.lost)
            with pytest.raises(LeaseLost), fire.commit():
                pytest.fail("the block ran")

        assert deliver(fire_of(define(task))).state == "IGNORED"

    def test_no_thread_and_no_session_is_left_behind(self, define, deliver, fire_of):
        deliver(fire_of(define(lambda: None)))

        eventually(lambda: worker_process().heartbeat._thread is None)
