"""Of a tenant with more due than is read at once the earliest goes first, in whichever shard it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scheduling.core.effects import ReadDue
from scheduling.store import due
from scheduling.testing.clock import NOON
from tests.store.backends import SHARDS, BucketedBackend, PostgresBackend, plans
from tests.store.steps import owned

COUNT, LIMIT = 40, 4
ALL = frozenset(range(SHARDS))


@pytest.fixture
def world(committed_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresBackend]:
    monkeypatch.setattr(due, "SHARDS_IN_TURN", 1)
    backend = PostgresBackend()
    yield backend
    backend.close()


def taken(world: PostgresBackend, *, limit: int = LIMIT, **bounds: Any) -> list[int]:
    """What one look takes of all shards, and claims."""
    found = world.store.due(ReadDue(ALL, NOON, limit, **bounds))
    planned = plans(list(found.jobs), epoch=1)
    world.store.claim(dict.fromkeys(range(SHARDS), 1), planned)
    return sorted(plan.due.work.job_id.int for plan in planned)


def test_once_a_backlog_is_known_it_goes_in_the_order_in_which_it_came_due(world: PostgresBackend) -> None:
    for number in range(COUNT):
        world.add(number, number - COUNT, shard=number % SHARDS)
    owned(world, *range(SHARDS))
    few = SHARDS // 2
    first = taken(world, limit=few)
    left = [number for number in range(COUNT) if number not in first]
    for _ in range(len(left) // few):
        assert taken(world, limit=few) == left[:few]
        left = left[few:]
    assert left == []


def test_beside_many_tenants_few_shards_are_walked_at_a_time_and_each_has_its_turn(
    world: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due, "PROBES", 2)
    for number in range(COUNT):
        world.add(number, number - COUNT, shard=number % SHARDS, tenant=number % 8 // 4)
    owned(world, *range(SHARDS))
    looks = [taken(world) for _ in range(2 * SHARDS)]
    shards = [{number % SHARDS for number in look} for look in looks]
    assert all(len(look) == LIMIT for look in looks)
    assert shards == [{0}, {1}, {2}, {3}] * 2


def test_beside_many_tenants_few_shards_are_walked_also_where_none_may_have_more(
    world: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due, "PROBES", 2)
    for number in range(COUNT):
        world.add(number, number - COUNT, shard=number % SHARDS, tenant=number % 8 // 4)
    owned(world, *range(SHARDS))
    most = {1000: 1, 1001: 1}
    looks = [world.store.due(ReadDue(ALL, NOON, COUNT, most=most)).seen for _ in range(4)]
    assert looks == [{0, 1}, {2, 3}] * 2


def test_what_was_set_aside_of_a_full_tenant_goes_in_the_order_in_which_it_came_due(committed_db: None) -> None:
    world = BucketedBackend()
    for number in range(COUNT):
        world.add(number, number - COUNT, shard=number % SHARDS)
    world.add(COUNT, -COUNT, tenant=2)
    owned(world, *range(SHARDS))
    assert taken(world, limit=100, full=frozenset({1001, 1002})) == []
    assert taken(world, limit=12, most={1001: LIMIT}) == [*range(LIMIT), COUNT]
    for first in range(LIMIT, COUNT, LIMIT):
        assert taken(world, limit=12, most={1001: LIMIT}) == list(range(first, first + LIMIT))
    world.close()


def test_what_was_set_aside_goes_in_order_with_what_its_tenant_has_in_rows(committed_db: None) -> None:
    world = BucketedBackend()
    for number in range(COUNT):
        world.add(number, number - COUNT, shard=number % SHARDS, max_runs=9 if number < 2 * LIMIT else None)
    owned(world, *range(SHARDS))
    assert taken(world, limit=100, full=frozenset({1001})) == []
    for first in range(0, COUNT, LIMIT):
        assert taken(world, limit=12, most={1001: LIMIT}) == list(range(first, first + LIMIT))
    world.close()
