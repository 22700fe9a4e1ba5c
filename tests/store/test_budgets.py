"""Budgets of the day: over any number of nodes no more fires go than a tenant may have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from random import Random
from uuid import uuid4

import pytest
from django.db import connection

from fairness.core.admission import BUDGET, CAP, Refusal, Request
from fairness.core.terms import Bound
from fairness.models import Budget, Tenant
from scheduling.core.fire import Fire, Lane, Work
from scheduling.store.connection import connector
from scheduling.store.permits import Permits
from scheduling.testing.clock import NOON, ManualClock
from tests.store.sessions import InThread

TODAY = NOON.date()
HALF_A_DAY_S = 43_200.0

Node = Callable[..., Permits]
Asked = tuple[Fire, Request]


@pytest.fixture
def tenant(committed_db: None) -> Tenant:
    return Tenant.objects.create(slug="acme")


@pytest.fixture
def node(committed_db: None) -> Iterator[Node]:
    made: list[Permits] = []

    def start(clock: ManualClock | None = None) -> Permits:
        made.append(Permits(connector(connection.get_connection_params(), name="permits"), clock or ManualClock(NOON)))
        return made[-1]

    yield start
    for permits in made:
        permits.close()


def budget(tenant: Tenant, daily_fires: int | None) -> None:
    tenant.daily_fires = daily_fires
    tenant.save()


def asks(tenant: Tenant, count: int, *, attempt: int = 0, strict_cap: int | None = None) -> list[Asked]:
    """So many fires of the tenant, under its budget as it is now."""
    work = Work(uuid4(), 0, tenant.pk, tenant.slug, 30, "", "tests.work", Lane.BULK, "[]", "{}")
    bounds = [] if strict_cap is None else [((tenant.pk, "", ""), Bound(max_in_flight=strict_cap, is_strict=True))]
    return [
        (
            Fire(work, fire_id := uuid4(), NOON, NOON, "", 1, attempt, 1, 1),
            Request(str(fire_id), tenant.pk, "bulk", "tests.work", bounds, tenant.daily_fires),
        )
        for _ in range(count)
    ]


def let_through(permits: Permits, asked: list[Asked]) -> int:
    return permits.take(asked).count(None)


def taken(tenant: Tenant, day: date = TODAY) -> int:
    return Budget.objects.get(tenant=tenant, day=day).taken


def test_a_fire_beyond_the_budget_is_refused_until_the_next_day(node, tenant) -> None:
    budget(tenant, 3)
    refusal = Refusal(BUDGET, (tenant.pk, "", ""), HALF_A_DAY_S)
    assert node().take(asks(tenant, 5)) == [None, None, None, refusal, refusal]
    assert taken(tenant) == 3


def test_the_seconds_until_the_next_day_are_real_ones(node, tenant) -> None:
    budget(tenant, 0)
    (refusal,) = node(ManualClock(NOON, speed=10)).take(asks(tenant, 1))
    assert refusal == Refusal(BUDGET, (tenant.pk, "", ""), HALF_A_DAY_S / 10)


def test_a_tenant_without_a_budget_is_asked_nothing(node, tenant) -> None:
    assert let_through(node(), asks(tenant, 5)) == 5
    assert not Budget.objects.exists()


def test_a_chunk_is_a_tenth_of_what_is_left_and_a_hundred_at_most(node, tenant) -> None:
    budget(tenant, 500)
    let_through(node(), asks(tenant, 1))
    assert taken(tenant) == 50
    budget(tenant, 100_000)
    let_through(node(), asks(tenant, 1))
    assert taken(tenant) == 150


def test_what_is_wanted_at_once_is_had_beyond_a_chunk(node, tenant) -> None:
    budget(tenant, 1000)
    assert let_through(node(), asks(tenant, 700)) == 700
    assert taken(tenant) == 700


def test_a_fire_spends_once_in_all_its_attempts(node, tenant) -> None:
    budget(tenant, 2)
    permits, first = node(), asks(tenant, 1)
    assert let_through(permits, first) == let_through(permits, first) == 1
    assert let_through(permits, asks(tenant, 3, attempt=1)) == 3
    assert let_through(permits, asks(tenant, 2)) == 1


def test_what_did_not_go_gives_its_permit_back(node, tenant) -> None:
    budget(tenant, 1)
    permits, first = node(), asks(tenant, 1)
    let_through(permits, first)
    permits.give_back(first)
    assert let_through(permits, asks(tenant, 1)) == 1


def test_what_a_strict_cap_refuses_spends_nothing(node, tenant) -> None:
    budget(tenant, 1)
    permits = node()
    assert permits.take(asks(tenant, 1, strict_cap=0)) == [Refusal(CAP, (tenant.pk, "", ""))]
    assert let_through(permits, asks(tenant, 1)) == 1


def test_a_node_that_ends_gives_back_what_it_did_not_use(node, tenant) -> None:
    budget(tenant, 1000)
    permits = node()
    let_through(permits, asks(tenant, 3))
    permits.close()
    assert taken(tenant) == 3


def test_what_nobody_asks_for_goes_back_after_a_while(node, tenant) -> None:
    budget(tenant, 1000)
    clock = ManualClock(NOON)
    permits = node(clock)
    let_through(permits, asks(tenant, 3))
    permits.rest()
    assert taken(tenant) == 100
    clock.advance(2)
    permits.rest()
    assert taken(tenant) == 3


def test_a_new_day_has_a_budget_of_its_own(node, tenant) -> None:
    budget(tenant, 100)
    clock = ManualClock(NOON)
    permits = node(clock)
    let_through(permits, asks(tenant, 95))
    clock.advance(HALF_A_DAY_S)
    assert let_through(permits, asks(tenant, 101)) == 100
    assert (taken(tenant), taken(tenant, TODAY + timedelta(days=1))) == (95, 100)


def test_a_budget_that_was_changed_counts_at_once(node, tenant) -> None:
    budget(tenant, 1000)
    permits = node()
    let_through(permits, asks(tenant, 5))
    budget(tenant, 6)
    assert let_through(permits, asks(tenant, 5)) == 1
    budget(tenant, 8)
    assert let_through(permits, asks(tenant, 5)) == 2


def test_without_the_store_nothing_goes_beyond_what_the_node_has(tenant) -> None:
    budget(tenant, 10)
    permits = Permits(connector({"host": "127.0.0.1", "port": 1}, name="none"), ManualClock(NOON))
    assert permits.take(asks(tenant, 1)) == [Refusal(BUDGET, (tenant.pk, "", ""), 0.5)]


def test_nodes_at_once_let_through_exactly_the_budget(node, tenant, in_thread: InThread) -> None:
    """Some of them end in between, and new ones take their place."""
    budget(tenant, 777)

    def work(number: int) -> int:
        random, permits, done, idle = Random(number), node(), 0, 0
        while idle < 3:
            went = let_through(permits, asks(tenant, random.randint(1, 9)))
            done, idle = done + went, 0 if went else idle + 1
            if random.random() < 0.1 or idle:
                permits.close()
                permits = node()
        return done

    assert sum(done.result() for done in [in_thread(work, number) for number in range(6)]) == 777
    assert taken(tenant) == 777
