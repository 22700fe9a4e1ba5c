"""How the depth of a lane is shared among nodes: to each as many places as its tenants have coming. Pure.

The idea
--------
Were there one queue, each slot that comes free would go to the tenant with the least tag, wherever its requests lie.
Nodes grant by themselves between two looks at each other, so they are given *places*: how many requests each may have
in flight. A part of what is in flight (``TURN``) ends before the next look, or counts so; that, and what is free, is
shared by what each tenant has coming: as a fluid that is poured upon the lowest tags first, each tenant as wide as its
weight, so much that it will last for ``HORIZON`` rounds of the depth. Nobody gets more than it has waiting.

So a tenant has its weight's part of the slots, more while it is behind, less while it is ahead. The fewer rounds, the
sooner that is put right, and the more of the slots change nodes at each look, idle meanwhile.

A place is not a slot: it is held on the way there and back, too. What a tenant has coming is cost; the places for it
are as many more as its requests hold theirs for longer than they cost (Little's law). Of two tenants of one weight, on
a way of 60 ms, that of 20 ms has 2.5 times the places of that of 100 ms; else it would have to fall far behind first.

A worked example
----------------
a lies on node 1 and has 24 in flight, b on node 2 has 8; weights, tags and costs are equal, all have much waiting, and
the depth is 32. A half of each is over soon: these 16 are shared alike. Node 1 gets 12 + 8, node 2 gets 4 + 8; next
time 10 + 8 and 6 + 8; and so on, until both have 16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from fairness.core.exchange import Row

TURN = 0.5  # of what is in flight: what will have ended by the next look, about
HORIZON = 16.0  # rounds of the depth
TINY = 1e-9


@dataclass(slots=True)
class _Vessel:
    """A tenant, on all its nodes. ``room`` is in requests."""

    tag: float
    weight: float
    cost: float
    held: float  # for how long one request holds its place, by its cost
    room: float = 0.0
    on: list[tuple[str, float]] = field(default_factory=list)  # node, and its part of the room


def share_out(depth: int, nodes: Mapping[str, Sequence[Row]], in_flight: Mapping[str, int]) -> dict[str, int]:
    """How many each node should have in flight in all; together at most ``depth``, unless more is in flight.

    ``nodes``: the lowest tenants of each, their tags as all nodes have charged them. ``in_flight``: of all tenants.
    What rounding leaves goes one by one to those whose lowest tenants are furthest behind.
    """
    exact = {node: in_flight.get(node, 0) - TURN * sum(row.in_flight for row in rows) for node, rows in nodes.items()}
    free = depth - sum(exact.values())
    vessels = _vessels(nodes)
    if free > 0 and vessels:
        for vessel, poured in zip(vessels, _pour(vessels, free, depth), strict=True):
            for node, room in vessel.on:
                exact[node] += poured * room / vessel.room
    targets = {node: int(target + TINY) for node, target in exact.items()}
    behind = sorted((min(row.tag for row in rows), node) for node, rows in nodes.items() if rows)
    left = depth - sum(targets.values())
    for _, node in behind:
        if left > 0 and targets[node] < in_flight.get(node, 0) + sum(row.waiting for row in nodes[node]):
            targets[node] += 1
            left -= 1
    return targets


def _vessels(nodes: Mapping[str, Sequence[Row]]) -> list[_Vessel]:
    found: dict[int, _Vessel] = {}
    for node, rows in nodes.items():
        for row in rows:
            vessel = found.setdefault(row.tenant_id, _Vessel(row.tag, row.weight, row.cost, 1 + row.way / row.cost))
            room = row.waiting + TURN * row.in_flight
            vessel.room += room
            vessel.on.append((node, room))
    return [vessel for vessel in found.values() if vessel.room]


def _pour(vessels: Sequence[_Vessel], free: float, depth: int) -> list[float]:
    """What of ``free`` each gets: in proportion to what it has coming of ``HORIZON`` rounds, within its room."""
    mean_cost = sum(vessel.weight * vessel.cost for vessel in vessels) / sum(vessel.weight for vessel in vessels)
    level = _level([(vessel.tag, vessel.weight, inf) for vessel in vessels], HORIZON * depth * mean_cost)
    coming = [max(0.0, vessel.weight * (level - vessel.tag)) * vessel.held for vessel in vessels]
    part = _level([(0.0, width, vessel.room) for width, vessel in zip(coming, vessels, strict=True) if width], free)
    return [min(part * width, vessel.room) for width, vessel in zip(coming, vessels, strict=True)]


def _level(vessels: Sequence[tuple[float, float, float]], amount: float) -> float:
    """How high it stands in vessels of these bottoms, widths and rooms, when so much has been poured."""
    bottoms = [(bottom, width) for bottom, width, _ in vessels]
    brims = [(bottom + room / width, -width) for bottom, width, room in vessels if room < inf]
    filled, width = 0.0, 0.0
    at = min(bottoms)[0]
    for edge, change in sorted(bottoms + brims):
        step = (edge - at) * width
        if filled + step >= amount:
            break
        filled += step
        at = edge
        width += change
    else:
        if len(brims) == len(vessels):
            return at  # all are full
    return at + (amount - filled) / width
