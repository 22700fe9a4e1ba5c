"""Tenants' terms where turns are given: weights in the fair queue, and what has to be asked for before one goes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from math import inf
from typing import Any

from fairness.core.admission import CAP, RATE, Refusal, Request, request_of
from fairness.core.fair_queue import FairQueue
from fairness.core.leases import Leases, Purse
from fairness.core.terms import LANES, Bound, BoundKey, Terms
from scheduling.core.turn import SHARE, Path, TenantLane, Turn
from scheduling.core.turn_gates import Asking

ASK_AGAIN_S = 1.0  # of a cap, where nobody is seen to leave


class TenantTerms:
    """Nothing is known before ``set``. Times are monotonic seconds. One thread owns it."""

    def __init__(self, queue: FairQueue[Turn], *, follows_all: bool) -> None:
        self._queue, self._follows_all = queue, follows_all
        self.is_known = False
        self.guarded: Collection[str] = frozenset()
        self._terms: Mapping[int, Terms] = {}
        self.asking: dict[int, Asking] = {}  # by limited tenant
        self._is_asked: dict[Path, bool] = {}
        self.leases = Leases()
        self._purses: dict[Path, tuple[Purse, ...] | None] = {}
        self._waited_for: set[BoundKey] = set()  # caps under which somebody has to leave
        self._unknown: set[int] = set()  # tenants that wait until their terms are known
        self.has_to_read = False  # since one of those came

    def set(self, terms: Mapping[int, Terms], guarded: Collection[str]) -> bool:
        """Of all tenants, as they are now; and which tasks acquire their fires, so that their end is seen.

        Returns whether some that were known have caps now where they had none: what went before has no place yet.
        """
        before, self._terms = self._terms, terms
        has_new_caps = False
        self.guarded, self.is_known, self.has_to_read = guarded, True, False
        for tenant in [tenant for tenant in self._unknown if tenant in terms]:
            self._unknown.discard(tenant)
            self._ask_again(tenant, ())
        self._is_asked.clear()
        self._purses.clear()
        self.leases.keep_only(self._bound)
        for tenant, new in terms.items():
            if (old := before.get(tenant)) == new:
                continue
            for lane in LANES:
                if new.weight_in(lane) != (1.0 if old is None else old.weight_in(lane)):
                    self._queue.set_weight((lane, tenant), new.weight_in(lane))
            self._limit(tenant, is_limited=new.is_limited)
            if old is not None:
                self._ask_again(tenant, [*old.bounds, *new.bounds])
                has_new_caps |= not _caps(new) <= _caps(old)
        for tenant in before.keys() - terms.keys():
            self._limit(tenant, is_limited=False)
            self._ask_again(tenant, before[tenant].bounds)
            for lane in LANES:
                if not self._queue.waiting((lane, tenant)):
                    self._queue.forget((lane, tenant))
        return has_new_caps

    def _limit(self, tenant: int, *, is_limited: bool) -> None:
        if is_limited and tenant not in self.asking:
            self.asking[tenant] = gate = Asking()
            for lane in LANES:
                self._queue.set_gates((lane, tenant), [gate])
        elif not is_limited and self.asking.pop(tenant, None) is not None:
            for lane in LANES:
                self._queue.set_gates((lane, tenant), [])

    def _ask_again(self, tenant: int, parts: Collection[tuple[str, str]]) -> None:
        """Its terms have changed: whatever they held may go now."""
        for lane, task in dict.fromkeys([("", ""), *parts]):
            self._unpark((tenant, lane, task))

    def knows(self, tenants: Iterable[int]) -> bool:
        """All of these."""
        return all(tenant in self._terms for tenant in tenants)

    def meet(self, tenant: int) -> bool:
        """Whether its terms are known; else nothing of it goes until they are: it may have limits."""
        if tenant in self._terms:
            return True
        if self.is_known and tenant not in self._unknown:
            self._unknown.add(tenant)
            self.has_to_read = True
            for lane in LANES:
                self._queue.park((lane, tenant), inf, SHARE)
        return False

    def weight(self, key: TenantLane) -> float:
        terms = self._terms.get(key[1])
        return 1.0 if terms is None else terms.weight_in(key[0])

    def is_asked_for(self, path: Path) -> bool:
        """Whether anything limits this task of this tenant in this lane."""
        if path[1] not in self.asking:
            return False
        found = self._is_asked.get(path)
        if found is None:
            terms = self._terms[path[1]]
            found = self._is_asked[path] = bool(terms.bounds_of(path[0], path[2])) or terms.daily_fires is not None
        return found

    def tokens(self, path: Path, now: float) -> tuple[Purse, ...] | None:
        """A token of each of its limits, out of what this node has in hand; None: there are none, it has to be asked.

        Only of what ``is_asked_for``.
        """
        purses = self._purses_of(path)
        return purses if purses is not None and self.leases.spend(purses, 1, now) else None

    def spend(self, path: Path, most: int, now: float) -> int:
        """For how many of its fires, at most so many, there are ``tokens``; these are spent."""
        purses = self._purses_of(path)
        return 0 if purses is None else self.leases.spend(purses, most, now)

    def _purses_of(self, path: Path) -> tuple[Purse, ...] | None:
        if path not in self._purses:
            lane, tenant, task = path
            terms = self._terms[tenant]
            bounds = () if terms.daily_fires is not None else terms.bounds_of(lane, task)
            is_seen = self._follows_all or task in self.guarded
            self._purses[path] = self.leases.purses(bounds, is_seen=is_seen)
        return self._purses[path]

    def _bound(self, key: BoundKey) -> Bound | None:
        terms = self._terms.get(key[0])
        return None if terms is None else terms.bounds.get(key[1:])

    def request(self, turn: Turn) -> Request:
        lane, tenant, task = turn.path
        return request_of(str(turn.fire.id), self._terms[tenant], lane=lane, task=task)

    def park(self, refusal: Refusal, now: float) -> None:
        """Whatever this limit holds waits until the time that it named, or until somebody leaves."""
        if refusal.after_s is None:
            self._waited_for.add(refusal.key)
        until = now + (ASK_AGAIN_S if refusal.after_s is None else refusal.after_s)
        for path in _paths(refusal.key):
            self._queue.park(path, until, refusal.reason)

    def has_parts(self, tenant: int) -> bool:
        """Whether anything limits a lane or a task of it."""
        return tenant in self.asking and any(lane or task for lane, task in self._terms[tenant].bounds)

    def is_apart(self, path: Path) -> bool:
        """Whether a limit holds this that does not hold all of its tenant's."""
        if self._is_held(path):
            return True
        return self._is_held(path[:2]) and not all(self._is_held((lane, path[1])) for lane in LANES)

    def _is_held(self, path: tuple[Any, ...]) -> bool:
        """By a limit, and as such."""
        return self._queue.is_parked(path) and self._queue.why(path)[0] in (RATE, CAP)

    def left(self, request: Request) -> None:
        """A place is free: whoever waits for it asks again."""
        for key, _ in request.bounds if self._waited_for else ():
            if key in self._waited_for:
                self._waited_for.discard(key)
                self._unpark(key)

    def _unpark(self, key: BoundKey) -> None:
        for path in _paths(key):
            self._queue.unpark(path)


def _paths(key: BoundKey) -> Iterator[tuple[Any, ...]]:
    tenant, lane, task = key
    for each in [lane] if lane else LANES:
        yield (each, tenant, task) if task else (each, tenant)


def _caps(terms: Terms) -> set[tuple[str, str]]:
    return {part for part, bound in terms.bounds.items() if bound.max_in_flight is not None}


def is_capped(request: Request) -> bool:
    """Whether it holds a place until it is over."""
    return any(bound.max_in_flight is not None for _, bound in request.bounds)
