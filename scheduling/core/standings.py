"""How the lanes of tenants stand with this node: who waits, what is in flight, and what each has had.

Nothing is kept of a lane that has had nothing for a minute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from fairness.core.standing import GRANTS_KEPT, Grant, TenantStanding
from fairness.core.terms import LANES
from scheduling.core.turn import TenantLane, Turn

WINDOW_S, SLICE_S = 60.0, 5.0
LEAST, MOST = 4, 1000  # heads that a node holds of a tenant before it is full
Why = Callable[[TenantLane], tuple[str, float]]  # what holds it, and until when (monotonic seconds)


class Stock(NamedTuple):
    """``heads`` of a tenant wait here; it is served about ``enough`` in a second."""

    heads: int
    enough: int


class Standing:
    """One tenant's lane. Times are monotonic seconds."""

    __slots__ = (
        "_backlogged_s",
        "_backlogged_since",
        "_grants",
        "_second",
        "_slices",
        "began",
        "in_flight",
        "refused",
        "served_s",
        "starts",
        "task",
        "throttled",
        "waiting",
    )

    def __init__(self, now: float) -> None:
        self.waiting: dict[UUID, Turn] = {}
        self.in_flight = 0
        self.began = now
        self.task = ""  # the last that waited
        self.starts = self.throttled = self.refused = 0
        self.served_s = 0.0
        self._grants: deque[tuple[UUID, float]] = deque(maxlen=GRANTS_KEPT)
        self._slices: deque[list[float]] = deque()  # number of the slice, starts, slot-seconds
        self._second = (0, 0, 0)  # number of the second, grants in it, grants in the one before
        self._backlogged_s, self._backlogged_since = 0.0, now

    def wait(self, turn: Turn, now: float) -> None:
        if not self.waiting:
            self._backlogged_since = now
        self.waiting[turn.fire.id] = turn
        self.task = turn.path[2]

    def wait_no_more(self, turn: Turn, now: float) -> None:
        if self.waiting.pop(turn.fire.id, None) is not None and not self.waiting:
            self._backlogged_s += now - self._backlogged_since

    def grant(self, now: float) -> None:
        self.in_flight += 1
        self._second = (int(now), self._granted_in(now) + 1, self._granted_before(now))

    def ungrant(self) -> None:
        self.in_flight -= 1

    def start(self, fires: Sequence[UUID], now: float) -> None:
        """They go to the broker."""
        self.starts += len(fires)
        self._grants.extend([(fire, now) for fire in fires[-GRANTS_KEPT:]])
        self._slice(now)[1] += len(fires)

    def serve(self, cost_s: float, now: float) -> None:
        self.served_s += cost_s
        self._slice(now)[2] += cost_s

    def served_in_a_second(self, now: float) -> int:
        """About so many are granted in a second."""
        return max(self._granted_in(now), self._granted_before(now))

    def _granted_in(self, now: float) -> int:
        return self._second[1] if self._second[0] == int(now) else 0

    def _granted_before(self, now: float) -> int:
        second, granted, before = self._second
        return {int(now): before, int(now) - 1: granted}.get(second, 0)

    def _slice(self, now: float) -> list[float]:
        number = now // SLICE_S
        if not self._slices or self._slices[-1][0] != number:
            self._slices.append([number, 0, 0.0])
        return self._slices[-1]

    def is_idle(self, now: float) -> bool:
        self._drop_old(now)
        return not (self.waiting or self.in_flight or self._slices or self.throttled or self.refused)

    def _drop_old(self, now: float) -> None:
        while self._slices and (self._slices[0][0] + 1) * SLICE_S <= now - WINDOW_S:
            self._slices.popleft()

    def told(
        self,
        key: TenantLane,
        now: float,
        *,
        weight: float,
        mean_s: float,
        why: Why,
        due_at: Callable[[Turn], float],
    ) -> TenantStanding:
        """As it is now; what is counted begins anew."""
        self._drop_old(now)
        over_s = max(1.0, min(WINDOW_S, now - self.began))
        reason, until = why(key) if self.waiting else ("", now)
        if self.waiting:
            self._backlogged_s += now - self._backlogged_since
            self._backlogged_since = now
        told = TenantStanding(
            tenant_id=key[1],
            lane=key[0],
            weight=weight,
            waiting=len(self.waiting),
            in_flight=self.in_flight,
            reason=reason,
            until_s=until - now if now < until < float("inf") else None,
            oldest_s=now - min(map(due_at, self.waiting.values())) if self.waiting else None,
            starts_per_s=sum(slice_[1] for slice_ in self._slices) / over_s,
            served_per_s=sum(slice_[2] for slice_ in self._slices) / over_s,
            mean_s=mean_s,
            starts=self.starts,
            served_s=self.served_s,
            throttled=self.throttled,
            refused=self.refused,
            backlogged_s=0.0 if reason or self.throttled else self._backlogged_s,
            grants=[Grant(fire_id=fire, ago_s=now - at) for fire, at in reversed(self._grants)],
        )
        self._grants.clear()
        self.starts = self.throttled = self.refused = 0
        self.served_s = self._backlogged_s = 0.0
        return told


class Standings:
    """Of all tenants' lanes that have something here. One thread owns it."""

    def __init__(self) -> None:
        self._by_lane: dict[TenantLane, Standing] = {}

    def of(self, key: TenantLane, now: float) -> Standing:
        """Made if need be."""
        found = self._by_lane.get(key)
        if found is None:
            found = self._by_lane[key] = Standing(now)
        return found

    def do_wait(self, tenant: int) -> bool:
        """Whether anything of this tenant waits."""
        lanes = (self._by_lane.get((lane, tenant)) for lane in LANES)
        return any(standing is not None and standing.waiting for standing in lanes)

    def __iter__(self) -> Iterator[tuple[TenantLane, Standing]]:
        return iter(self._by_lane.items())

    def forget_idle(self, now: float) -> None:
        for key in [key for key, standing in self._by_lane.items() if standing.is_idle(now)]:
            del self._by_lane[key]

    def stock(self, now: float) -> dict[int, Stock]:
        """Of the tenants of which anything waits here."""
        waiting: dict[int, list[int]] = {}
        for (_, tenant), standing in self._by_lane.items():
            if standing.waiting:
                sums = waiting.setdefault(tenant, [0, 0])
                sums[0] += len(standing.waiting)
                sums[1] += standing.served_in_a_second(now)
        return {tenant: Stock(heads, min(max(LEAST, served), MOST)) for tenant, (heads, served) in waiting.items()}
