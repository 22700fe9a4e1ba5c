-- name: ask
-- They wait for the owner of their shard, which alone starts fires. The same request once more finds its rows and changes nothing.
INSERT INTO scheduling_fire (
    id, job_id, tenant_id, shard_id, history_days, scheduled_for, fire_at, origin, schedule_version, state, reason, max_attempts,
    exclusive, wake_at)
SELECT a.id, j.id, j.tenant_id, j.shard_id, a.history_days, a.scheduled_for, a.fire_at, %(origin)s, j.schedule_version, 'retry_wait',
    %(reason)s, j.max_attempts, %(exclusive)s OR j.overlap <> 'allow', a.fire_at
FROM unnest(
    %(ids)s::uuid[], %(job_ids)s::uuid[], %(history_days)s::smallint[], %(scheduled_fors)s::timestamptz[], %(fire_ats)s::timestamptz[]
) AS a(id, job_id, history_days, scheduled_for, fire_at)
JOIN scheduling_job j ON j.id = a.job_id
ON CONFLICT (job_id, scheduled_for, origin, history_days) DO NOTHING
