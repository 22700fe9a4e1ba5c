"""Rates and caps in memory: of one node alone, or of a node's part of them while nodes cannot ask each other.

With other nodes about, each limit is divided among them by ``fairness.core.split``: what all admit together is never
more than the limit. Who is in stays in, however the parts change.

Nothing is admitted under a cap before the first ``hold``, which tells who is in flight already. A bucket that nothing
is known of counts as emptied when this limiter began: it may be the second one to begin within the same burst. Pure:
time is injected, and nothing sleeps.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from fairness.core.admission import CAP, RATE, Refusal, Request
from fairness.core.caps import Cap
from fairness.core.leases import Wanted, lendable
from fairness.core.rate import SLOWEST_PER_S, Rate
from fairness.core.split import part_of, rate_part
from fairness.core.terms import Bound, BoundKey

LEASE_S = 60.0  # of a member that nobody holds any more
ASK_AGAIN_S = 1.0  # whatever has no better time
REBUILD_S = 0.25  # after which to ask again for a cap while it is not known who is in flight


@dataclass(slots=True)
class _Bucket:
    """A node's part of a rate."""

    bound: Bound  # the whole
    per_s: float
    burst: int
    rate: Rate


@dataclass(slots=True)
class _Stay:
    """Of one member: what it has entered, until its lease ends."""

    ends_at: float
    caps: tuple[BoundKey, ...]
    spent: tuple[BoundKey, ...]  # rates of which it has a token


