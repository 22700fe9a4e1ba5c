"""Numbers of fires whose rows are being written."""

from __future__ import annotations

from scheduling.core.fire import Fire
from scheduling.core.fire_wheel import FireWheel
from scheduling.core.hand_over import HandOvers
from scheduling.core.marks import Marks
from scheduling.core.numbering import Numbering
from scheduling.core.outstanding import Outstanding
from scheduling.testing.clock import ManualClock
from tests.claims import make_fire, make_work


class Numbers:
    """Of shards 1 and 2, which are ours under epochs 5 and 6."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.marks, self.outstanding = Marks(), Outstanding()
        self.marks.take({1: 5, 2: 6})
        self.wheel = FireWheel(clock, HandOvers(self.outstanding, self.marks))
        self.numbering = Numbering(clock, marks=self.marks, outstanding=self.outstanding, wheel=self.wheel, turns=None)

    def mark(self, shard: int) -> int:
        return self.marks._marks[shard].mark


def fires(*shards: int) -> list[Fire]:
    return [make_fire(make_work(number, shard=shard)) for number, shard in enumerate(shards)]


def test_what_is_claimed_under_its_number_waits_for_its_time_and_the_others_hold_nobody_up() -> None:
    numbers = Numbers()
    claimed, gone = fires(1, 1)
    epochs = numbers.numbering.anew([gone, claimed])
    assert (epochs, (gone.epoch, gone.seq), (claimed.epoch, claimed.seq)) == ({1: 5}, (5, 1), (5, 2))
    numbers.numbering.written(epochs, [gone, claimed], {claimed.id})
    assert (len(numbers.wheel), numbers.mark(1)) == (1, 1)


def test_until_it_is_known_what_was_written_its_shards_have_something_outstanding() -> None:
    numbers = Numbers()
    both = numbers.numbering.anew(fires(1, 2))
    one = numbers.numbering.anew(fires(2))
    numbers.numbering.written(both, [], ())
    assert numbers.outstanding.shards == {2}
    numbers.numbering.unknown(one)
    assert numbers.outstanding.shards == set()


def test_what_was_numbered_for_a_shard_that_was_lost_meanwhile_is_forgotten() -> None:
    numbers = Numbers()
    mine, lost = fires(1, 2)
    epochs = numbers.numbering.anew([mine, lost])
    numbers.marks.drop([2])
    numbers.numbering.written(epochs, [mine, lost], {mine.id, lost.id})
    assert len(numbers.wheel) == 1
