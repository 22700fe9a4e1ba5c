"""Values of fair turns: one fire and its turn, from the moment at which it waits for it until its run is over."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from fairness.core.admission import Request
from fairness.core.leases import Purse
from fairness.core.node import State as TicketState
from fairness.core.node import Ticket
from scheduling.core.fire import Fire
from scheduling.core.turn_gates import Asking

SHARE, BROKER = "share", "turn"  # why something waits that no limit holds
Path = tuple[str, int, str]  # lane, tenant's id, task
TenantLane = tuple[str, int]


class Stage(Enum):
    """Where the fire is.

    ::

        HELD ── waits longer than a second ──> STORING ──> STORED <──┐
         │ ^──────────── found by a look, COMING ────────────┘       │
         │ granted                              granted: RELEASED ───┘ it goes on where HELD does
         ├─ limited: ADMITTING ─┬─ refused: HELD again
         └─────────────────────-┴─> GOING ── confirmed ──> SENT ──> RUNNING
    """

    HELD = "held"  # claimed, and in our hands
    STORING = "storing"  # it is being parked
    STORED = "stored"  # parked; its ticket waits on
    COMING = "coming"  # a look has found it: it is being claimed again, and waits on
    RELEASED = "released"  # it is its turn, and it is being claimed again, or has to be parked before
    ADMITTING = "admitting"
    GOING = "going"  # to the broker, or back to it
    SENT = "sent"
    RUNNING = "running"


@dataclass(slots=True, eq=False)
class Turn:
    """``ticket`` None: another owner granted it. ``since``: monotonic seconds from which it waits in our hands."""

    fire: Fire
    path: Path
    ticket: Ticket[Turn] | None = None
    stage: Stage = Stage.HELD
    since: float = 0.0
    granted_at: float = 0.0  # monotonic seconds
    waits_for: str = ""  # for what it was parked
    request: Request | None = None  # under which it was admitted, or is asked for
    is_admitted: bool = False
    purses: tuple[Purse, ...] = ()  # out of which it has a token each, and was not asked for
    asking: Asking | None = None  # where it counts among those that are asked for

    @property
    def is_granted(self) -> bool:
        return self.ticket is None or self.ticket.state is not TicketState.WAITING

    @property
    def tenant_lane(self) -> TenantLane:
        return self.path[:2]

    @property
    def shard(self) -> int:
        return self.fire.work.shard


@dataclass(frozen=True, slots=True)
class FairLimits:
    """``bounds_lanes``: only about as much is released as workers can take. ``by_time``: shares are of slot-seconds,
    else of fires.
    """

    bounds_lanes: bool = True
    by_time: bool = True
    exchanges: bool = True  # with other nodes; else all places are this one's
    follows_all: bool = False  # every fire is acquired, whatever its task; else only those of tasks that say so


@dataclass(slots=True)
class Called:
    """Whose turn has come: those in our hands are published, or asked for; those in the store are claimed again."""

    publish: list[Fire] = field(default_factory=list)
    release: list[Fire] = field(default_factory=list)


@dataclass(slots=True)
class Freed:
    """Requests of those that were admitted."""

    over: list[tuple[Fire, Request]] = field(default_factory=list)
    unspent: list[tuple[Fire, Request]] = field(default_factory=list)  # they did not go
