"""How a tenant's lane stands with one node: what the node says of it every few seconds. A pure value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

GRANTS_KEPT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A fire that was let go, so many real seconds before its standing was taken."""

    fire_id: UUID
    ago_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantStanding:
    """One with something waiting, or in flight, or served within the last minute. Seconds are real ones.

    The second half is counted from one standing to the next: each is told once. ``backlogged_s``: while something of it
    waited for its turn, and no limit said: later; ``refused``: fires that the broker did not take.
    """

    tenant_id: int
    lane: str
    weight: float
    waiting: int
    in_flight: int
    reason: str = ""  # what holds the first of them: rate, cap, budget; empty: its turn
    until_s: float | None = None  # from now on, when that is asked again; None: when one ends
    oldest_s: float | None = None  # for so long the oldest that waits has been due
    starts_per_s: float = 0.0  # over the last minute
    served_per_s: float = 0.0  # slot-seconds a second, over the last minute
    mean_s: float = 0.0  # slot-seconds that one is thought to take

    starts: int = 0
    served_s: float = 0.0  # slot-seconds
    throttled: int = 0  # times that a limit said: later
    refused: int = 0
    backlogged_s: float = 0.0
    grants: Sequence[Grant] = ()  # the newest first, at most ``GRANTS_KEPT``
