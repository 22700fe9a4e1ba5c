"""Which tenants are held on which shards, and since when: what was due of them has been left unclaimed.

::

    full, and so left out of a look ──> held since then ── for a second ──> written
                                          └── a look leaves nothing due of it behind, and its claim is written ──> over

What comes due meanwhile is not late by it (``plan_jobs``). The next owner of the shard reads what is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from math import inf

from scheduling.core.due import Due
from scheduling.core.effects import Epochs, Hold, ReadDue
from scheduling.core.plans import JobPlan

WRITE_S = 1.0
AT_ONCE = 1000  # in one statement
BACK = timedelta(seconds=1)  # a clock that goes back by less was only read anew
LONG_AGO = datetime.min.replace(tzinfo=UTC)
Key = tuple[int, int]  # tenant's id, shard


class Holds:
    """Times are monotonic seconds, but for ``since``. One thread owns it."""

    def __init__(self) -> None:
        self.since: dict[Key, datetime] = {}  # job time
        self._by_tenant: dict[int, set[int]] = {}
        self._begun: dict[Key, float] = {}  # that are not written yet
        self._written: set[Key] = set()
        self._ended: set[Key] = set()  # and still written
        self._ending: dict[frozenset[int], list[Key]] = {}  # once a claim is written, by what it looked at
        self._writing: Hold | None = None
        self._job_now = LONG_AGO  # the latest that was seen

    def begin(self, full: Collection[int], shards: Collection[int], now: float, job_now: datetime) -> None:
        """A look at these shards leaves these tenants out."""
        if job_now + BACK < self._job_now:
            self._set_back(now, job_now)
        self._job_now = job_now
        for tenant in full:
            known = self._by_tenant.setdefault(tenant, set())
            for shard in shards:
                if shard not in known:
                    known.add(shard)
                    self.since[tenant, shard] = job_now
                    self._begun[tenant, shard] = now
                    self._ended.discard((tenant, shard))

    def _set_back(self, now: float, job_now: datetime) -> None:
        """The clock was: whoever is held since a time that is yet to come is held by now."""
        for key in [key for key, at in self.since.items() if at > job_now]:
            self.since[key] = job_now
            self._begun.setdefault(key, now)

    def looked(self, effect: ReadDue, found: Due, left: Iterable[Key]) -> None:
        """A look has ended. What is ``left`` of what it found is not to be claimed yet."""
        over: list[Key] = []
        for tenant in self._by_tenant.keys() - effect.full:
            over += [(tenant, shard) for shard in self._by_tenant[tenant] & found.seen]
        self._ending[effect.shards] = [key for key in over if key not in found.more] if over else []
        if self._ending[effect.shards]:
            behind = set(left)
            self._ending[effect.shards] = [key for key in self._ending[effect.shards] if key not in behind]

    def claimed(self, shards: frozenset[int]) -> None:
        """What the look at these found is claimed, or it found nothing."""
        for key in self._ending.pop(shards, ()):
            self._forget(key)
            if key in self._written:
                self._ended.add(key)

    def not_claimed(self, shards: frozenset[int]) -> None:
        self._ending.pop(shards, None)

    def known(self, since: Mapping[Key, datetime]) -> None:
        """Written by another owner."""
        for (tenant, shard), at in since.items():
            self._by_tenant.setdefault(tenant, set()).add(shard)
            self.since[tenant, shard] = at
            self._begun.pop((tenant, shard), None)
            self._ended.discard((tenant, shard))
            self._written.add((tenant, shard))
            self._job_now = max(self._job_now, at)

    def next_at(self) -> float:
        """When there is something to write."""
        if self._writing is not None:
            return inf
        if self._ended:
            return 0.0
        return min(islice(self._begun.values(), 1), default=inf) + WRITE_S

    def write(self, now: float, epochs: Epochs) -> list[Hold]:
        """What is to be written now, of the shards of ``epochs``."""
        if now < self.next_at():
            return []
        old = [key for key, at in islice(self._begun.items(), AT_ONCE) if at <= now - WRITE_S]
        begun = {key: self.since[key] for key in old if key[1] in epochs}
        over = list(islice(self._ended, AT_ONCE))
        ended = [key for key in over if key[1] in epochs]
        for key in old:
            del self._begun[key]
        self._ended.difference_update(over)  # of a shard that is gone it is its next owner's to end
        if not (begun or ended):
            return []
        shards = {shard for _, shard in (*begun, *ended)}
        self._written.update(begun)
        self._written.difference_update(ended)
        self._writing = Hold({shard: epochs[shard] for shard in shards}, begun, ended)
        return [self._writing]

    def written(self) -> None:
        self._writing = None

    def not_written(self, effect: Hold, now: float) -> None:
        """Nobody knows: once more, a second later."""
        self._writing = None
        for key in effect.begun:
            if key in self.since:
                self._begun[key] = now
            else:
                self._ended.add(key)
        for key in effect.ended:
            self._written.add(key)
            if key not in self.since:
                self._ended.add(key)

    def drop(self, shards: Collection[int]) -> None:
        """These are no longer ours."""
        for key in [key for key in self.since if key[1] in shards]:
            self._forget(key)
        self._written = {key for key in self._written if key[1] not in shards}
        self._ended = {key for key in self._ended if key[1] not in shards}

    def _forget(self, key: Key) -> None:
        tenant, shard = key
        self.since.pop(key, None)
        self._begun.pop(key, None)
        shards = self._by_tenant.get(tenant)
        if shards is not None:
            shards.discard(shard)
            if not shards:
                del self._by_tenant[tenant]


def still_due(plans: Iterable[JobPlan], now: datetime) -> list[Key]:
    """Of which jobs more is due after these plans."""
    return [
        (plan.due.work.tenant_id, plan.due.work.shard)
        for plan in plans
        if plan.next_fire_at is not None and plan.next_fire_at <= now
    ]
