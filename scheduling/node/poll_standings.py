"""How limited tenants stand at stop 2: what pages and explanations know of those who wait for a limit.

A poller tells what it has seen; how many wait is counted in Postgres, up to so many. Tenants without limits never wait
here, and are not told of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fairness.core.admission import BUDGET, Refusal
from fairness.core.standing import GRANTS_KEPT, Grant, TenantStanding
from fairness.core.terms import Terms
from scheduling.core.fire import Fire
from scheduling.core.throughput import SPAN_S, Throughput

TenantLane = tuple[int, str]


@dataclass(slots=True)
class _Lane:
    """One tenant's, as this poller has seen it."""

    per_s: Throughput
    seen_at: float
    reason: str = ""
    until: float | None = None
    starts: int = 0
    throttled: int = 0
    grants: list[tuple[Fire, float]] = field(default_factory=list)  # the newest last


class PollStandings:
    """Times are monotonic seconds."""

    def __init__(self, now: float) -> None:
        self._lanes: dict[TenantLane, _Lane] = {}
        self._told_at = now

    def went(self, fire: Fire, now: float) -> None:
        lane = self._lane(fire, now)
        lane.per_s.add(now)
        lane.starts += 1
        lane.grants.append((fire, now))

    def throttled(self, fire: Fire, refusal: Refusal | None, now: float) -> None:
        """A limit has said: later; or (None) it waits behind others of whom it has."""
        lane = self._lane(fire, now)
        lane.throttled += 1
        if refusal is not None:
            lane.reason = refusal.reason
            lane.until = None if refusal.after_s is None else now + refusal.after_s

    def told(
        self,
        now: float,
        *,
        terms: Mapping[int, Terms],
        in_flight: Iterable[Fire],
        waiting: Mapping[TenantLane, int],
    ) -> list[TenantStanding]:
        """All of them; what is counted begins anew."""
        flying = Counter(_key(fire) for fire in in_flight)
        since_s, self._told_at = now - self._told_at, now
        for key in [key for key, lane in self._lanes.items() if lane.seen_at < now - SPAN_S]:
            if not (flying[key] or waiting.get(key)):
                del self._lanes[key]
        standings = []
        for key in self._lanes.keys() | flying.keys() | waiting.keys():
            tenant, name = key
            if tenant not in terms:
                continue
            lane = self._lanes.get(key) or _Lane(Throughput(now), now)
            holds = bool(waiting.get(key)) and (lane.until is None or lane.until > now or lane.reason != BUDGET)
            reason = lane.reason if holds else ""
            standings.append(
                TenantStanding(
                    tenant_id=tenant,
                    lane=name,
                    weight=terms[tenant].weight_in(name),
                    waiting=waiting.get(key, 0),
                    in_flight=flying[key],
                    reason=reason,
                    until_s=max(0.0, lane.until - now) if holds and lane.until is not None else None,
                    starts_per_s=lane.per_s.per_s(now),
                    starts=lane.starts,
                    throttled=lane.throttled,
                    backlogged_s=since_s if waiting.get(key) and not (reason or lane.throttled) else 0.0,
                    grants=[
                        Grant(fire_id=fire.id, ago_s=now - at) for fire, at in lane.grants[: -GRANTS_KEPT - 1 : -1]
                    ],
                )
            )
            lane.starts = lane.throttled = 0
            lane.grants.clear()
        return standings

    def _lane(self, fire: Fire, now: float) -> _Lane:
        lane = self._lanes.get(_key(fire))
        if lane is None:
            lane = self._lanes[_key(fire)] = _Lane(Throughput(now), now)
        lane.seen_at = now
        return lane


def _key(fire: Fire) -> TenantLane:
    return fire.work.tenant_id, str(fire.work.lane)
