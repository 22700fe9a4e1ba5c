"""The ideal: generalised processor sharing (GPS), by brute force. Work is a fluid; at each instant all that have some
are served at once, lanes by weight, in a lane its tenants, of a tenant its keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from fairness.core.tree import FlowPath, Path

TINY = 1e-9


class Fluid:
    """``weights`` of lanes, tenants and flows; 1 where none is given."""

    def __init__(self, capacity: float, weights: Mapping[Path, float]) -> None:
        self.now = 0.0
        self.capacity = capacity
        self.weights = dict(weights)
        self.backlog: dict[FlowPath, float] = {}
        self.served: dict[FlowPath, float] = {}

    def arrive(self, path: FlowPath, work: float) -> None:
        self.backlog[path] = self.backlog.get(path, 0.0) + work

    def advance_to(self, moment: float) -> None:
        while self.now < moment and (rates := self.rates()):
            step = min(moment - self.now, *(self.backlog[path] / rate for path, rate in rates.items()))
            for path, rate in rates.items():
                self.backlog[path] -= step * rate
                self.served[path] = self.served.get(path, 0.0) + step * rate
            self.now += step
        self.now = moment

    def rates(self) -> dict[FlowPath, float]:
        """Of each flow that has work."""
        busy = sorted(path for path, work in self.backlog.items() if work > TINY)
        return dict(self._shared(busy, self.capacity, depth=1))

    def _shared(self, busy: list[FlowPath], capacity: float, *, depth: int) -> list[tuple[FlowPath, float]]:
        children = [list(flows) for _, flows in groupby(busy, key=lambda path: path[:depth])]
        if depth == 4:
            return [(path, capacity) for path in busy]
        weights = [self.weights.get(flows[0][:depth], 1.0) for flows in children]
        rates: list[tuple[FlowPath, float]] = []
        for flows, weight in zip(children, weights, strict=True):
            rates += self._shared(flows, capacity * weight / sum(weights), depth=depth + 1)
        return rates
