"""How the depth of a lane is shared among nodes: to each as many places as its tenants have coming. Pure.

The idea
--------
Were there one queue, each slot that comes free would go to the tenant with the least tag, wherever its requests lie.
Nodes grant by themselves between two looks at each other, so they are given *places*: how many requests each may have
in flight. A part of what is in flight (``TURN``) ends before the next look; that, and what is free, is poured upon the
tenants that wait, as a fluid upon the lowest tags first, each as wide as its weight, as deep as what it has waiting.
Where the fluid comes to lie, there the places are.

A worked example
----------------
a lies on node 1 and has 24 in flight, b on node 2 has 8; weights, tags and costs are equal, all have much waiting, and
the depth is 32. A quarter of each is over soon: these 8 are shared alike. Node 1 gets 18 + 4, node 2 gets 6 + 4; next
time 16.5 + 4 and 7.5 + 4; and so on, until both have 16. If b is behind, all 8 are its own until it is so no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairness.core.exchange import Row

TURN = 0.25  # of what is in flight: what will have ended by the next look, about
STEPS = 50  # of the bisection: more than a float can tell apart


@dataclass(slots=True)
class _Vessel:
    """A tenant, on all its nodes: from its tag upwards it is ``weight`` wide. ``room`` is in requests."""

    tag: float
    weight: float
    cost: float
    room: float = 0.0
    on: list[tuple[str, float]] = field(default_factory=list)  # node, and its part of the room

    def holds(self, level: float, mean_cost: float) -> float:
        return min(max(0.0, self.weight * (level - self.tag) / mean_cost), self.room)


def share_out(depth: int, nodes: Mapping[str, Sequence[Row]], in_flight: Mapping[str, int]) -> dict[str, float]:
    """How many each node should have in flight in all; together ``depth``, or less where less is there to go.

    ``nodes``: the lowest tenants of each, their tags as all nodes have charged them. ``in_flight``: of all tenants.
    """
    targets = {node: in_flight.get(node, 0) - TURN * sum(row.in_flight for row in rows) for node, rows in nodes.items()}
    free = depth - sum(targets.values())
    vessels = _vessels(nodes)
    if free <= 0 or not vessels:
        return targets
    for vessel, poured in zip(vessels, _pour(vessels, free), strict=True):
        for node, room in vessel.on:
            targets[node] += poured * room / vessel.room
    return targets


def _vessels(nodes: Mapping[str, Sequence[Row]]) -> list[_Vessel]:
    found: dict[int, _Vessel] = {}
    for node, rows in nodes.items():
        for row in rows:
            vessel = found.setdefault(row.tenant_id, _Vessel(row.tag, row.weight, row.cost))
            room = row.waiting + TURN * row.in_flight
            vessel.room += room
            vessel.on.append((node, room))
    return [vessel for vessel in found.values() if vessel.room]


def _pour(vessels: Sequence[_Vessel], free: float) -> list[float]:
    """What each holds once that many requests have been poured."""
    weight = sum(vessel.weight for vessel in vessels)
    mean_cost = sum(vessel.weight * vessel.cost for vessel in vessels) / weight
    low = min(vessel.tag for vessel in vessels)
    high = max(vessel.tag + vessel.room * mean_cost / vessel.weight for vessel in vessels)
    for _ in range(STEPS):
        level = (low + high) / 2
        if sum(vessel.holds(level, mean_cost) for vessel in vessels) < free:
            low = level
        else:
            high = level
    return [vessel.holds(high, mean_cost) for vessel in vessels]
