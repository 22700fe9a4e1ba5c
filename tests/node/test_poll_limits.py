"""Stop 2 keeps the limits of tenants: on a real database, with limits in memory, and a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from fairness.core.limits import LocalLimiter
from fairness.models import Limit, ServedShare, Standing, Tenant
from scheduling.core.fire import Fire as HeldFire
from scheduling.models import Fire, Job, Node, WorkerTask
from scheduling.node.admitting import Admitting
from scheduling.node.poll_limits import PollLimits
from scheduling.node.share_keeper import LiveNodes
from scheduling.store.connection import connector
from scheduling.store.permits import Permits
from scheduling.store.polling import PollingStore
from scheduling.testing.clock import NOON, ManualClock
from tests.store.backends import SHARDS, PostgresBackend, database_now

TASK = "tests.none"
CAP_OF_1, CAP_OF_2 = {"max_in_flight": 1}, {"max_in_flight": 2}


class Poller:
    """What a node of stop 2 does at a poll, step by step."""

    def __init__(self, clock: ManualClock) -> None:
        connect = connector(connection.get_connection_params(), name="poller")
        self.clock = clock
        self.store = PollingStore(connect, shards=SHARDS, grace=timedelta(seconds=5), confirm_s=30)
        live = LiveNodes("a")
        limiter = LocalLimiter(node="a", nodes=live, clock=clock.monotonic)
        self.limits = PollLimits(
            "a",
            store=self.store,
            admitting=Admitting(Permits(connect, clock), limiter),
            connect=connect,
            clock=clock,
            live=live,
        )
        self.limits.start()

    def poll(self, after_s: float = 0.0) -> list[HeldFire]:
        """What is published, and confirmed."""
        self.clock.advance(after_s)
        self.limits.look()
        fires = self.limits.admit(self.store.poll(self.clock, limit=100), self.store.returned)
        self.store.confirm(fires)
        self.limits.confirmed(fires)
        return fires

    def close(self) -> None:
        self.limits.close()
        self.store.close()


Start = Callable[[], Poller]


@pytest.fixture
def world(committed_db: None) -> Iterator[PostgresBackend]:
    backend = PostgresBackend()
    Node.objects.all().delete()  # among which each limit would be divided
    WorkerTask.objects.create(name=TASK, is_guarded=True, seen_at=NOON)
    yield backend
    backend.close()


@pytest.fixture
def start(world: PostgresBackend) -> Iterator[Start]:
    clock, made = ManualClock(NOON), []

    def started() -> Poller:
        made.append(Poller(clock))
        return made[-1]

    yield started
    for poller in made:
        poller.close()


def limited(world: PostgresBackend, jobs: int, **columns: Any) -> Tenant:
    """A tenant with so many jobs that are due once, the first one longest; and these limits."""
    for number in range(jobs):
        world.add(number, number - jobs, tenant=1, max_runs=1)
    Tenant.objects.filter(slug="tenant-1").update(**columns)
    return Tenant.objects.get(slug="tenant-1")


def end(*fires: HeldFire) -> None:
    Fire.objects.filter(pk__in=[fire.id for fire in fires]).update(state="succeeded")


def waiting(reason: str) -> int:
    return Fire.objects.filter(state="parked", reason=reason).count()


def test_without_limits_all_go(world, start: Start) -> None:
    limited(world, 3)
    assert len(start().poll()) == 3


def test_a_rate_lets_its_burst_through_and_then_one_at_a_time_the_longest_due_first(world, start: Start) -> None:
    limited(world, 6, rate_per_s=1, burst=2)
    poller = start()
    poller.clock.advance(10)
    went = [poller.poll(), *[poller.poll(1.01) for _ in range(4)]]
    assert [len(fires) for fires in went] == [2, 1, 1, 1, 1]
    order = [fire.fire_at for fires in went for fire in fires]
    assert order == sorted(order)
    assert waiting("rate") == 0


def test_who_is_new_goes_behind_those_who_wait(world, start: Start) -> None:
    limited(world, 3, rate_per_s=1, burst=1)
    poller = start()
    poller.clock.advance(10)
    poller.poll()
    world.add(50, 0, tenant=1, max_runs=1)
    went = [fire for _ in range(3) for fire in poller.poll(1.01)]
    assert len(went) == 3
    assert went[-1].fire_at == NOON


def test_a_cap_holds_until_one_has_ended(world, start: Start) -> None:
    limited(world, 5, max_in_flight=2)
    poller = start()
    first = poller.poll()
    assert len(first) == 2
    assert poller.poll(3.0) == []
    end(first[0])
    assert len(poller.poll(0.1)) == 1
    end(first[1])
    assert len(poller.poll(0.1)) == 1
    assert waiting("cap") == 1


def test_a_strict_cap_holds_although_nobody_knows_who_runs(world, start: Start) -> None:
    limited(world, 5, max_in_flight=2, is_strict=True)
    first = start().poll()
    other = start()
    assert (len(first), other.poll(), other.poll(3.0)) == (2, [], [])


def test_a_poller_that_begins_holds_what_another_has_published(world, start: Start) -> None:
    limited(world, 5, max_in_flight=2)
    first = start().poll()
    other = start()
    other.poll(3.0)
    assert waiting("cap") == 3
    end(first[0])
    assert len(other.poll(1.1)) == 1


def test_a_budget_holds_until_the_next_day(world, start: Start) -> None:
    limited(world, 5, daily_fires=3)
    poller = start()
    assert len(poller.poll()) == 3
    assert poller.poll(3600.0) == []
    assert waiting("budget") == 2
    went = [*poller.poll(11 * 3600.0), *poller.poll(0.1), *poller.poll(0.1)]
    assert len(went) == 2


def test_a_limit_that_is_lifted_lets_those_go_who_wait(world, start: Start) -> None:
    tenant = limited(world, 5, daily_fires=1)
    poller = start()
    poller.poll()
    Tenant.objects.filter(pk=tenant.pk).update(daily_fires=None)
    assert len(poller.poll(1.1)) == 4


def test_a_limit_of_a_task_holds_that_task_alone(world, start: Start) -> None:
    tenant = limited(world, 3)
    Limit.objects.create(tenant=tenant, task="other", max_in_flight=0)
    assert len(start().poll()) == 3
    Limit.objects.update(task=TASK)
    world.add(60, 0, tenant=1, max_runs=1)
    assert start().poll() == []


@pytest.mark.parametrize(("bounds", "of_task"), [({"rate_per_s": 10}, {"rate_per_s": 0.1}), (CAP_OF_2, CAP_OF_1)])
def test_what_a_limit_of_a_task_holds_is_not_in_the_way_of_the_others_of_its_tenant(
    world, start: Start, bounds: dict[str, int], of_task: dict[str, int]
) -> None:
    """They were due later, and wait for a limit of both."""
    tenant = limited(world, 12, **bounds)
    Limit.objects.create(tenant=tenant, task=TASK, **of_task)
    for number in range(50, 54):
        world.add(number, 0, tenant=1, max_runs=1)
    Job.objects.filter(next_fire_at__gte=NOON).update(task="tests.other")
    WorkerTask.objects.create(name="tests.other", is_guarded=True, seen_at=NOON)
    poller = start()
    poller.clock.advance(10)
    went: list[HeldFire] = []
    for _ in range(9):
        others = [fire for fire in poller.poll(0.2) if fire.work.task != TASK]
        end(*others)
        went += others
    assert len(went) == 4


def test_what_has_waited_for_a_limit_is_late_from_then_on_only(world, start: Start) -> None:
    limited(world, 3, rate_per_s=0.1, burst=1)
    poller = start()
    poller.clock.advance(10.1)
    (went,) = poller.poll()
    back_at = database_now()
    Tenant.objects.update(rate_per_s=None)
    assert len(poller.poll(120.0)) == 2
    later = Fire.objects.exclude(pk=went.id)
    assert [fire.claimed_at > back_at for fire in later if fire.claimed_at] == [True, True]


def test_how_a_limited_tenant_stands_is_told(world, start: Start) -> None:
    tenant = limited(world, 5, max_in_flight=2)
    poller = start()
    went = poller.poll()
    poller.poll(3.1)
    (standing,) = Standing.objects.all()
    assert (standing.tenant, standing.lane, standing.node) == (tenant, "bulk", "a")
    assert (standing.waiting, standing.in_flight, standing.reason, standing.until) == (3, 2, "cap", None)
    assert standing.starts_per_s > 0
    assert {grant[0] for grant in standing.grants} == {str(fire.id) for fire in went}
    (served,) = ServedShare.objects.all()
    assert (served.starts, served.throttled) == (2, 3)


def test_what_another_poller_left_waiting_is_found(world, start: Start) -> None:
    limited(world, 3, rate_per_s=1, burst=1)
    poller = start()
    poller.clock.advance(10)
    poller.poll()
    poller.close()
    other = start()
    assert len([fire for _ in range(3) for fire in other.poll(1.01)]) == 2
