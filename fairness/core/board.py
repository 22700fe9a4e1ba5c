"""What all nodes have told of a lane, and what each is answered: the twin, in memory, of what Redis keeps. Pure.

The rules are in ``fairness.core.exchange``. Times here are those that nodes have in common, which begin at 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor

from fairness.core.exchange import LEASE_S, Charge, Row, Settled, Told
from fairness.core.places import share_out

NO_CHARGE = Charge(0.0)


@dataclass(slots=True)
class _Seat:
    """Of one node. ``rows`` have the weights, and no tags: those are the lane's."""

    ends_at: float
    in_flight: int
    wants: int
    places: int
    depth: int
    rows: Sequence[Row]

    @property
    def held(self) -> int:
        """What others cannot have."""
        return max(self.in_flight, self.places)


@dataclass(slots=True)
class _Lane:
    virtual_time: float = 0.0
    furthest: float = 0.0  # of all tags that there were
    tags: dict[int, float] = field(default_factory=dict)
    weights: dict[int, float] = field(default_factory=dict)  # as they were when the tags were told last
    seats: dict[str, _Seat] = field(default_factory=dict)

    def tag(self, tenant: int) -> float:
        return self.tags.get(tenant, self.virtual_time)


class Board:
    """One for all nodes of a pool."""

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}

    def settle(self, node: str, told: Told, now: float) -> tuple[Settled, bool]:
        """The answer, in common times; and whether this node has joined with it."""
        lane = self._lanes.setdefault(told.lane, _Lane())
        lane.seats = {name: seat for name, seat in lane.seats.items() if seat.ends_at > now}
        has_joined = node not in lane.seats
        _take(lane, told, has_joined=has_joined)
        seat = lane.seats[node] = _Seat(now + LEASE_S, told.in_flight, told.wants, 0, told.depth, told.rows)
        _move_virtual_time(lane, told.charges)
        seat.places = _places(lane, node, told)
        settled = Settled(
            lane=told.lane,
            tags={tenant: lane.tags[tenant] for tenant in (*told.charges, *(row.tenant_id for row in told.rows))},
            virtual_time=lane.virtual_time,
            places=seat.places,
            in_flight=sum(seat.in_flight for seat in lane.seats.values()),
            wants=sum(seat.wants for seat in lane.seats.values()),
        )
        if not any(seat.in_flight or seat.wants or seat.rows for seat in lane.seats.values()):
            lane.virtual_time = lane.furthest
            lane.tags.clear()
            lane.weights.clear()
        return settled, has_joined

    def leave(self, node: str) -> None:
        for lane in self._lanes.values():
            lane.seats.pop(node, None)


def _take(lane: _Lane, told: Told, *, has_joined: bool) -> None:
    """The tags of all that were told of."""
    virtual_time = lane.virtual_time
    rows = {row.tenant_id: row for row in told.rows}
    for tenant in {**told.charges, **rows}:
        row, charge = rows.get(tenant), told.charges.get(tenant, NO_CHARGE)
        tag = lane.tags.get(tenant)
        if tag is None:
            ahead = charge.amount if row is None else row.tag - told.virtual_time
            tag = virtual_time + max(0.0, ahead)
        else:
            if row is not None and tag > virtual_time:
                tag = virtual_time + (tag - virtual_time) * lane.weights.get(tenant, row.weight) / row.weight
            if charge.came or (row is not None and has_joined):
                tag = max(tag, virtual_time)
            tag += charge.amount
        lane.tags[tenant] = tag
        lane.furthest = max(lane.furthest, tag)
        if row is not None:
            lane.weights[tenant] = row.weight


def _move_virtual_time(lane: _Lane, charges: Mapping[int, Charge]) -> None:
    """To the least tag of all that wait; or, if nobody does, to where the last that went have started."""
    reached = [lane.tag(row.tenant_id) for seat in lane.seats.values() for row in seat.rows]
    if reached:
        lane.virtual_time = max(lane.virtual_time, min(reached))
    else:
        starts = (lane.tags[tenant] - charge.amount for tenant, charge in charges.items() if charge.amount > 0)
        lane.virtual_time = max(lane.virtual_time, *starts, 0.0)


def _depth(lane: _Lane) -> int:
    """Of the lane: the mean of what its nodes take it for, by what each has in flight."""
    weights = {name: max(1, seat.in_flight) for name, seat in lane.seats.items()}
    whole = sum(seat.depth * weights[name] for name, seat in lane.seats.items())
    return floor(whole / sum(weights.values()) + 0.5)


def _places(lane: _Lane, node: str, told: Told) -> int:
    """Its target, as far as others leave room; or more, where others do not have it coming: as much as it wants, and
    its part of what nobody wants, of which one part is left for a node that is yet to come.
    """
    depth = _depth(lane)
    rows = {name: [replace(row, tag=lane.tag(row.tenant_id)) for row in seat.rows] for name, seat in lane.seats.items()}
    targets = share_out(depth, rows, {name: seat.in_flight for name, seat in lane.seats.items()})
    free, coming, spare = depth, 0, depth
    for name, seat in lane.seats.items():
        wanted = seat.in_flight + seat.wants
        spare -= wanted
        if name != node:
            free -= seat.held
            coming += max(0, min(wanted, ceil(targets[name])) - seat.held)
    most = told.in_flight + told.wants + max(0, spare) // (len(lane.seats) + 1)
    return max(0, min(most, max(min(ceil(targets[node]), free), free - coming)))
