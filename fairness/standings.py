"""What nodes write of how tenants stand, and of what they were served: rows for pages, metrics and explanations.

A standing (``Standing``) is how things are; it is written over. What was served (``ServedShare``) is added up by the
minute, of all nodes together, so each node tells each figure once. Both are kept for a day.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from fairness.core.standing import GRANTS_KEPT, TenantStanding

Connection = psycopg.Connection[Any]
FRESH_S = 15  # what was written longer ago says nothing of now

# In the order of tenants and lanes: nodes that add to the same minute at once must not wait for each other in a ring.
# Two nodes may both say that a tenant has waited: its time counts once, as told by the first of them.
_WRITE = f"""
WITH told AS MATERIALIZED (
    SELECT w.* FROM unnest(
        %(tenants)s::bigint[], %(lanes)s::text[], %(weight)s::float8[], %(waiting)s::int[], %(in_flight)s::int[],
        %(reasons)s::text[], %(until_s)s::float8[], %(oldest_s)s::float8[], %(starts_per_s)s::float8[],
        %(served_per_s)s::float8[], %(mean_s)s::float8[], %(starts)s::int[], %(served_s)s::float8[],
        %(throttled)s::int[], %(refused)s::int[], %(backlogged_s)s::float8[]
    ) AS w(tenant_id, lane, weight, waiting, in_flight, reason, until_s, oldest_s, starts_per_s, served_per_s, mean_s,
           starts, served_s, throttled, refused, backlogged_s)
    JOIN fairness_tenant t ON t.id = w.tenant_id
), granted AS MATERIALIZED (
    SELECT tenant_id, lane, jsonb_agg(
        jsonb_build_array(fire_id, statement_timestamp() - ago_s * interval '1 second') ORDER BY ago_s
    ) AS grants
    FROM unnest(%(granted_tenants)s::bigint[], %(granted_lanes)s::text[], %(granted)s::uuid[], %(ago_s)s::float8[])
        AS g(tenant_id, lane, fire_id, ago_s)
    GROUP BY tenant_id, lane
), stands AS (
    INSERT INTO fairness_standing AS s (
        node, tenant_id, lane, at, waiting, in_flight, reason, until, weight, starts_per_s, served_per_s, mean_s,
        oldest_at, grants)
    SELECT %(node)s, w.tenant_id, w.lane, statement_timestamp(), w.waiting, w.in_flight, w.reason,
        statement_timestamp() + w.until_s * interval '1 second', w.weight, w.starts_per_s, w.served_per_s, w.mean_s,
        statement_timestamp() - w.oldest_s * interval '1 second', coalesce(g.grants, '[]')
    FROM told w LEFT JOIN granted g USING (tenant_id, lane)
    ON CONFLICT (node, tenant_id, lane) DO UPDATE
    SET at = excluded.at, waiting = excluded.waiting, in_flight = excluded.in_flight, reason = excluded.reason,
        until = excluded.until, weight = excluded.weight, starts_per_s = excluded.starts_per_s,
        served_per_s = excluded.served_per_s, mean_s = excluded.mean_s, oldest_at = excluded.oldest_at,
        grants = CASE WHEN excluded.grants = '[]' THEN s.grants
            ELSE jsonb_path_query_array(excluded.grants || s.grants, '$[0 to {GRANTS_KEPT - 1}]') END
), idle AS (
    UPDATE fairness_standing s
    SET at = statement_timestamp(), waiting = 0, in_flight = 0, reason = '', until = NULL, starts_per_s = 0,
        served_per_s = 0, oldest_at = NULL
    WHERE s.node = %(node)s AND (s.waiting > 0 OR s.in_flight > 0 OR s.starts_per_s > 0 OR s.served_per_s > 0)
      AND NOT EXISTS (SELECT FROM told w WHERE (w.tenant_id, w.lane) = (s.tenant_id, s.lane))
), forgotten AS (
    DELETE FROM fairness_standing WHERE id IN (
        SELECT id FROM fairness_standing WHERE node <> %(node)s AND at < statement_timestamp() - interval '1 day'
        LIMIT 1000 FOR UPDATE SKIP LOCKED)
), over AS (
    DELETE FROM fairness_servedshare WHERE id IN (
        SELECT id FROM fairness_servedshare WHERE minute < statement_timestamp() - interval '1 day'
        ORDER BY minute LIMIT 10000 FOR UPDATE SKIP LOCKED)
)
INSERT INTO fairness_servedshare AS s (
    minute, tenant_id, lane, weight, served_s, starts, throttled, refused, backlogged_s)