class LocalLimiter:
    """A ``Limiter`` over no service. ``nodes`` are all that are alive; this one is added if it is not among them."""

    def __init__(
        self,
        *,
        node: str,
        nodes: Callable[[], Collection[str]],
        clock: Callable[[], float],
        lease_s: float = LEASE_S,
    ) -> None:
        self._node = node
        self._nodes = nodes
        self._clock = clock
        self._lease_s = lease_s
        self._began_at = clock()
        self._stays: OrderedDict[str, _Stay] = OrderedDict()  # all leases are as long, so the next to end is first
        self._caps: dict[BoundKey, Cap] = {}
        self._buckets: dict[BoundKey, _Bucket] = {}
        self._is_rebuilt = False

    @property
    def is_degraded(self) -> bool:
        """It asks nobody, so there is nobody to miss."""
        return False

    def admit(self, requests: Sequence[Request]) -> list[Refusal | None]:
        now = self._clock()
        self._drop_ended(now)
        nodes = self._alive()
        return [self._admit(request, nodes, now) for request in requests]

    def lease(self, wanted: Sequence[Wanted]) -> list[int]:
        """Of this node's part, which is all that it has: nobody else takes of it."""
        now = self._clock()
        nodes = self._alive()
        granted = []
        for one in wanted:
            rate = self._rate(one.key, one.bound, nodes, now)
            if rate is None:
                granted.append(0)
                continue
            bucket = self._buckets[one.key]
            part = Bound(bucket.per_s, bucket.burst)
            granted.append(rate.take(now, lendable(part, rate.tokens(now), one.in_hand)))
        return granted

    def leave(self, requests: Sequence[Request], *, unspent: bool = False) -> None:
        for request in requests:
            stay = self._stays.pop(request.member, None)
            if stay is None:
                continue
            self._leave_caps(request.member, stay)
            if unspent:
                for key in stay.spent:
                    if key in self._buckets:
                        self._buckets[key].rate.undo(request.member)

    def hold(self, requests: Iterable[Request]) -> None:
        now = self._clock()
        self._drop_ended(now)
        nodes = self._alive()
        for request in requests:
            self._enter(request, nodes, now)
        self._forget_idle(now)
        self._is_rebuilt = True

    def close(self) -> None:
        """There is nothing to close."""

    def spent(self) -> list[tuple[BoundKey, Bound, float, float]]:
        """By rate, with its whole bound: how many tokens this node's part lacks of being full; and how many the whole
        does, if all parts lack as much.
        """
        now = self._clock()
        lacks = ((key, bucket, bucket.burst - bucket.rate.tokens(now)) for key, bucket in self._buckets.items())
        return [
            (key, bucket.bound, tokens, tokens * bucket.bound.burst / bucket.burst)
            for key, bucket, tokens in lacks
            if tokens > 0
        ]

    def _admit(self, request: Request, nodes: Collection[str], now: float) -> Refusal | None:
        member = request.member
        if member in self._stays:
            self._enter(request, nodes, now)
            return None
        for key, bound in request.bounds:
            cap = self._cap(key, bound, nodes)
            if cap is not None and not self._is_rebuilt:
                return Refusal(CAP, key, REBUILD_S)
            if cap is not None and (opens_at := cap.opens_at(now)) > now:
                wait_s = opens_at - now
                return Refusal(CAP, key, wait_s if wait_s < ASK_AGAIN_S else None)
        rates: list[tuple[BoundKey, Rate]] = []
        for key, bound in request.bounds:
            if bound.rate_per_s is None:
                continue
            rate = self._rate(key, bound, nodes, now)
            if rate is None:
                return Refusal(RATE, key, ASK_AGAIN_S)
            if (opens_at := rate.opens_at(now)) > now:
                return Refusal(RATE, key, opens_at - now)
            rates.append((key, rate))
        for _, rate in rates:
            rate.enter(member, now)
        self._enter(request, nodes, now).spent = tuple(key for key, _ in rates)
        return None

    def _enter(self, request: Request, nodes: Collection[str], now: float) -> _Stay:
        """It is in, whatever any limit says: its lease begins anew."""
        member = request.member
        keys = []
        for key, bound in request.bounds:
            cap = self._cap(key, bound, nodes)
            if cap is not None:
                cap.enter(member, now)
                keys.append(key)
        stay = self._stays.get(member)
        if stay is None:
            stay = self._stays[member] = _Stay(0.0, (), ())
        stay.ends_at = now + self._lease_s
        stay.caps = tuple(dict.fromkeys((*stay.caps, *keys)))
        self._stays.move_to_end(member)
        return stay

    def _cap(self, key: BoundKey, bound: Bound, nodes: Collection[str]) -> Cap | None:
        if bound.max_in_flight is None:
            return None
        limit = self._part_of_cap(key, bound.max_in_flight, nodes)
        cap = self._caps.get(key)
        if cap is None:
            cap = self._caps[key] = Cap(limit, lease_s=self._lease_s)
        cap.limit = limit
        return cap

    def _part_of_cap(self, key: BoundKey, limit: int, nodes: Collection[str]) -> int:
        return limit if len(nodes) == 1 else part_of(limit, of=str(key), node=self._node, nodes=nodes)

    def _rate(self, key: BoundKey, bound: Bound, nodes: Collection[str], now: float) -> Rate | None:
        """None: another node has all of it."""
        assert bound.rate_per_s is not None  # the caller has looked
        per_s, burst = bound.rate_per_s, bound.burst
        if len(nodes) > 1:
            per_s, burst = rate_part(per_s, burst, of=str(key), node=self._node, nodes=nodes)
        if not burst or per_s < SLOWEST_PER_S:
            return None
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(bound, per_s, burst, Rate(per_s, burst))
            bucket.rate.empty(self._began_at)
        elif (bucket.per_s, bucket.burst) != (per_s, burst):
            before = bucket.rate.tokens(now)
            bucket.rate.change(per_s, burst, now)
            if bucket.bound == bound:  # a part that grows has no more tokens for it: the node that had it may have none
                bucket.rate.take(now, ceil(bucket.rate.tokens(now) - before))
            bucket.per_s, bucket.burst = per_s, burst
        bucket.bound = bound
        return bucket.rate

    def _alive(self) -> Collection[str]:
        nodes = self._nodes()
        return nodes if self._node in nodes else {*nodes, self._node}

    def _drop_ended(self, now: float) -> None:
        while self._stays and next(iter(self._stays.values())).ends_at <= now:
            member, stay = self._stays.popitem(last=False)
            self._leave_caps(member, stay)

    def _leave_caps(self, member: str, stay: _Stay) -> None:
        for key in stay.caps:
            if key in self._caps:
                self._caps[key].leave(member)

    def _forget_idle(self, now: float) -> None:
        """Full buckets and empty caps would be made anew as they are."""
        self._caps = {key: cap for key, cap in self._caps.items() if len(cap)}
        self._buckets = {key: kept for key, kept in self._buckets.items() if kept.rate.tokens(now) < kept.burst}
