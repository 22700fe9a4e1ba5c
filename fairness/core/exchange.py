"""What nodes tell each other of one lane, so that shares are of the whole pool: tags, virtual time, and places. Pure.

The idea
--------
Fair on each node is not fair in all: a tenant whose jobs lie on one node would get that node's part of the workers,
whatever its weight. So each node tells, every 50 to 100 ms, what it has charged to whom since it told last, and which
of its tenants are lowest; and is told their tags as all nodes have charged them, and how many *places* it has: how many
fires of this lane it may have in flight in all. There is no leader; whoever asks is answered by what all have told.

Rules
-----
- **Times** are virtual: cost over weight, as floats (what ``FairQueue`` counts by its ``UNIT``). Each node's run from a
  zero of its own: what is told and answered is in the node's, here and over Redis alike, and is translated by what its
  virtual time was when it joined. So neither a node that comes anew nor a Redis that comes back empty moves anybody.
- **Tags**: of a tenant that is known, the tag (or virtual time, if that is later and it ``came``: nobody saves up
  while away) and its charge. Of one that is not known, what its node has for it, charges included; at least virtual
  time. With another weight than was told before, what it is ahead by is restated.
- **Virtual time** is the least tag among the rows of all nodes, and never goes back; while nobody waits anywhere, that
  of the node that asks. Once nothing is in flight either, all tags are forgotten.
- **Depth**: of the lane there is one for all: the mean of what its nodes take it for, by what each has in flight. Were
  each answered by its own, places would go, and stay, where it is taken for the greatest, whoever is behind.
- **Places**: shared out by ``share_out``; what is left over goes to whoever has more waiting. A node keeps what it has
  in flight, even above its places, and then grants nothing. Those of all nodes together are never more than the depth
  (or what is in flight, after it has fallen).
- **Leases**: a node that tells nothing for ``LEASE_S`` has no rows and no places any more.

A node grants nothing in a lane between asking and the answer, or counts what it may grant meanwhile as in flight: else
places that were taken from it are used twice. After no answer (``is_shared`` is false) it has a part of ``depth`` of
its own, and its own tags are all there is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from fairness.core.split import part_of

LEASE_S = 2.0


@dataclass(frozen=True, slots=True)
class Charge:
    """By how much one tenant's tag has moved on this node since it was told last; negative where less was used."""

    amount: float
    came: bool = False  # it had nothing waiting on this node before


@dataclass(frozen=True, slots=True)
class Row:
    """A tenant that could go at once on this node."""

    tenant_id: int
    tag: float  # the node's
    weight: float
    cost: float  # of its next fire, as estimated
    waiting: int  # how many of its fires could go
    in_flight: int = 0  # fires of it that this node has published
    way: float = 0.0  # for how long a fire holds its place beyond what it costs, in the unit of costs


@dataclass(frozen=True, slots=True)
class Told:
    """Of one lane of one node. ``rows`` are its lowest tenants, at most about 32 of them."""

    lane: str
    charges: Mapping[int, Charge]
    rows: Sequence[Row]
    virtual_time: float
    in_flight: int
    wants: int  # how many more could go, of all tenants
    depth: int  # of the lane, for all nodes, as this one takes it


@dataclass(frozen=True, slots=True)
class Settled:
    """``tags`` are of all tenants in the charges and rows that were told; without what was charged since."""

    lane: str
    tags: Mapping[int, float] = field(default_factory=dict)
    virtual_time: float = 0.0
    places: int = 0  # in flight in all, until the next answer
    in_flight: int = 0  # of all nodes
    wants: int = 0  # of all nodes
    is_shared: bool = True


class Exchange(Protocol):
    """One node's side. One thread calls it; no call raises for want of Redis."""

    def exchange(self, told: Sequence[Told]) -> list[Settled]:
        """For each lane, in their order. What was told counts once, even where the answer was lost."""

    def leave(self) -> None:
        """This node has nothing more to do with it: its places are free."""

    def close(self) -> None: ...


class Frames:
    """Translates between the virtual times of one node and those that nodes have in common, by lane."""

    def __init__(self) -> None:
        self._offsets: dict[str, float] = {}

    @property
    def lanes(self) -> list[str]:
        """Of which something was answered."""
        return list(self._offsets)

    def own(self, told: Told, settled: Settled, *, has_joined: bool) -> Settled:
        """The answer, which is in common times, in those of the node."""
        if has_joined or told.lane not in self._offsets:
            self._offsets[told.lane] = told.virtual_time - settled.virtual_time
        offset = self._offsets[told.lane]
        tags = {tenant: tag + offset for tenant, tag in settled.tags.items()}
        return replace(settled, tags=tags, virtual_time=settled.virtual_time + offset)


def part_alone(told: Told, *, node: str, nodes: Collection[str]) -> Settled:
    """The answer where nobody can be asked: this node's part of the depth. ``node`` is one of ``nodes``, or added."""
    nodes = nodes if node in nodes else {*nodes, node}
    places = part_of(told.depth, of=told.lane, node=node, nodes=nodes)
    return Settled(
        lane=told.lane,
        virtual_time=told.virtual_time,
        places=places,
        in_flight=told.in_flight,
        wants=told.wants,
        is_shared=False,
    )
