"""What tenants were served, against what their weights say, over a window that ends now: for pages and metrics.

From the minutes that nodes add up (``ServedShare``), of which the first counts in part, and from how tenants stand now
(``Standing``). Jain's index of a lane is over the tenants that had something waiting all the while that no limit held:
whoever had nothing to do, or is over his own limit, was not treated unfairly. All is as fresh as what nodes write,
which is a few seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

from fairness.core.shares import jain
from fairness.standings import FRESH_S

WINDOW_S = 60.0
LONGEST_S = 86_400.0  # what was served is kept for so long
THROUGHOUT = 0.9  # of the window: what is told of a backlog is a few seconds behind at either end

_SERVED = """
SELECT s.tenant_id, s.lane, (array_agg(s.weight ORDER BY s.minute DESC))[1], sum(s.served_s * p.part),
    sum(s.starts * p.part), sum(s.throttled * p.part), sum(s.refused * p.part), sum(s.backlogged_s * p.part)
FROM fairness_servedshare s
CROSS JOIN LATERAL (  -- the current minute has its end still to come, and the first its beginning behind it
    SELECT least(1, extract(epoch FROM least(s.minute + interval '1 minute', statement_timestamp())
        - greatest(s.minute, statement_timestamp() - %(window)s * interval '1 second'))
      / greatest(extract(epoch FROM least(s.minute + interval '1 minute', statement_timestamp()) - s.minute), 0.001)
    )::float8 AS part
) AS p
WHERE s.minute > statement_timestamp() - %(window)s * interval '1 second' - interval '1 minute'
  AND (%(tenants)s::bigint[] IS NULL OR s.tenant_id = ANY (%(tenants)s::bigint[]))
GROUP BY s.tenant_id, s.lane
"""

_STANDING = f"""
SELECT tenant_id, lane, max(weight), sum(waiting), sum(in_flight), sum(starts_per_s), sum(served_per_s), max(mean_s),
    min(reason) FILTER (WHERE waiting > 0), min(until),
    extract(epoch FROM statement_timestamp() - min(oldest_at))::float8
FROM fairness_standing
WHERE at > statement_timestamp() - interval '{FRESH_S} seconds'
  AND (%(tenants)s::bigint[] IS NULL OR tenant_id = ANY (%(tenants)s::bigint[]))
