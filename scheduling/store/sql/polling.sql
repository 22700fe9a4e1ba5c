-- Stop 2: several pollers, no owners. What an owner has by its epoch, a poller has by the row locks of its transaction.

-- name: adopt
-- Once at a node's start: what a stop with owners left beyond its watermarks has no deadline yet.
WITH held AS MATERIALIZED (  -- in the order in which all lock fires: values.lock_order
    SELECT f.scheduled_for, f.id, f.history_days
    FROM scheduling_fire f JOIN scheduling_shardprogress p ON p.shard_id = f.shard_id
    WHERE f.state = 'claimed' AND NOT f.confirmed AND f.claimed_until IS NULL
      AND ((f.seq_epoch, f.seq) > (p.seq_epoch, p.seq) OR f.seq IS NULL)
    ORDER BY f.shard_id, f.fire_at, f.id
    FOR NO KEY UPDATE OF f
)
UPDATE scheduling_fire f SET claimed_until = clock_timestamp()
FROM held h
WHERE (f.scheduled_for, f.id, f.history_days) = (h.scheduled_for, h.id, h.history_days)

-- name: reclaim
-- Claimed, and not confirmed in time: it may or may not be in a queue, so the fence is lifted. A number that a stop with
-- owners gave it is void.
WITH late AS (
    SELECT f.scheduled_for, f.id, f.history_days FROM scheduling_fire f JOIN scheduling_job j ON j.id = f.job_id
    WHERE f.state = 'claimed' AND f.claimed_until < clock_timestamp()
    ORDER BY f.claimed_until LIMIT %(limit)s {fire_lock}
), lifted AS (
    UPDATE scheduling_fire f
    SET fence = f.fence + 1, claimed_until = clock_timestamp() + %(claim_for)s::interval, seq_epoch = NULL, seq = NULL
    FROM late
    WHERE (f.scheduled_for, f.id, f.history_days) = (late.scheduled_for, late.id, late.history_days)
    RETURNING f.*
)
SELECT {fire_columns} FROM lifted f {fire_work}

-- name: confirm
UPDATE scheduling_fire f SET confirmed = true, claimed_until = NULL
FROM unnest(
    %(ids)s::uuid[], %(scheduled_fors)s::timestamptz[], %(history_days)s::smallint[], %(fences)s::integer[]
) AS r(id, scheduled_for, history_days, fence)
WHERE (f.scheduled_for, f.id, f.history_days) = (r.scheduled_for, r.id, r.history_days) AND f.fence = r.fence
