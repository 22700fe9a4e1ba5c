-- Stop 2: several pollers, no owners. What an owner has by its epoch, a poller has by the row locks of its transaction.

-- name: adopt
-- Once at a node's start, of what a stop with owners left: what is beyond its watermarks has no deadline yet, and what it published is to
-- be acquired in time from now on.
WITH held AS MATERIALIZED (  -- in the order in which all lock fires: values.lock_order
    SELECT f.scheduled_for, f.id, f.history_days, coalesce((f.seq_epoch, f.seq) <= (p.seq_epoch, p.seq), false) AS is_published
    FROM scheduling_fire f JOIN scheduling_shardprogress p ON p.shard_id = f.shard_id
    WHERE f.state = 'claimed' AND NOT f.confirmed AND f.claimed_until IS NULL
      AND ((f.seq_epoch, f.seq) > (p.seq_epoch, p.seq) OR f.seq IS NULL OR {guarded})
    ORDER BY f.shard_id, f.fire_at, f.id
    FOR NO KEY UPDATE OF f
)
UPDATE scheduling_fire f
SET claimed_until = clock_timestamp() + CASE WHEN h.is_published THEN %(patience)s::interval ELSE interval '0' END,
    confirmed = h.is_published
FROM held h
WHERE (f.scheduled_for, f.id, f.history_days) = (h.scheduled_for, h.id, h.history_days)

