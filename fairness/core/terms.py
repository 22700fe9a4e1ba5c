"""What a tenant may have: its weights, and the limits of it and of its parts, as they stand in Postgres.

They are read anew as they change, and asked at each decision: nothing that waits carries a copy. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TRANSACTIONAL, BULK = "transactional", "bulk"
LANES = (TRANSACTIONAL, BULK)

BoundKey = tuple[int, str, str]  # tenant's id; lane, empty for both; task, empty for all


@dataclass(frozen=True, slots=True)
class Bound:
    """One limit: a rate, with the burst that may go at once after a rest; and how many may be in flight."""

    rate_per_s: float | None = None
    burst: int = 1
    max_in_flight: int | None = None
    is_strict: bool = False  # the number in flight holds whatever fails

    @property
    def bounds_anything(self) -> bool:
        return self.rate_per_s is not None or self.max_in_flight is not None


@dataclass(frozen=True, slots=True)
class Terms:
    """Of one tenant. ``bounds`` by (lane, task), either of them empty for all."""

    tenant_id: int
    slug: str
    weight: float = 1.0
    transactional_weight: float | None = None
    daily_fires: int | None = None
    bounds: Mapping[tuple[str, str], Bound] = field(default_factory=dict)

    def weight_in(self, lane: str) -> float:
        """Its weight among the tenants of this lane."""
        if lane == TRANSACTIONAL and self.transactional_weight is not None:
            return self.transactional_weight
        return self.weight

    def bounds_of(self, lane: str, task: str) -> tuple[tuple[BoundKey, Bound], ...]:
        """All that hold for a fire of this task in this lane, the widest first.

        >>> Terms(7, "acme", bounds={("", ""): Bound(max_in_flight=4)}).bounds_of("bulk", "send")
        (((7, '', ''), Bound(rate_per_s=None, burst=1, max_in_flight=4, is_strict=False)),)
        """
        keys = (("", ""), (lane, ""), ("", task), (lane, task))
        return tuple(((self.tenant_id, *key), self.bounds[key]) for key in keys if key in self.bounds)

    @property
    def is_limited(self) -> bool:
        """Whether anything of it has to be asked for before it goes."""
        return self.daily_fires is not None or any(bound.bounds_anything for bound in self.bounds.values())
