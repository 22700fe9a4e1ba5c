"""The halves of a node's shards in step: of a tenant's backlog neither goes on far before the other.

::

    a look takes some of a tenant, and leaves more ─> it has come further there than in the other half
        ─> left out of looks at this half ── until the other half's have come as far, or come no further

A tenant is full for about as long as it takes until the same half is looked at again: left to chance, one half's
backlog would be over before the other's has begun.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from scheduling.core.due import Due
from scheduling.core.effects import ReadDue
from scheduling.core.looks import HALVES

LONG_AGO = datetime.min.replace(tzinfo=UTC)


class InStep:
    """One thread owns it."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Shards have come, or gone; or nobody waits for anything."""
        self._reached: list[dict[int, datetime]] = [{} for _ in range(HALVES)]  # of tenants that have more there
        self._ahead: list[set[int]] = [set() for _ in range(HALVES)]
        self._left_out: list[frozenset[int]] = [frozenset()] * HALVES  # of the latest look

    def ahead(self, shards: Collection[int]) -> frozenset[int]:
        """Tenants that a look at this half leaves out."""
        return frozenset(self._ahead[_half(shards)])

    def looked(self, effect: ReadDue, found: Due) -> None:
        half, left_out = _half(effect.shards), effect.full
        before, there = self._reached[half], self._reached[1 - half]
        has_more = {tenant for tenant, _ in found.more}
        last = _last_of_each(found)
        reached = {tenant: at for tenant, at in before.items() if tenant in has_more | left_out}
        reached |= {tenant: at for tenant, at in last.items() if tenant in has_more}
        self._reached[half], self._left_out[half] = reached, left_out
        never_there = self._left_out[1 - half] - there.keys()
        beside = reached.keys() & there.keys()
        ahead = {tenant for tenant in beside & last.keys() if reached[tenant] > there[tenant]}
        comes_on = {tenant for tenant in beside if before.get(tenant, LONG_AGO) < reached[tenant] < there[tenant]}
        self._ahead[half] = self._ahead[half] & left_out | ahead | reached.keys() & last.keys() & never_there
        self._ahead[1 - half] &= left_out | comes_on


def _last_of_each(found: Due) -> Mapping[int, datetime]:
    last: dict[int, datetime] = {}
    for job in found.jobs:
        tenant, at = job.work.tenant_id, job.next_fire_at
        if at is not None and (tenant not in last or at > last[tenant]):
            last[tenant] = at
    return last


def _half(shards: Collection[int]) -> int:
    return next(iter(shards)) % HALVES
