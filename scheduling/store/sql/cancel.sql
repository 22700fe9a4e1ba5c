-- Cancellation, as people ask for it. The jobs are locked first (pauses.sql); a second statement looks at their fires, so that neither a
-- claim nor an acquire in flight slips through.

-- name: named
-- Each from its own partition.
SELECT f.scheduled_for, f.id, f.history_days, f.job_id
FROM unnest(%(ids)s::uuid[], %(milliseconds)s::timestamptz[]) AS n(id, millisecond)
JOIN scheduling_fire f ON f.scheduled_for >= n.millisecond AND f.scheduled_for < n.millisecond + interval '1 ms' AND f.id = n.id

-- name: unfinished
-- The form of the condition on state lets the planner choose between the history of the job and what is unfinished in its shard.
SELECT f.scheduled_for, f.id, f.history_days FROM scheduling_fire f
WHERE f.job_id = ANY (%(job_ids)s::uuid[]) AND f.shard_id = ANY (%(shards)s::smallint[])
  AND (f.state = 'claimed' OR f.state IN ('parked', 'retry_wait') OR f.state = 'running')

-- name: cancel
-- What was published stays as it is if nothing tells that its task acquires: a plain Celery task has run, or will. Of what runs, the
-- first who asked has said why.
WITH job AS MATERIALIZED (
    SELECT j.id, p.seq_epoch, p.seq,
        EXISTS (SELECT FROM scheduling_fire r WHERE r.job_id = j.id AND r.started_at IS NOT NULL)
        OR EXISTS (SELECT FROM scheduling_workertask t WHERE t.name = j.task AND t.is_guarded) AS acquires
    FROM scheduling_job j JOIN scheduling_shardprogress p ON p.shard_id = j.shard_id
    WHERE j.id = ANY (%(job_ids)s::uuid[])
), held AS MATERIALIZED (  -- in the order in which all lock fires: values.lock_order
    SELECT f.scheduled_for, f.id, f.history_days, f.state = 'running' AS runs,
        f.state = 'claimed' AND NOT j.acquires
        AND (f.confirmed OR coalesce((f.seq_epoch, f.seq) <= (j.seq_epoch, j.seq), false)) AS is_sent
    FROM unnest(%(scheduled_fors)s::timestamptz[], %(ids)s::uuid[], %(history_days)s::smallint[]) AS n(scheduled_for, id, history_days)
    JOIN scheduling_fire f ON (f.scheduled_for, f.id, f.history_days) = (n.scheduled_for, n.id, n.history_days)
    JOIN job j ON j.id = f.job_id
    WHERE f.state IN ('claimed', 'parked', 'retry_wait', 'running')
    ORDER BY f.shard_id, f.fire_at, f.id
    FOR NO KEY UPDATE OF f
), ended AS (
    UPDATE scheduling_fire f
    SET state = CASE WHEN f.attempt = 0 THEN 'skipped' ELSE 'dead' END,
        reason = 'cancelled', wake_at = NULL, finished_at = clock_timestamp()
    FROM held h
    WHERE (f.scheduled_for, f.id, f.history_days) = (h.scheduled_for, h.id, h.history_days) AND NOT h.runs AND NOT h.is_sent
    RETURNING f.*
), died AS (
    SELECT e.*, %(reason)s AS error, '' AS traceback, %(essence)s AS essence, '' AS worker FROM ended e WHERE e.state = 'dead'
), letters AS ({dead_letter}), asked AS (
    UPDATE scheduling_fire f SET cancel_reason = %(reason)s FROM held h
    WHERE (f.scheduled_for, f.id, f.history_days) = (h.scheduled_for, h.id, h.history_days) AND h.runs AND f.cancel_reason = ''
), told AS (
    SELECT pg_notify(%(channel)s, h.id::text) FROM held h WHERE h.runs
)
SELECT (SELECT count(*) FROM ended), (SELECT count(*) FROM told), (SELECT count(*) FROM held WHERE is_sent), (SELECT count(*) FROM held),
    ARRAY(SELECT id FROM died)

-- name: wake_next
-- Whoever waited behind what is gone: the first of each job is due now, and its owner hears of it.
WITH woken AS (
    UPDATE scheduling_fire s SET wake_at = fairbeat_job_now()
    FROM unnest(%(job_ids)s::uuid[]) AS j(id)
    CROSS JOIN LATERAL (
        SELECT w.scheduled_for, w.id, w.history_days FROM scheduling_fire w
        WHERE w.job_id = j.id AND w.exclusive AND w.state = 'parked' AND w.reason = 'overlap'
        ORDER BY w.scheduled_for, w.id LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS next
    WHERE (s.scheduled_for, s.id, s.history_days) = (next.scheduled_for, next.id, next.history_days)
    RETURNING s.shard_id
)
SELECT pg_notify('fairbeat', shard_id::text) FROM (SELECT DISTINCT shard_id FROM woken) AS shards
