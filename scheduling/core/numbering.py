"""Numbers of fires whose rows are being written. Until it is known which rows have them, nothing is done with them.

::

    begin, anew ──> being written ─┬─ written ─┬─ a row is claimed under it ──> into the wheel
                                   │           └─ none is ────────────────────> settled
                                   └─ unknown ──> (its shard is taken over again)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from scheduling.core.clock import Clock
from scheduling.core.effects import Epochs
from scheduling.core.fair_turns import FairTurns
from scheduling.core.fire import Fire
from scheduling.core.fire_wheel import FireWheel
from scheduling.core.marks import Marks
from scheduling.core.outstanding import Outstanding


class Numbering:
    """One thread owns it."""

    def __init__(
        self, clock: Clock, *, marks: Marks, outstanding: Outstanding, wheel: FireWheel, turns: FairTurns | None
    ) -> None:
        self._clock, self._marks, self._outstanding = clock, marks, outstanding
        self._wheel, self._turns = wheel, turns

    def number(self, shard: int) -> tuple[int, int]:
        """A new (epoch, seq), outstanding from now on."""
        return self._marks.number(shard)

    def begin(self, shards: Iterable[int]) -> Epochs:
        """Numbers of these shards are to be written: under which epochs."""
        epochs = self._marks.epochs(shards)
        self._outstanding.numbering.append(epochs)
        return epochs

    def anew(self, fires: Sequence[Fire]) -> Epochs:
        """Gives the epochs under which their new numbers are to be written."""
        for fire in fires:
            fire.epoch, fire.seq = self._marks.number(fire.work.shard)
        return self.begin({fire.work.shard for fire in fires})

    def written(self, epochs: Epochs, fires: Iterable[Fire], ids: Collection[UUID]) -> None:
        """Of these fires those with such ids are claimed under their numbers; nothing is, under the others."""
        self._outstanding.numbering.remove(epochs)
        for fire in fires:
            if not self._marks.holds(fire):
                continue  # its shard was dropped meanwhile
            if fire.id in ids:
                self._wheel.add(fire)
            else:
                self._marks.done(fire)
                if self._turns is not None:
                    self._turns.gone(fire, self._clock.monotonic())

    def unknown(self, epochs: Epochs) -> None:
        """Nobody knows whether they were written."""
        self._outstanding.numbering.remove(epochs)
