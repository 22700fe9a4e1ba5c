"""What a node is told of fires that it has published: whether they run, and what they have cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from scheduling.core.fire import Fire

HELD_BACK = ("share", "rate", "cap")  # why a fire is parked whose turn only its owner knows


@dataclass(frozen=True, slots=True)
class RunSeen:
    """A published fire that is no longer ``claimed`` under its fence: it runs, or its attempt is over.

    ``ran_s`` are real seconds, so far or in all; None: it has not run, or nobody knows for how long.
    """

    fire_id: UUID
    fence: int  # under which it was asked for
    is_running: bool
    ran_s: float | None = None


@dataclass(frozen=True, slots=True)
class InFlight:
    """A fire that another owner of its shard published, and that is not over. ``ran_s`` None: it has not begun."""

    fire: Fire
    ran_s: float | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """``since`` has job times, by (tenant, shard)."""

    in_flight: Sequence[InFlight] = ()
    since: Mapping[tuple[int, int], datetime] = field(default_factory=dict)
