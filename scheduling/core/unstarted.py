"""What was published and is not acquired: whether its message is gone, and it has to be sent again.

A queue that was purged or deleted, a worker that died with what it had prefetched, a child that was killed before it
acquired: of none of these does anybody tell the owner. So it walks, a piece at a time, over what is claimed at or below
the watermark, and suspects whatever a worker should have acquired long ago (``patience_s``; after each time that it was
sent again, twice as long)::

    ReadUnstarted ─> suspects ─┬─ overtaken ────────────────────────────────┬─> SendAgain ─> as a released fire
                               └─ LookAtQueues ─> its queue is empty, gone ─┘

*Overtaken*: a fire that was published to its queue later was acquired long ago. Where neither holds, its message is in
the queue, behind others: an outage of all workers sends nothing again. The copy has the same fence, so that it does no
harm if the first one turns up after all.

Invariants: one round is under way at a time, and its size is bounded; a queue is asked for only while a fire of it is
suspected. Fires of plain Celery tasks, which nobody acquires, are never suspected: the store leaves them out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from uuid import UUID

from scheduling.core.effects import LookAtQueues, ReadUnstarted
from scheduling.core.fire import Fire
from scheduling.core.gates import Queue, lane_of

LIMIT = 1000  # rows of a round
QUEUES = 20  # that are asked for in a round
SOON_S = 1.0  # to the next round, where this one has not reached the end
ROUNDS = 12  # in the time of one patience

START = (0, 0)  # below every number


@dataclass(frozen=True, slots=True)
class Unstarted:
    """``reached``: up to where each shard's walk has come; a shard that is left out is at its end, and begins anew."""

    suspects: Sequence[Fire]
    overtaken: Collection[UUID]
    reached: Mapping[int, tuple[int, int]]


class Walk:
    """Times are monotonic seconds. One thread owns it. A ``patience_s`` without end: nothing is looked for."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._reached: dict[int, tuple[int, int]] = {}
        self._overtaken: list[Fire] = []
        self._suspects: list[Fire] = []  # whose queue is asked for
        self._asked: dict[Queue, int] = {}  # in which round each was asked for last
        self._round = 0
        self._at = 0.0 if patience_s < inf else inf
        self._is_under_way = False

    def next_at(self) -> float:
        """When the next round begins; ``inf`` while one is under way."""
        return inf if self._is_under_way else self._at

    def begin(self, shards: Collection[int], now: float) -> Iterator[ReadUnstarted]:
        """The next round, if it is time."""
        if now >= self.next_at():
            self._is_under_way, self._at = True, now + SOON_S
            after = {shard: self._reached.get(shard, START) for shard in shards}
            yield ReadUnstarted(after, self._patience_s, LIMIT)

    def read(self, found: Unstarted, shards: Collection[int], now: float) -> list[LookAtQueues]:
        """What a round has found of these shards."""
        self._reached = dict(found.reached)
        self._at = now + (SOON_S if self._reached else min(self._patience_s / ROUNDS, 5 * SOON_S))
        mine = [fire for fire in found.suspects if fire.work.shard in shards]
        self._overtaken = [fire for fire in mine if fire.id in found.overtaken]
        self._suspects = [fire for fire in mine if fire.id not in found.overtaken]
        if not mine:
            self.end()
            return []
        return [LookAtQueues(self._in_turn({lane_of(fire): fire for fire in self._suspects}))]

    def _in_turn(self, of_queues: Mapping[Queue, Fire]) -> list[Fire]:
        """Those whose queues were not asked for the longest: full ones must not keep the others from their turn."""
        turn = sorted(of_queues, key=lambda queue: self._asked.get(queue, 0))[:QUEUES]
        self._round += 1
        self._asked |= dict.fromkeys(turn, self._round)
        return [of_queues[queue] for queue in turn]

    def queues_seen(self, empty: Collection[Queue], shards: Collection[int]) -> list[Fire]:
        """The fires of these shards that are to be sent again; without any the round is over."""
        suspects = [*self._overtaken, *(fire for fire in self._suspects if lane_of(fire) in empty)]
        self._overtaken, self._suspects = [], []
        gone = [fire for fire in suspects if fire.work.shard in shards]
        if not gone:
            self.end()
        return gone

    def end(self) -> None:
        """The round is over, well or not."""
        self._is_under_way = False
