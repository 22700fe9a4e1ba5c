"""What tenants have to do with why something waits: their limits, how they stand with the nodes, workers and queues."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta

from django.db.models import Count, Q, Sum

from fairness import standings
from fairness.core.admission import BUDGET, CAP, RATE
from fairness.core.terms import Bound, BoundKey, Terms
from fairness.explain import Gate, Pace, Place
from fairness.models import Tenant, TenantQueue, WorkerReport
from fairness.queues import choices
from fairness.standings import Stands
from scheduling.core.why import Consumers, Moment, TenantLine
from scheduling.store.connection import Connection
from scheduling.store.explain import SHOWN, Holder, read_running, read_slots

REPORT_S = 10.0  # a worker that has not reported for so long is gone
LONG_AGO = timedelta(days=1)
_SHARED = re.compile(r"\.(\d+)-of-(\d+)\.")


def terms_of(tenant: Tenant) -> Terms:
    """As its rows have them."""
    bounds = {
        (row.lane, row.task): Bound(row.rate_per_s, row.burst, row.max_in_flight, row.is_strict)
        for row in tenant.limits.all()
    }
    bounds["", ""] = Bound(tenant.rate_per_s, tenant.burst, tenant.max_in_flight, tenant.is_strict)
    return Terms(
        tenant_id=tenant.pk,
        slug=tenant.slug,
        weight=tenant.weight,
        transactional_weight=tenant.transactional_weight,
        daily_fires=tenant.daily_fires,
        bounds=bounds,
    )


@dataclass(slots=True)
class _Lane:
    """Who waits in a lane, with all nodes together: weights, and when each was served last."""

    weights: dict[int, float] = field(default_factory=dict)
    served: dict[int, datetime] = field(default_factory=dict)
    in_turn: list[datetime] = field(default_factory=list)

    def add(self, row: Stands, never: datetime) -> None:
        self.weights[row.tenant_id] = row.weight
        last = self.served.get(row.tenant_id, never)
        self.served[row.tenant_id] = max(last, row.granted_at or never)

    def ranked(self, place: Place, tenant: int) -> Place:
        """Among those that wait, by when each was served last."""
        if tenant not in self.served:
            return place
        if not self.in_turn:
            self.in_turn = sorted(self.served.values())
        rank = 1 + bisect_left(self.in_turn, self.served[tenant])
        return Place(ahead=place.ahead, is_least=place.is_least, rank=rank, tenants=len(self.served))


class Tenants:
    """Of one explanation: each thing is read once. ``shards``: all there are."""

    def __init__(
        self,
        connection: Connection,
        *,
        tenants: Collection[int],
        lanes: Collection[str],
        shards: Sequence[int],
        now: Moment,
    ) -> None:
        self._connection, self._shards, self._now = connection, shards, now
        found = Tenant.objects.filter(pk__in=tenants).prefetch_related("limits")
        self._terms = {tenant.pk: terms_of(tenant) for tenant in found}
        self._stands: dict[tuple[int, str], list[Stands]] = defaultdict(list)
        self._lanes: dict[str, _Lane] = defaultdict(_Lane)
        for row in standings.read(connection, lanes):
            self._stands[row.tenant_id, row.lane].append(row)
            if row.waiting:
                self._lanes[row.lane].add(row, now.real - LONG_AGO)
        live = Q(seen_at__gt=now.real - timedelta(seconds=REPORT_S), is_leaving=False)
        known = WorkerReport.objects.aggregate(
            all=Count("*"), live=Count("name", filter=live), slots=Sum("slots", filter=live)
        )
        self._workers: int | None = known["live"] if known["all"] else None
        self._slots: int = known["slots"] or 0
        self._queues: dict[tuple[int | None, str], list[tuple[str, bool]]] = defaultdict(list)
        rows = TenantQueue.objects.filter(Q(tenant=None) | Q(tenant__in=tenants), lane__in=lanes)
        for name, tenant, lane, retired_at in rows.values_list("name", "tenant", "lane", "retired_at"):
            self._queues[tenant, lane].append((name, retired_at is None))
        self._runs: dict[int, list[Holder]] = {}
        self._slots_of: dict[int, list[Holder]] = {}

    def waits_with(self, node: str, tenant: int, lane: str) -> bool:
        """Whether this node has said lately that something of the tenant's lane waits with it."""
        return any(row.node == node and row.waiting for row in self._stands[tenant, lane])

    def line(self, tenant: int, lane: str, task: str, *, node: str, place: Place) -> TenantLine:
        """``node``: that owns the shard. Where it says how the tenant stands with it, that counts; else all do."""
        rows = self._stands[tenant, lane]
        near = [row for row in rows if row.node == node and row.waiting] or rows
        waiting = [row for row in near if row.waiting]
        in_flight = sum(row.in_flight for row in rows)
        running = sum(holder.lane == lane for holder in self._running(tenant)) if in_flight else 0
        return TenantLine(
            tenant=self._terms[tenant].slug,
            lane=lane,
            place=self._lanes[lane].ranked(place, tenant),
            pace=self._pace(near, rows, tenant, lane, queued=max(0, in_flight - running)),
            gates=self._gates(tenant, lane, task, near, in_flight),
            holds_up=min(row.reason for row in waiting) if waiting else None,  # its turn, if it is that anywhere
            in_flight=in_flight,
        )

    def consumers(self, tenant: int, lane: str) -> Consumers:
        slug = self._terms[tenant].slug
        own = self._queues[tenant, lane]
        shared = [(name, in_use) for name, in_use in self._queues[None, lane] if _is_one_of(slug, name)]
        names = [name for name, in_use in own or shared if in_use]
        return Consumers(workers=self._workers, queues=names, in_use=bool(names or not own))

    def _pace(self, near: Sequence[Stands], rows: Sequence[Stands], tenant: int, lane: str, *, queued: int) -> Pace:
        weights = self._lanes[lane].weights
        part = weights[tenant] / sum(weights.values()) if tenant in weights else 0.0
        nodes = sum(row.waiting > 0 for row in near) / max(1, sum(row.waiting > 0 for row in rows))
        return Pace(
            starts_per_s=sum(row.starts_per_s for row in near),
            mean_s=max((row.mean_s for row in near), default=0.0),
            slots=self._slots * part * nodes,
            queued=int(queued * nodes),
        )

    def _gates(self, tenant: int, lane: str, task: str, near: Sequence[Stands], in_flight: int) -> list[Gate]:
        """Of what applies to it: the budget, the tightest cap, the tightest rate."""
        terms = self._terms[tenant]
        bounds = terms.bounds_of(lane, task)
        gates = []
        if terms.daily_fires is not None:
            gates.append(self._budget(terms.daily_fires))
        if caps := [(bound.max_in_flight, key, bound) for key, bound in bounds if bound.max_in_flight is not None]:
            _, key, bound = min(caps, key=lambda cap: cap[0])
            holders = self._holders(tenant, key, bound)
            count = len(holders) if bound.is_strict or key[2] else max(in_flight, len(holders))
            held_by = [str(holder) for holder in holders[:SHOWN]]
            gates.append(Gate(reason=CAP, key=key, bound=bound, holders=count, held_by=held_by))
        if rates := [(bound.rate_per_s, key, bound) for key, bound in bounds if bound.rate_per_s is not None]:
            _, key, bound = min(rates, key=lambda rate: rate[0])
            until = min((row.until for row in near if row.reason == RATE and row.until is not None), default=None)
            gates.append(Gate(reason=RATE, key=key, bound=bound, until=until))
        return gates

    def _budget(self, daily: int) -> Gate:
        """Until the next day of the job clock begins."""
        today = self._now.job
        midnight = datetime.combine(today.date() + timedelta(days=1), time(0), today.tzinfo)
        speed = self._now.lapse.speed if self._now.lapse else 1.0
        return Gate(reason=BUDGET, until=self._now.real_of(midnight), daily=daily, day_s=86_400 / speed)

    def _holders(self, tenant: int, key: BoundKey, bound: Bound) -> list[Holder]:
        """Who has the places under a strict cap; of another one what runs under it."""
        _, lane, task = key
        if not bound.is_strict:
            return [h for h in self._running(tenant) if lane in ("", h.lane) and task in ("", h.task)]
        if tenant not in self._slots_of:
            self._slots_of[tenant] = read_slots(self._connection, tenant)
        return [holder for holder in self._slots_of[tenant] if (holder.lane, holder.task) == (lane, task)]

    def _running(self, tenant: int) -> list[Holder]:
        if tenant not in self._runs:
            self._runs[tenant] = read_running(self._connection, tenant, shards=self._shards)
        return self._runs[tenant]


def _is_one_of(slug: str, queue: str) -> bool:
    """Whether this shared queue is one of the tenant's two."""
    found = _SHARED.search(queue)
    return found is not None and int(found[1]) in choices(slug, int(found[2]))