GROUP BY tenant_id, lane
"""


@dataclass(slots=True)
class Observed:
    """One tenant's lane. ``share`` and ``due`` are parts of the lane's whole, from 0 to 1."""

    tenant_id: int
    tenant: str
    lane: str
    weight: float = 1.0
    served_s: float = 0.0  # slot-seconds, in the window
    starts: float = 0.0
    throttled: float = 0.0  # times that a limit said: later
    refused: float = 0.0
    backlogged_s: float = 0.0
    waiting: int = 0  # now, with the nodes
    in_flight: int = 0
    starts_per_s: float = 0.0
    served_per_s: float = 0.0
    mean_s: float = 0.0
    reason: str | None = None  # what holds the first that waits: None: nothing waits; empty: its turn
    until: datetime | None = None
    backlog_age_s: float | None = None  # for so long the oldest that waits has been due
    is_backlogged: bool = False  # throughout the window
    share: float = 0.0  # of what was served in the lane
    due: float = 0.0  # by its weight, among those that were served, or have something waiting


@dataclass(frozen=True, slots=True)
class Shares:
    """``jain`` by lane; a lane is left out where nobody had something waiting throughout."""

    window_s: float
    rows: Sequence[Observed]
    jain: Mapping[str, float] = field(default_factory=dict)


def observe(
    *, window_s: float = WINDOW_S, tenants: Mapping[int, str] | None = None, using: str = DEFAULT_DB_ALIAS
) -> Shares:
    """All tenants that were served, or stand with a node; or some, by id with their slugs.

    Of some alone no shares can be told: they are parts of all, and 0 then.

    Raises ValueError for a window that is not from above 0 to a day.
    """
    if not 0 < window_s <= LONGEST_S:
        raise ValueError(f"window_s {window_s!r}: must be above 0, and at most a day ({LONGEST_S:g})")
    asked = {"window": window_s, "tenants": None if tenants is None else list(tenants)}
    with connections[using].cursor() as cursor:
        cursor.execute(_SERVED, asked)
        served = cursor.fetchall()
        cursor.execute(_STANDING, asked)
        standing = cursor.fetchall()
        slugs = dict(tenants) if tenants is not None else _slugs(cursor, {row[0] for row in [*served, *standing]})
    rows = _joined(served, standing, slugs)
    for row in rows:
        row.is_backlogged = row.backlogged_s >= THROUGHOUT * window_s
    if tenants is None:
        _share(rows)
    return Shares(window_s, rows, _jain(rows))


def _slugs(cursor: Any, tenants: Collection[int]) -> dict[int, str]:
    cursor.execute("SELECT id, slug FROM fairness_tenant WHERE id = ANY (%s)", [list(tenants)])
    return dict(cursor.fetchall())


def _joined(served: Iterable[Any], standing: Iterable[Any], slugs: Mapping[int, str]) -> list[Observed]:
    found: dict[tuple[int, str], Observed] = {}
    for tenant, lane, *values in served:
        if tenant in slugs:
            found[tenant, lane] = Observed(tenant, slugs[tenant], lane, *values)
    for tenant, lane, weight, waiting, in_flight, starts, per_s, mean_s, reason, until, age_s in standing:
        if tenant not in slugs:
            continue  # deleted just now
        row = found.setdefault((tenant, lane), Observed(tenant, slugs[tenant], lane))
        row.weight, row.waiting, row.in_flight = weight, waiting, in_flight
        row.starts_per_s, row.served_per_s, row.mean_s = starts, per_s, mean_s
        row.reason, row.until, row.backlog_age_s = reason, until, None if age_s is None else max(0.0, age_s)
    return sorted(found.values(), key=lambda row: (row.tenant, row.lane))


def _share(rows: Sequence[Observed]) -> None:
    lanes: dict[str, list[Observed]] = defaultdict(list)
    for row in rows:
        if row.served_s > 0 or row.waiting:
            lanes[row.lane].append(row)
    for some in lanes.values():
        served, weights = sum(row.served_s for row in some), sum(row.weight for row in some)
        for row in some:
            row.share = row.served_s / served if served else 0.0
            row.due = row.weight / weights


def _jain(rows: Sequence[Observed]) -> dict[str, float]:
    lanes: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.is_backlogged:
            lanes[row.lane].append(row.served_s / row.weight)
    return {lane: jain(values) for lane, values in sorted(lanes.items())}


METRICS = {
    "served_slot_seconds": ("served_s", "Slot-seconds served in the window."),
    "share": ("share", "Part of what was served in the lane."),
    "share_due": ("due", "Its part by weight."),
    "weight": ("weight", "Weight in the lane."),
    "starts": ("starts", "Fires started in the window."),
    "throttled": ("throttled", "Times in the window that a limit said: later."),
    "refused": ("refused", "Jobs or fires refused in the window."),
    "waiting": ("waiting", "Fires that nodes hold for their turn."),
    "in_flight": ("in_flight", "Fires with the broker and the workers."),
    "backlog_age_seconds": ("backlog_age_s", "For how long the oldest that waits has been due."),
}


def as_metrics(found: Shares) -> str:
    """In Prometheus' text format: gauges of the window, since a window slides."""
    return "\n".join([*_metric_lines(found), ""])


def _metric_lines(found: Shares) -> Iterator[str]:
    for name, (column, about) in METRICS.items():
        yield f"# HELP fairbeat_tenant_{name} {about}"
        yield f"# TYPE fairbeat_tenant_{name} gauge"
        for row in found.rows:
            value = getattr(row, column) or 0
            yield f'fairbeat_tenant_{name}{{tenant="{row.tenant}",lane="{row.lane}"}} {value:.6g}'
    yield "# HELP fairbeat_jain_index Of what tenants with a backlog were served, over their weights: 1 is fair."
    yield "# TYPE fairbeat_jain_index gauge"
    for lane, index in found.jain.items():
        yield f'fairbeat_jain_index{{lane="{lane}"}} {index:.6g}'
