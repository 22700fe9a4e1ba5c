"""The watermarks of the shards that a node owns, each under its epoch; which of them have moved, and when to record
those.

A number (shard, epoch, seq) is one claim of one fire. The same fire may be claimed again while an earlier number of it
still waits for its confirm (its worker was faster than the broker's answer, and failed); so what is outstanding is
kept by number, never by fire.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from math import inf

from scheduling.core.effects import Epochs, Record
from scheduling.core.fire import Fire
from scheduling.core.watermark import Watermark

RECORD_S = 0.05
Number = tuple[int, int, int]


def number_of(fire: Fire) -> Number:
    return fire.work.shard, fire.epoch, fire.seq


class Marks:
    """At most one record is under way. Times are monotonic seconds. One thread owns it."""

    __slots__ = ("_marks", "_moved", "_record_at", "_recording")

    def __init__(self) -> None:
        self._marks: dict[int, Watermark] = {}
        self._moved: set[int] = set()
        self._recording: Epochs = {}
        self._record_at = 0.0

    @property
    def shards(self) -> frozenset[int]:
        return frozenset(self._marks)

    @property
    def unrecorded(self) -> Set[int]:
        """The shards whose marks have moved beyond what is known to be recorded."""
        return self._moved | self._recording.keys()

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

    def next_record_at(self) -> float:
        """When ``record`` has something to do; ``inf`` if nothing has moved, or a record is under way."""
        return self._record_at if self._moved and not self._recording else inf

    def record(self, now: float, *, at_once: bool) -> list[Record]:
        """What has moved, if it is time; ``at_once``: somebody waits for it."""
        if not self._moved or self._recording or (now < self._record_at and not at_once):
            return []
        marks = {shard: self._marks[shard].mark for shard in self._moved}
        self._moved.clear()
        self._recording = self.epochs(marks)
        return [Record(self._recording, marks)]

    def recorded(self, now: float) -> None:
        """The record that was under way has ended, well or not."""
        self._recording = {}
        self._record_at = now + RECORD_S
