"""The watermarks of the shards that a node owns, each under its epoch, and which of them have moved.

A number (shard, epoch, seq) is one claim of one fire. The same fire may be claimed again while an earlier number of it
still waits for its confirm (its worker was faster than the broker's answer, and failed); so what is outstanding is
kept by number, never by fire.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from scheduling.core.fire import Fire
from scheduling.core.watermark import Watermark

Number = tuple[int, int, int]


def number_of(fire: Fire) -> Number:
    return fire.work.shard, fire.epoch, fire.seq


class Marks:
    """One thread owns it."""

    __slots__ = ("_marks", "_moved")

    def __init__(self) -> None:
        self._marks: dict[int, Watermark] = {}
        self._moved: set[int] = set()

    @property
    def shards(self) -> frozenset[int]:
        return frozenset(self._marks)

    @property
    def have_moved(self) -> bool:
        """Whether there is a mark to record."""
        return bool(self._moved)

    def take(self, epochs: Mapping[int, int]) -> None:
        """These shards start anew under these epochs."""
        self.drop(epochs)
        for shard, epoch in epochs.items():
            self._marks[shard] = Watermark(epoch)

    def drop(self, shards: Iterable[int]) -> None:
        for shard in shards:
            self._marks.pop(shard, None)
            self._moved.discard(shard)

    def epochs(self, shards: Iterable[int]) -> dict[int, int]:
        """The epochs of shards that are ours."""
        return {shard: self._marks[shard].epoch for shard in shards}

    def epochs_of(self, fires: Collection[Fire]) -> dict[int, int]:
        return self.epochs({fire.work.shard for fire in fires})

    def number(self, shard: int) -> tuple[int, int]:
        """A new (epoch, seq), outstanding from now on."""
        mark = self._marks[shard]
        return mark.epoch, mark.allocate()

    def reserve(self, fire: Fire) -> None:
        """The number that recovery gave to a fire is outstanding."""
        self._marks[fire.work.shard].reserve(fire.seq)

    def holds(self, fire: Fire) -> bool:
        """Whether the fire's number belongs to the epoch that we hold; not so once its shard was dropped."""
        mark = self._marks.get(fire.work.shard)
        return mark is not None and mark.epoch == fire.epoch

    def done(self, fire: Fire) -> None:
        """Its number is settled."""
        mark = self._marks[fire.work.shard]
        before = mark.mark
        mark.done(fire.seq)
        if mark.mark > before:
            self._moved.add(fire.work.shard)

    def take_moved(self) -> dict[int, int]:
        """The marks that have moved since the last call."""
        marks = {shard: self._marks[shard].mark for shard in self._moved}
        self._moved.clear()
        return marks
