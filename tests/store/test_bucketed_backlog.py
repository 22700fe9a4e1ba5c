"""Backlogs: whom a claim serves, when there is more than fits into many of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduling.core.effects import ReadDue
from scheduling.core.plans import JobPlan
from scheduling.store import bucket_backlog
from scheduling.testing.clock import NOON
from tests.claims import SECOND
from tests.store.backends import BucketedBackend, PostgresBackend, plans
from tests.store.steps import owned


@pytest.fixture(params=[PostgresBackend, BucketedBackend])
def world(request: pytest.FixtureRequest, committed_db: None) -> Iterator[PostgresBackend]:
    backend = request.param()
    yield backend
    backend.close()


def claim(world: PostgresBackend, shards: range, *, until_s: float, limit: int) -> list[JobPlan]:
    """What one claim takes of these shards."""
    due = world.store.due(ReadDue(frozenset(shards), NOON + SECOND * until_s, limit)).jobs
    planned = plans(list(due), epoch=1, until_s=until_s)
    world.store.claim(dict.fromkeys(shards, 1), planned)
    return planned


def test_a_flood_hides_neither_who_waits_longest_nor_who_is_due_just_now_nor_for_long_who_is_between(
    world: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_backlog, "STEPS", 3)
    flooded_s, limit = 30, 4
    for second in range(flooded_s):
        world.add(second, second)
    for number, at_s in ((100, 0.5), (101, 15.0), (102, 29.5)):
        world.add(number, at_s, tenant=number)
    owned(world, 1)
    taken = [
        plan.due.work.job_id.int
        for _ in range(12)
        for plan in claim(world, range(1, 2), until_s=flooded_s, limit=limit)
    ]
    assert {100, 102} <= set(taken[:limit])
    assert 101 in taken[: 6 * limit]
    assert sorted(taken) == [*range(flooded_s), 100, 101, 102]


def test_shards_with_a_backlog_keep_their_turns_while_the_other_half_is_looked_at(world: PostgresBackend) -> None:
    odd, even = range(1, 33, 2), range(0, 32, 2)
    for number in range(3 * len(odd)):
        world.add(number, shard=odd[number % len(odd)])
    owned(world, *odd, *even)
    first, then = [{plan.due.work.shard for plan in _between(world, odd, even)} for _ in range(2)]
    assert first.isdisjoint(then)


def _between(world: PostgresBackend, these: range, others: range) -> list[JobPlan]:
    """What a claim of these takes, before the others are looked at."""
    taken = claim(world, these, until_s=0, limit=8)
    assert claim(world, others, until_s=0, limit=8) == []
    return taken