SELECT date_trunc('minute', statement_timestamp()), w.tenant_id, w.lane, w.weight, w.served_s, w.starts, w.throttled,
    w.refused, CASE WHEN w.backlogged_s > 0 AND EXISTS (
        SELECT FROM fairness_standing o
        WHERE (o.tenant_id, o.lane) = (w.tenant_id, w.lane) AND o.node < %(node)s AND o.waiting > 0
          AND o.at > statement_timestamp() - interval '10 seconds'
    ) THEN 0 ELSE w.backlogged_s END
FROM told w
WHERE w.served_s > 0 OR w.starts > 0 OR w.throttled > 0 OR w.refused > 0 OR w.backlogged_s > 0
ORDER BY w.tenant_id, w.lane
ON CONFLICT (minute, tenant_id, lane) DO UPDATE
SET weight = excluded.weight, served_s = s.served_s + excluded.served_s, starts = s.starts + excluded.starts,
    throttled = s.throttled + excluded.throttled, refused = s.refused + excluded.refused,
    backlogged_s = least(s.backlogged_s + excluded.backlogged_s, 60)
"""

_REFUSED = """
INSERT INTO fairness_servedshare AS s (
    minute, tenant_id, lane, weight, served_s, starts, throttled, refused, backlogged_s)
SELECT date_trunc('minute', statement_timestamp()), id, %(lane)s, weight, 0, 0, 0, %(count)s, 0
FROM fairness_tenant WHERE id = %(tenant)s
ON CONFLICT (minute, tenant_id, lane) DO UPDATE SET refused = s.refused + excluded.refused
"""


_FRESH = f"""
SELECT node, tenant_id, lane, waiting, in_flight, reason, until, weight, starts_per_s, mean_s,
    (grants -> 0 ->> 1)::timestamptz
FROM fairness_standing
WHERE at > statement_timestamp() - interval '{FRESH_S} seconds' AND (waiting > 0 OR in_flight > 0 OR starts_per_s > 0)
  AND lane = ANY (%(lanes)s::text[])
"""


@dataclass(frozen=True, slots=True)
class Stands:
    """How a tenant's lane stands with a node, as it was written lately."""

    node: str
    tenant_id: int
    lane: str
    waiting: int
    in_flight: int
    reason: str
    until: datetime | None
    weight: float
    starts_per_s: float
    mean_s: float
    granted_at: datetime | None  # the last time


def read(connection: Connection, lanes: Collection[str]) -> list[Stands]:
    """All that nodes have said of these lanes lately.

    Raises psycopg.Error.
    """
    return [Stands(*row) for row in connection.execute(_FRESH, {"lanes": list(lanes)})]


def write(connection: Connection, node: str, rows: Sequence[TenantStanding]) -> None:
    """How all stand with this node: whoever is left out has nothing any more. Tenants that are gone are passed over.

    Raises psycopg.Error: nothing was written.
    """
    columns = {
        "tenants": [row.tenant_id for row in rows],
        "lanes": [row.lane for row in rows],
        "reasons": [row.reason for row in rows],
        **{name: [getattr(row, name) for row in rows] for name in _COUNTS},
        **{name: [_float(getattr(row, name)) for row in rows] for name in _FLOATS},
    }
    grants = [(row.tenant_id, row.lane, grant) for row in rows for grant in row.grants[:GRANTS_KEPT]]
    granted = {
        "granted_tenants": [tenant for tenant, _, _ in grants],
        "granted_lanes": [lane for _, lane, _ in grants],
        "granted": [grant.fire_id for _, _, grant in grants],
        "ago_s": [grant.ago_s for _, _, grant in grants],
    }
    connection.execute(_WRITE, {"node": node, **columns, **granted})


def count_refused(connection: Connection, tenant_id: int, count: int = 1, *, lane: str = "bulk") -> None:
    """So many jobs were refused by its quota. (What is rolled back was not counted.)

    Raises psycopg.Error.
    """
    connection.execute(_REFUSED, {"tenant": tenant_id, "count": count, "lane": lane})


_COUNTS = ("waiting", "in_flight", "starts", "throttled", "refused")
_FLOATS = ("weight", "until_s", "oldest_s", "starts_per_s", "served_per_s", "mean_s", "served_s", "backlogged_s")


def _float(value: float | None) -> float | None:
    """psycopg dumps no list in which a whole number is among others."""
    return None if value is None else float(value)
