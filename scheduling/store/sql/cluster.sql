-- What people and probes want to know of a fleet. Everything is looked up by index, shard by shard: as cheap beside ten million jobs.

-- name: nodes
-- Those that live, and the others of the last day or that still own something.
SELECT n.id, n.region, n.weight, n.started_at, extract(epoch FROM n.lease_until - clock_timestamp())::float8, n.fires, n.latency::text, s.owned
FROM scheduling_node n
CROSS JOIN LATERAL (SELECT count(*) AS owned FROM scheduling_shard WHERE owner_id = n.id) AS s
WHERE n.lease_until > clock_timestamp() - interval '1 day' OR s.owned > 0
ORDER BY n.lease_until <= clock_timestamp(), n.id

-- name: shards
-- Lag: of the oldest occurrence that is due, and is not claimed, or claimed and not known to be confirmed. In the buckets the oldest is
-- known to the second. (At stop 2 a claim has a deadline, until it is confirmed; elsewhere it is beyond the watermark until then.)
WITH moment AS MATERIALIZED (
    SELECT fairbeat_job_now() AS now, coalesce((SELECT speed FROM scheduling_jobclock), 1) AS speed
), polled AS MATERIALIZED (
    SELECT shard_id, count(*) AS fires, min(fire_at) AS oldest FROM scheduling_fire
    WHERE state = 'claimed' AND claimed_until IS NOT NULL AND NOT confirmed GROUP BY shard_id
)
SELECT s.id, s.epoch, s.owner_id, coalesce(n.lease_until > clock_timestamp(), false), p.seq_epoch, p.seq,
    greatest(extract(epoch FROM m.now - least(j.oldest, e.oldest, f.oldest, q.oldest)) / m.speed, 0)::float8,
    f.fires + coalesce(q.fires, 0)
FROM scheduling_shard s
JOIN scheduling_shardprogress p ON p.shard_id = s.id
CROSS JOIN moment m
LEFT JOIN scheduling_node n ON n.id = s.owner_id
LEFT JOIN polled q ON q.shard_id = s.id
LEFT JOIN LATERAL (
    SELECT next_fire_at AS oldest FROM scheduling_job WHERE shard_id = s.id AND next_fire_at <= m.now ORDER BY next_fire_at LIMIT 1
) AS j ON true
LEFT JOIN LATERAL (
    SELECT fire_at AS oldest FROM scheduling_entry
    WHERE shard_id = s.id AND bucket <= floor(extract(epoch FROM m.now))::bigint AND fire_at <= m.now
    ORDER BY shard_id, bucket LIMIT 1
) AS e ON true
CROSS JOIN LATERAL (
    SELECT count(*) AS fires, min(fire_at) AS oldest FROM scheduling_fire
    WHERE shard_id = s.id AND state = 'claimed' AND (seq_epoch, seq) > (p.seq_epoch, p.seq) AND fire_at <= m.now
) AS f
ORDER BY s.id

-- name: living
-- How many nodes live, and the shards that none of them owns.
SELECT (SELECT count(*) FROM scheduling_node WHERE lease_until > clock_timestamp()), array(
    SELECT s.id FROM scheduling_shard s LEFT JOIN scheduling_node n ON n.id = s.owner_id AND n.lease_until > clock_timestamp()
    WHERE n.id IS NULL ORDER BY s.id)
