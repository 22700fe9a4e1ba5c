"""How each queue's messages come to a worker: so many delivered ahead, or one at a time as a slot is free.

::

    DELIVERED, n ahead ──── its tasks take over 100 ms, and one came ────> ASKED, one for a free slot
        ^  n: two to eight times the slots, shared by weight                 │
        └──── they take under half of that, or it has been empty for 10 s ───┘

What is delivered to one worker no other can run, so of long tasks nothing is delivered: each would wait behind another
one while a slot elsewhere is free. Short ones are delivered ahead, or slots would stand idle for a round trip after
each. The threshold is also fifty round trips, where these are long. A queue that is empty costs a question each quarter
of a second; after ten seconds it is delivered again, one message ahead, and the first one that comes ends that.

Twice the slots are shared by weight among the queues *with traffic lately*; whoever has none has one ahead. Those that
are *crowded*, of which more than half of what may be ahead is here for a good part of the time, share the slots among
themselves: else a hundred that have a task now and then would leave one ahead to the one that floods, and slots idle.
Of tasks that take less than 20 ms more is ahead, up to eight times the slots: what waits for a slot takes it 20 ms. Of
eight, three run or are handed ahead, and there is a choice among the rest. A number that has changed is applied late
and seldom, since the broker ignores what it has delivered already when a queue is consumed anew: by a quarter at least,
and once a minute; at once only if it grows, slots lack messages, and the queue's tasks are known to be short.

Pure: it reads no clock, and consumes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LONG_S = 0.1
ROUND_TRIPS = 50  # a task that takes as many is long at least: a fiftieth of its slot's time is the answer's way
SHORT = 0.5  # of what is long
AHEAD_S = 0.02  # of work that may wait for each slot, if that is more than one task
MIN_S = 1e-6
MOST = 8  # messages for each slot, what runs included
PART = 0.25  # of a slot
LATEST = 0.2  # what the latest task, or look, counts for in the mean of its queue
CROWDED = 0.25  # of the time
LOOK_S = 0.4  # at least, over which it is seen whether a queue is crowded
LATELY_S = 10.0
SELDOM_S = 60.0
CHANGED = 1.25
ASKED = 0  # in the place of a number ahead


@dataclass(slots=True)
class Inflow:
    """Of one queue. ``ahead``: None before it is consumed; ``ASKED``: nothing is delivered."""

    weight: float = 1.0
    ahead: int | None = None
    mean_s: float | None = None
    came_at: float | None = None
    changed_at: float = 0.0
    empty_since: float | None = None  # as it was asked
    here: int = 0  # messages of it in this worker
    most: int = 0  # of these at once, since it was looked at
    full_since: float | None = None  # more than half of what may be ahead is here
    full_s: float = 0.0  # so far, since it was looked at
    full: float = 0.0  # the part of the time in which it is, lately

    def count(self, change: int, now: float) -> None:
        """So many more are here."""
        self.here = max(self.here + change, 0)
        self.most = max(self.most, self.here)
        is_full = bool(self.ahead) and 2 * self.here > (self.ahead or 0)
        if is_full and self.full_since is None:
            self.full_since = now
        elif not is_full and self.full_since is not None:
            self.full_s += now - self.full_since
            self.full_since = None

    def look(self, now: float, since: float) -> None:
        """How full it was since then."""
        if self.full_since is not None:
            self.full_s += now - self.full_since
            self.full_since = now
        self.full += LATEST * (self.full_s / (now - since) - self.full)
        self.full_s = 0.0

    def learn(self, took_s: float) -> None:
        before = self.mean_s
        self.mean_s = took_s if before is None else before + LATEST * (took_s - before)


class Inflows:
    """``can_ask``: messages can be taken one by one. ``is_fixed``: what is shared at first among all stays."""

    def __init__(self, *, can_ask: bool = True, is_fixed: bool = False) -> None:
        self._queues: dict[str, Inflow] = {}
        self._can_ask = can_ask and not is_fixed
        self._is_fixed = is_fixed
        self._looked_at = 0.0
        self.round_trip_s = 0.0

    def __contains__(self, queue: str) -> bool:
        return queue in self._queues

    def set_queues(self, weights: Mapping[str, float]) -> None:
        """These are to be consumed, and no others."""
        for name in self._queues.keys() - weights.keys():
            del self._queues[name]
        for name, weight in weights.items():
            self._queues.setdefault(name, Inflow()).weight = weight

    def disconnected(self) -> None:
        """Nothing is consumed any more; what was learnt stays."""
        for queue in self._queues.values():
            queue.ahead, queue.here, queue.full_since, queue.full_s = None, 0, None, 0.0

    def came(self, queue: str, now: float) -> None:
        """A message of it is here."""
        if (found := self._queues.get(queue)) is not None:
            found.came_at, found.empty_since = now, None
            found.count(1, now)

    def empty(self, queue: str, now: float) -> None:
        """It was asked, and has none."""
        if (found := self._queues.get(queue)) is not None and found.empty_since is None:
            found.empty_since = now

    def went(self, queue: str, took_s: float | None, now: float) -> None:
        """A message of it is over, and has run so long; None: it has not run."""
        if (found := self._queues.get(queue)) is not None:
            found.count(-1, now)
            if took_s is not None:
                found.learn(took_s)

    def runs(self, queue: str, since_s: float) -> None:
        """One of its tasks has run for so long, and goes on; told twice a second, so that long ones are known soon."""
        if (found := self._queues.get(queue)) is not None and since_s > max(found.mean_s or 0.0, LONG_S):
            found.learn(since_s)

    def mean_s(self, queue: str) -> float:
        """What its tasks take; of an unknown one, what is long."""
        found = self._queues.get(queue)
        return LONG_S if found is None or found.mean_s is None else found.mean_s

    def applied(self, queue: str, ahead: int, now: float) -> None:
        """It is consumed so from now."""
        if (found := self._queues.get(queue)) is not None:
            found.ahead, found.changed_at = ahead, now

    def lost(self, queue: str) -> None:
        """It is not consumed, though it should be."""
        if (found := self._queues.get(queue)) is not None:
            found.ahead = None

    def changes(self, now: float, *, slots: int, lacks_messages: bool) -> list[tuple[str, int]]:
        """Which queues are to be consumed otherwise than they are, and how."""
        self._look(now)
        active = {name for name, queue in self._queues.items() if self._counts(queue, now)}
        crowded = {name for name in active if self._queues[name].full >= CROWDED}
        of_active, of_crowded = (sum(self._queues[name].weight for name in names) for names in (active, crowded))
        changed = []
        for name, queue in self._queues.items():
            total = of_crowded if name in crowded else of_active
            share = _ahead(slots * queue.weight / total, queue.mean_s) if name in active else 1
            is_known = queue.ahead is not None and queue.mean_s is not None
            is_short = is_known and queue.most >= (queue.ahead or 0) and lacks_messages
            queue.most = queue.here
            ahead = self._wanted(queue, share, now, is_short=is_short)
            if ahead != queue.ahead:
                changed.append((name, ahead))
        return changed

    def _look(self, now: float) -> None:
        if now - self._looked_at >= LOOK_S:
            for queue in self._queues.values():
                queue.look(now, self._looked_at)
            self._looked_at = now

    def _counts(self, queue: Inflow, now: float) -> bool:
        return self._is_fixed or (queue.came_at is not None and now - queue.came_at < LATELY_S)

    def _wanted(self, queue: Inflow, share: int, now: float, *, is_short: bool) -> int:
        before = queue.ahead
        if self._can_ask and self._is_long(queue):
            return self._wanted_of_long(queue, now)
        if before is None or before == ASKED:
            return share
        if self._is_fixed or max(share, before) < CHANGED * min(share, before):
            return before
        return share if (share > before and is_short) or now - queue.changed_at >= SELDOM_S else before

    def _is_long(self, queue: Inflow) -> bool:
        long_s = max(LONG_S, ROUND_TRIPS * self.round_trip_s)
        return (queue.mean_s or 0.0) > long_s * (SHORT if queue.ahead == ASKED else 1.0)

    def _wanted_of_long(self, queue: Inflow, now: float) -> int:
        """Asked from when a message has come, until it has been empty for long."""
        if queue.ahead == ASKED:
            is_resting = queue.empty_since is not None and now - queue.empty_since >= LATELY_S
            return 1 if is_resting else ASKED
        has_come = queue.ahead is None or (queue.came_at is not None and queue.came_at >= queue.changed_at)
        return ASKED if has_come else 1


def _ahead(share: float, mean_s: float | None) -> int:
    """For so many slots. What runs counts, so one that is to have a good part of a slot has two: else none of its
    messages were here at the moment at which its last one ends.
    """
    each = 2.0 if mean_s is None else min(max(1.0 + AHEAD_S / max(mean_s, MIN_S), 2.0), MOST)
    return max(2 if share > PART else 1, round(each * share))
