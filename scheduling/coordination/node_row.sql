-- What changes who may own what tells the other nodes so, with this node's name.

-- name: join
WITH joined AS (
    INSERT INTO scheduling_node AS n (id, region, weight, started_at, lease_until, fires, latency)
    VALUES (%(node)s, %(region)s, %(weight)s, clock_timestamp(), clock_timestamp() + %(lease_s)s * interval '1 second', 0, '{}')
    ON CONFLICT (id) DO UPDATE SET region = excluded.region, weight = excluded.weight, started_at = excluded.started_at,
        lease_until = excluded.lease_until, fires = 0, latency = '{}'
)
SELECT pg_notify(%(channel)s, %(node)s)

-- name: renew
UPDATE scheduling_node SET lease_until = clock_timestamp() + %(lease_s)s * interval '1 second' WHERE id = %(node)s

-- name: release
WITH freed AS (
    UPDATE scheduling_shard SET owner_id = NULL WHERE id = ANY (%(shards)s::smallint[]) AND owner_id = %(node)s RETURNING id
)
SELECT pg_notify(%(channel)s, %(node)s) WHERE EXISTS (SELECT FROM freed)

-- name: leave
WITH freed AS (
    UPDATE scheduling_shard SET owner_id = NULL WHERE owner_id = %(node)s
), ended AS (
    UPDATE scheduling_node SET lease_until = clock_timestamp() WHERE id = %(node)s
)
SELECT pg_notify(%(channel)s, %(node)s)
