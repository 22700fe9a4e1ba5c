-- What an owner learns of fires that it, or the last owner, has published; and which tenants are held. {fire_columns}, {fire_work} and
-- {guarded} are of schedule.sql.

-- name: running
-- With how long they have run, in seconds.
SELECT {fire_columns}, extract(epoch FROM clock_timestamp() - f.started_at)::float8
FROM scheduling_fire f {fire_work}
WHERE f.shard_id = ANY (%(shards)s::smallint[]) AND f.state = 'running'

-- name: published
-- Of each shard the newest that were published and are to be acquired. Fires of plain Celery tasks stay claimed, by the million: so what
-- is looked at is limited, and not what is found.
SELECT {fire_columns}, NULL::float8
FROM unnest(%(shards)s::smallint[]) AS owned(shard)
JOIN scheduling_shardprogress p ON p.shard_id = owned.shard
CROSS JOIN LATERAL (
    SELECT * FROM scheduling_fire
    WHERE shard_id = owned.shard AND state = 'claimed' AND (seq_epoch, seq) <= (p.seq_epoch, p.seq)
    ORDER BY shard_id DESC, seq_epoch DESC, seq DESC LIMIT %(share)s
) AS f
{fire_work}
WHERE {guarded}

-- name: held
SELECT h.tenant_id, h.shard_id, h.since FROM scheduling_hold h WHERE h.shard_id = ANY (%(shards)s::smallint[])

-- name: hold
-- The lock is the foreign key's, taken before a tenant can be deleted between our look and its check.
INSERT INTO scheduling_hold AS h (tenant_id, shard_id, since)
SELECT t.id, n.shard, n.since
FROM unnest(%(tenants)s::integer[], %(shards)s::smallint[], %(since)s::timestamptz[]) AS n(tenant_id, shard, since)
CROSS JOIN LATERAL (SELECT id FROM fairness_tenant WHERE id = n.tenant_id FOR KEY SHARE) AS t
ON CONFLICT (shard_id, tenant_id) DO UPDATE SET since = least(h.since, excluded.since)

-- name: unhold
DELETE FROM scheduling_hold h
USING unnest(%(tenants)s::integer[], %(shards)s::smallint[]) AS n(tenant_id, shard)
WHERE (h.shard_id, h.tenant_id) = (n.shard, n.tenant_id)

-- name: runs
-- Which of these have left ``claimed`` under their fence: they run, or are over, or their rows are gone. Last for how long they ran: of
-- what is over, its attempt's record tells. With the bounds the planner leaves alone the days on which none of these fires is.
SELECT r.id, r.fence, coalesce(f.is_running, false),
    CASE WHEN f.is_running THEN f.ran_s ELSE (
        SELECT extract(epoch FROM a.finished_at - a.started_at)::float8 FROM scheduling_jobrun a
        WHERE (a.scheduled_for, a.id, a.history_days) = (r.scheduled_for, r.run_id, r.history_days)
          AND a.scheduled_for BETWEEN %(earliest)s AND %(latest)s AND a.holder <> %(nobody)s
    ) END
FROM unnest(
    %(ids)s::uuid[], %(scheduled_fors)s::timestamptz[], %(history_days)s::smallint[], %(fences)s::integer[], %(run_ids)s::uuid[]
) AS r(id, scheduled_for, history_days, fence, run_id)
LEFT JOIN LATERAL (
    SELECT f.state = 'claimed' AND f.fence = r.fence AS is_on_its_way, f.state = 'running' AND f.fence = r.fence AS is_running,
        extract(epoch FROM clock_timestamp() - f.started_at)::float8 AS ran_s
    FROM scheduling_fire f
    WHERE (f.scheduled_for, f.id, f.history_days) = (r.scheduled_for, r.id, r.history_days)
      AND f.scheduled_for BETWEEN %(earliest)s AND %(latest)s
    OFFSET 0
) AS f ON true
WHERE NOT coalesce(f.is_on_its_way, false)
