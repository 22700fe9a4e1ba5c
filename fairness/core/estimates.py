"""What a request will cost: by what the last ones of the same tenant and task have cost.

A moving mean in which the latest counts for a fifth, held between a tenth of the mean of its lane and ten times that:
no single task is believed to be further from the others. Of an unknown task the mean of its lane is expected.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from math import inf

from fairness.core.fair_queue import MIN_COST
from fairness.core.tree import FlowPath

LATEST = 0.2  # what the latest cost counts for in the mean of its task
LATEST_IN_LANE = 0.01
BELIEVED = 10.0  # times the mean of its lane, and that part of it
KEPT = 100_000  # tasks


class Estimates:
    """Costs are positive, in the unit of the fair queue. Of more than ``kept`` tasks the least recent is forgotten.

    ``first`` is expected while nothing is known of a lane. Raises ValueError if the queue would not take it.
    """

    def __init__(self, *, first: float, kept: int = KEPT) -> None:
        if not MIN_COST <= first < inf:
            raise ValueError(f"first {first!r}: must be at least {MIN_COST:g}, and finite")
        self._first = first
        self._kept = kept
        self._lanes: dict[Hashable, float] = {}
        self._tasks: OrderedDict[FlowPath, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tasks)

    def of(self, path: FlowPath) -> float:
        """What the next request of this lane, tenant and task is expected to cost."""
        lane = self._lanes.get(path[0], self._first)
        expected = self._tasks.get(path, lane)
        return max(min(max(expected, lane / BELIEVED), lane * BELIEVED), MIN_COST)

    def learn(self, path: FlowPath, cost: float) -> None:
        """One has finished, at this cost. Raises ValueError if that is negative, infinite or no number."""
        if not 0 <= cost < inf:
            raise ValueError(f"cost {cost!r}: must be at least 0, and finite")
        before = self._tasks.get(path)
        self._tasks[path] = cost if before is None else before + LATEST * (cost - before)
        self._tasks.move_to_end(path)
        if len(self._tasks) > self._kept:
            self._tasks.popitem(last=False)
        lane = self._lanes.get(path[0])
        self._lanes[path[0]] = cost if lane is None else lane + LATEST_IN_LANE * (cost - lane)
