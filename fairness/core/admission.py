"""Asking for admission under limits: what is asked, and what is answered. Pure values.

For each request all its bounds are asked before one is entered, in this order: budget of the day, caps, rates. A
refusal spends nothing. A member that is in already is admitted again, and spends nothing either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fairness.core.leases import Wanted
from fairness.core.terms import Bound, BoundKey, Terms

BUDGET, CAP, RATE = "budget", "cap", "rate"  # why something waits that was refused


@dataclass(frozen=True, slots=True)
class Request:
    """``member`` names a fire, in all its attempts."""

    member: str
    tenant_id: int
    lane: str
    task: str
    bounds: Sequence[tuple[BoundKey, Bound]]
    daily_fires: int | None = None  # the tenant's budget of the day


def request_of(member: str, terms: Terms, *, lane: str, task: str) -> Request:
    """What has to be asked for this fire, by its tenant's terms as they are now."""
    return Request(member, terms.tenant_id, lane, task, terms.bounds_of(lane, task), terms.daily_fires)


@dataclass(frozen=True, slots=True)
class Refusal:
    """``after_s``: real seconds after which to ask again; None: when one under ``key`` has left, or in a second."""

    reason: str
    key: BoundKey
    after_s: float | None = None


class Limiter(Protocol):
    """Rates and caps that all nodes have in common. No call raises for want of Redis: limits then are this node's part.

    One thread calls it.
    """

    def admit(self, requests: Sequence[Request]) -> list[Refusal | None]:
        """In their order; None: it may go, and is in."""

    def lease(self, wanted: Sequence[Wanted]) -> list[int]:
        """How many tokens of each of these rates are spent now, for fires that are yet to come; see `leases`."""

    def leave(self, requests: Sequence[Request], *, unspent: bool = False) -> None:
        """They are over. ``unspent``: they did not go after all, and give their tokens back."""

    def hold(self, requests: Sequence[Request]) -> None:
        """They are in flight, whatever any limit says: their leases begin anew. All that are, about every 10 s."""

    def close(self) -> None: ...