-- name: reclaim
-- Claimed, and not confirmed in time: it may or may not be in a queue, so the fence is lifted. A number that a stop with
-- owners gave it is void.
WITH late AS (
    SELECT f.scheduled_for, f.id, f.history_days FROM scheduling_fire f JOIN scheduling_job j ON j.id = f.job_id
    WHERE f.state = 'claimed' AND f.claimed_until < clock_timestamp() AND NOT f.confirmed
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
-- From now on claimed_until is by when it is to be acquired; of a plain Celery task, which never is, nothing is expected. After each
-- time that a message was sent again it takes twice as long.
UPDATE scheduling_fire f
SET confirmed = true, claimed_until = CASE
    WHEN NOT coalesce((SELECT k.is_guarded FROM scheduling_workertask k WHERE k.name = r.task), false) THEN NULL
    WHEN f.sent_again_at > f.claimed_at THEN f.sent_again_at + (f.sent_again_at - f.claimed_at)
    ELSE clock_timestamp() + %(patience)s::interval END
FROM unnest(
    %(ids)s::uuid[], %(scheduled_fors)s::timestamptz[], %(history_days)s::smallint[], %(fences)s::integer[], %(tasks)s::text[]
) AS r(id, scheduled_for, history_days, fence, task)
WHERE (f.scheduled_for, f.id, f.history_days) = (r.scheduled_for, r.id, r.history_days) AND f.fence = r.fence

-- name: look_again
-- Of what was not acquired in time: its message is gone, and is to be sent again under the same fence; or it is in its queue, and is
-- looked at again when its patience has passed once more. What another poller has seen to meanwhile is no longer due.
WITH due AS MATERIALIZED (
    SELECT f.scheduled_for, f.id, f.history_days, r.is_gone
    FROM unnest(
        %(ids)s::uuid[], %(scheduled_fors)s::timestamptz[], %(history_days)s::smallint[], %(fences)s::integer[], %(gone)s::boolean[]
    ) AS r(id, scheduled_for, history_days, fence, is_gone)
    JOIN scheduling_fire f ON (f.scheduled_for, f.id, f.history_days) = (r.scheduled_for, r.id, r.history_days)
    WHERE f.fence = r.fence AND f.state = 'claimed' AND f.confirmed AND f.claimed_until < clock_timestamp()
    FOR NO KEY UPDATE OF f SKIP LOCKED
), looked_at AS (
    UPDATE scheduling_fire f
    SET confirmed = NOT d.is_gone,
        claimed_until = clock_timestamp() + CASE WHEN d.is_gone THEN %(claim_for)s::interval ELSE %(patience)s::interval END,
        sent_again_at = CASE WHEN d.is_gone THEN clock_timestamp() ELSE f.sent_again_at END
    FROM due d
    WHERE (f.scheduled_for, f.id, f.history_days) = (d.scheduled_for, d.id, d.history_days)
    RETURNING f.id, d.is_gone
)
SELECT id FROM looked_at WHERE is_gone

-- name: bring_back
-- Of those who wait for a limit the longest parked are due. Of each shard so much is looked at, and no more: what waits there for another
-- limit is not to hold us up. How many there were, and whether there may be others behind what was looked at.
WITH looked_at AS MATERIALIZED (
    SELECT w.*, row_number() OVER (PARTITION BY every.shard ORDER BY w.wake_at) AS place
    FROM unnest(%(shards)s::smallint[]) AS every(shard)
    CROSS JOIN LATERAL (
        SELECT scheduled_for, id, history_days, job_id, wake_at, reason FROM scheduling_fire
        WHERE shard_id = every.shard AND tenant_id = %(tenant)s AND state IN ('parked', 'retry_wait') AND wake_at > %(now)s
        ORDER BY wake_at LIMIT %(walk)s
    ) AS w
), longest AS MATERIALIZED (
    SELECT w.* FROM looked_at w JOIN scheduling_job j ON j.id = w.job_id
    WHERE w.reason = %(reason)s AND %(lane)s IN ('', j.lane) AND %(task)s IN ('', j.task) AND NOT EXISTS (
        SELECT FROM unnest(%(lanes)s::text[], %(tasks)s::text[]) AS apart(lane, task)
        WHERE apart.lane IN ('', j.lane) AND apart.task IN ('', j.task)
    )
    ORDER BY w.wake_at LIMIT %(count)s
), held AS MATERIALIZED (  -- in the order in which all lock fires: values.lock_order
    SELECT f.scheduled_for, f.id, f.history_days
    FROM longest l JOIN scheduling_fire f ON (f.scheduled_for, f.id, f.history_days) = (l.scheduled_for, l.id, l.history_days)
    WHERE f.state = 'parked' AND f.reason = %(reason)s
    ORDER BY f.shard_id, f.fire_at, f.id
    FOR NO KEY UPDATE OF f SKIP LOCKED
), due AS (
    UPDATE scheduling_fire f SET wake_at = %(now)s
    FROM held h WHERE (f.scheduled_for, f.id, f.history_days) = (h.scheduled_for, h.id, h.history_days)
)
SELECT (SELECT count(*) FROM longest), coalesce((SELECT max(place) FROM looked_at), 0) >= %(walk)s

-- name: running_of
SELECT {fire_columns} FROM scheduling_fire f {fire_work}
WHERE f.shard_id = ANY (%(shards)s::smallint[]) AND f.state = 'running' AND f.tenant_id = ANY (%(tenants)s::integer[])

-- name: published_of
-- Of what was published the newest, of whomever.
SELECT {fire_columns}
FROM (
    SELECT * FROM scheduling_fire WHERE state = 'claimed' AND claimed_until IS NOT NULL AND confirmed
    ORDER BY claimed_until DESC LIMIT %(looked_at)s
) AS f {fire_work}
WHERE f.tenant_id = ANY (%(tenants)s::integer[]) AND {guarded}

-- name: waiting_for_limits
-- How many of these tenants, by lane; of each in a shard so many, and no more.
SELECT t.tenant_id, j.lane, count(*)
FROM unnest(%(tenants)s::integer[]) AS t(tenant_id)
CROSS JOIN unnest(%(shards)s::smallint[]) AS every(shard)
CROSS JOIN LATERAL (
    SELECT job_id, reason FROM scheduling_fire
    WHERE shard_id = every.shard AND tenant_id = t.tenant_id AND state IN ('parked', 'retry_wait')
    ORDER BY wake_at LIMIT %(walk)s
) AS w
JOIN scheduling_job j ON j.id = w.job_id
WHERE w.reason IN ('rate', 'cap', 'budget')
GROUP BY t.tenant_id, j.lane
