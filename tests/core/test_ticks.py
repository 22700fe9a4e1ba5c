"""Which shards are looked after: what the engine tells of its looks, and who is silent."""

from __future__ import annotations

import pytest

from scheduling.core.effects import Claim, ReadDue
from scheduling.core.ticks import Ticks
from scheduling.testing.clock import NOON
from tests.claims import make_due, make_work
from tests.engine_desk import Desk, of, one, saw

SHARDS = frozenset({1, 2, 3})


@pytest.fixture
def desk() -> Desk:
    desk = Desk(shards=sorted(SHARDS))
    desk.engine.ticks.expect(SHARDS, desk.clock.monotonic())
    return desk


def silent(desk: Desk) -> list[int]:
    """Those that have not ticked in the last second."""
    return desk.engine.ticks.silent(desk.clock.monotonic() - 1.0)


def claim_of_shard_1(desk: Desk) -> Claim:
    """A look at each half; that of shard 1 has found a job."""
    odd = next(read for read in of(ReadDue, desk.pass_time()) if 1 in read.shards)
    return one(Claim, desk.engine.due_read(odd, saw(odd, make_due(make_work(1), NOON))))


def test_looks_that_find_nothing_are_ticks(desk: Desk) -> None:
    desk.run(5.0)
    assert silent(desk) == []


def test_a_shard_is_silent_while_its_look_or_its_claim_is_not_answered(desk: Desk) -> None:
    claim = claim_of_shard_1(desk)
    desk.pass_time(1.5)
    assert silent(desk) == [1, 2, 3]
    desk.engine.claimed(claim, {})
    assert silent(desk) == [2]


def test_a_claim_that_fails_is_no_tick(desk: Desk) -> None:
    for epoch in range(2, 5):
        claim = claim_of_shard_1(desk)
        desk.engine.failed(claim)
        desk.engine.taken({1: epoch}, [])
        desk.clock.advance(0.5)
    assert silent(desk) == [1, 2, 3]


def test_the_first_shards_are_silent_until_they_tick_and_those_that_join_them_have_as_long_as_the_others() -> None:
    ticks = Ticks()
    ticks.expect({1, 2}, 10.0)
    ticks.expect({1, 2, 4}, 10.0)
    assert ticks.silent(9.0) == [1, 2]
    ticks.tick({1, 2, 9}, 10.0)
    ticks.tick({1}, 12.0)
    ticks.expect({1, 2, 3}, 13.0)
    assert (ticks.count, ticks.silent(10.0), ticks.silent(12.5), ticks.silent(13.5)) == (3, [], [1, 2], [1, 2, 3])
    ticks.expect({3}, 14.0)
    assert (ticks.count, ticks.silent(13.0), ticks.silent(13.5)) == (1, [], [3])
