-- The deletion of jobs. The jobs are locked first; a second statement looks at their fires, so that neither a claim nor an acquire in
-- flight slips through.

-- name: lock
-- In the order in which claims lock theirs.
SELECT id FROM scheduling_job WHERE id = ANY (%(job_ids)s::uuid[]) ORDER BY id FOR UPDATE

-- name: cancel_fires
WITH job AS MATERIALIZED (
    SELECT j.id, p.seq_epoch, p.seq,
        EXISTS (SELECT FROM scheduling_fire r WHERE r.job_id = j.id AND r.started_at IS NOT NULL) AS acquires
    FROM scheduling_job j JOIN scheduling_shardprogress p ON p.shard_id = j.shard_id
    WHERE j.id = ANY (%(job_ids)s::uuid[])
), held AS MATERIALIZED (  -- in the order in which all lock fires: values.lock_order
    SELECT f.scheduled_for, f.id, f.history_days FROM job j JOIN scheduling_fire f ON f.job_id = j.id
    WHERE f.state IN ('claimed', 'parked', 'retry_wait')
      AND (f.state <> 'claimed' OR j.acquires
           OR NOT (f.confirmed OR coalesce((f.seq_epoch, f.seq) <= (j.seq_epoch, j.seq), false)))
    ORDER BY f.shard_id, f.fire_at, f.id
    FOR NO KEY UPDATE OF f
), ended AS (
    UPDATE scheduling_fire f
    SET state = CASE WHEN f.attempt = 0 THEN 'skipped' ELSE 'dead' END,
        reason = 'cancelled', wake_at = NULL, finished_at = clock_timestamp()
    FROM held h
    WHERE (f.scheduled_for, f.id, f.history_days) = (h.scheduled_for, h.id, h.history_days)
    RETURNING f.*
), died AS (
    SELECT e.*, 'its job was deleted' AS error, '' AS traceback, 'its job was deleted' AS essence, '' AS worker
    FROM ended e WHERE e.state = 'dead'
)
{dead_letter}
RETURNING fire_id

-- name: hide
UPDATE scheduling_job j
SET deleted_at = fairbeat_job_now(), next_scheduled_for = NULL, next_fire_at = NULL, in_bucket = false,
    paused_at = NULL, paused_until = NULL  -- nobody will end it: what runs now, and fails, would wait for ever
WHERE j.id = ANY (%(job_ids)s::uuid[]) AND j.deleted_at IS NULL AND EXISTS (SELECT FROM scheduling_fire f WHERE f.job_id = j.id)

-- name: remove
DELETE FROM scheduling_job j
WHERE j.id = ANY (%(job_ids)s::uuid[]) AND NOT EXISTS (SELECT FROM scheduling_fire f WHERE f.job_id = j.id)
