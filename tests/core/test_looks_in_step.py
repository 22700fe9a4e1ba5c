"""Nobody waits for the other half of a node's shards where nothing comes of that: from the engine."""

from __future__ import annotations

from scheduling.core.due import Due
from scheduling.core.effects import Claim, ReadDue
from scheduling.testing.clock import NOON
from tests.claims import SECOND, make_due, make_work
from tests.engine_desk import of, saw
from tests.fair_desk import FairDesk

ODD, EVEN = frozenset({1}), frozenset({2})
LATE_S = 9.0


class Looks:
    """At shards 1 and 2, in each of which tenant 1 has more due than a look takes: in shard 2 it is older."""

    def __init__(self, *, slots: int | None = 4) -> None:
        self.desk = FairDesk(shards=(1, 2), slots=slots)
        self.desk.engine.look_now()
        self.reads = {read.shards: read for read in of(ReadDue, self.desk.pass_time())}

    def answer(self, half: frozenset[int]) -> None:
        """It takes one job, and that is claimed."""
        (shard,) = half
        job = make_due(make_work(shard, shard=shard), next_fire_at=NOON - SECOND * LATE_S * (shard == 2))
        found = Due([job], half, frozenset({(1, shard)}))
        for claim in of(Claim, self.desk.engine.due_read(self.reads[half], found)):
            self.desk.engine.claimed(claim, {})

    def left_out(self, half: frozenset[int]) -> frozenset[int]:
        """Of the next look at this half; any at the other finds nothing."""
        self.desk.clock.advance(1.0)
        for read in of(ReadDue, self.desk.pass_time()):
            self.reads[read.shards] = read
            if read.shards != half:
                self.desk.engine.due_read(read, saw(read))
        return self.reads[half].full


def test_who_is_older_in_the_other_half_waits_for_it() -> None:
    looks = Looks()
    looks.answer(EVEN)
    looks.answer(ODD)
    assert looks.left_out(ODD) == {1}


def test_nobody_waits_where_nothing_bounds_what_goes() -> None:
    looks = Looks(slots=None)
    looks.answer(EVEN)
    looks.answer(ODD)
    assert looks.left_out(ODD) == set()


def test_nobody_waits_for_a_shard_that_was_lost_while_it_was_looked_at() -> None:
    looks = Looks()
    looks.desk.engine.drop(EVEN)
    looks.answer(EVEN)
    looks.answer(ODD)
    assert looks.left_out(ODD) == set()


def test_nobody_waits_for_a_shard_that_is_leaving() -> None:
    looks = Looks()
    looks.answer(EVEN)
    looks.answer(ODD)
    looks.desk.engine.hand_over(EVEN)
    assert looks.left_out(ODD) == set()


def test_nobody_waits_for_a_half_that_cannot_be_read() -> None:
    looks = Looks()
    looks.answer(EVEN)
    looks.answer(ODD)
    looks.desk.clock.advance(1.0)
    for read in of(ReadDue, looks.desk.pass_time()):
        if read.shards == EVEN:
            looks.desk.engine.failed(read)
        else:
            looks.desk.engine.due_read(read, saw(read))
    assert looks.left_out(ODD) == set()
