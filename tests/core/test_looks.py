"""When the engine looks for due jobs: by halves of its shards, each with at most one claim under way."""

from __future__ import annotations

from scheduling.core.effects import Claim, ReadDue
from scheduling.testing.clock import NOON
from tests.claims import make_due, make_work
from tests.engine_desk import Desk, of, one, saw


def test_while_one_half_of_the_shards_is_claimed_the_other_is_looked_at_and_never_the_same() -> None:
    desk = Desk(shards=(1, 2, 3))
    odd, even = of(ReadDue, desk.pass_time())
    if 1 not in odd.shards:
        odd, even = even, odd
    assert (odd.shards, even.shards) == (frozenset({1, 3}), frozenset({2}))
    claim = one(Claim, desk.engine.due_read(odd, saw(odd, make_due(make_work(1), NOON))))
    desk.engine.due_read(even, saw(even))
    assert [read.shards for read in of(ReadDue, desk.pass_time(1))] == [{2}]
    desk.engine.claimed(claim, {})
    assert [read.shards for read in of(ReadDue, desk.pass_time())] == [{1, 3}]
