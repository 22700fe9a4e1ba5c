-- What the bucketed store adds: entries, in a ring of one table a minute, and one for what is later. {leaf} is one of them.
-- Each of these tables is empty at times, also when statistics are taken, and full a minute later, under the same plan. So rows
-- are looked up by LATERAL subqueries, whose conditions are always the index's; of a join the planner may make a walk over all.

-- name: due_entries
-- Each shard's earliest, by bucket.
SELECT e.job_id, e.shard_id, e.tenant_id, e.scheduled_for, e.fire_at, e.bucket, e.schedule_version, e.fired
FROM unnest(%(shards)s::smallint[], %(lows)s::bigint[]) AS owned(shard, low)
CROSS JOIN LATERAL (
    SELECT * FROM {leaf}
    WHERE shard_id = owned.shard AND bucket BETWEEN owned.low AND %(high)s AND fire_at <= %(until)s
    ORDER BY shard_id, bucket LIMIT %(limit)s
) AS e
LIMIT %(limit)s

-- name: lowest
-- The lowest bucket of each shard that holds anything.
SELECT owned.shard, e.bucket
FROM unnest(%(shards)s::smallint[], %(lows)s::bigint[]) AS owned(shard, low)
CROSS JOIN LATERAL (
    SELECT bucket FROM scheduling_entry
    WHERE shard_id = owned.shard AND bucket >= owned.low AND slot >= 0
    ORDER BY shard_id, bucket LIMIT 1
) AS e

-- name: tenants_upward
-- Which tenants have entries in which buckets: a skip scan over the index, for so many steps from behind a bucket and a tenant.
SELECT w.shard, w.bucket, w.tenant_id
FROM unnest(%(shards)s::smallint[], %(buckets)s::bigint[], %(tenants)s::integer[]) AS owned(shard, bucket, tenant_id)
CROSS JOIN LATERAL (
    WITH RECURSIVE walk(shard, bucket, tenant_id, steps) AS (
        (SELECT shard_id, bucket, tenant_id, 1 FROM {leaf}
         WHERE shard_id = owned.shard AND (bucket, tenant_id) > (owned.bucket, owned.tenant_id) AND bucket <= %(high)s
         ORDER BY shard_id, bucket, tenant_id LIMIT 1)
        UNION ALL
        SELECT n.shard_id, n.bucket, n.tenant_id, w.steps + 1
        FROM walk w CROSS JOIN LATERAL (
            SELECT shard_id, bucket, tenant_id FROM {leaf}
            WHERE shard_id = w.shard AND (bucket, tenant_id) > (w.bucket, w.tenant_id) AND bucket <= %(high)s
            ORDER BY shard_id, bucket, tenant_id LIMIT 1) AS n
        WHERE w.steps < %(steps)s
    )
    SELECT * FROM walk
) AS w

-- name: tenants_downward
-- The same from the newest bucket on: so that a flood of old ones hides nobody who is due now.
SELECT w.shard, w.bucket, w.tenant_id
FROM unnest(%(shards)s::smallint[], %(lows)s::bigint[]) AS owned(shard, low)
CROSS JOIN LATERAL (
    WITH RECURSIVE walk(shard, bucket, tenant_id, steps) AS (
        (SELECT shard_id, bucket, tenant_id, 1 FROM {leaf}
         WHERE shard_id = owned.shard AND bucket BETWEEN owned.low AND %(high)s
         ORDER BY shard_id DESC, bucket DESC, tenant_id DESC LIMIT 1)
        UNION ALL
        SELECT n.shard_id, n.bucket, n.tenant_id, w.steps + 1
        FROM walk w CROSS JOIN LATERAL (
            SELECT shard_id, bucket, tenant_id FROM {leaf}
            WHERE shard_id = w.shard AND (bucket, tenant_id) < (w.bucket, w.tenant_id) AND bucket >= owned.low
            ORDER BY shard_id DESC, bucket DESC, tenant_id DESC LIMIT 1) AS n
        WHERE w.steps < %(steps)s
    )
    SELECT * FROM walk
) AS w

-- name: due_entries_of_tenants
-- The heads of each, by index.
SELECT e.job_id, e.shard_id, e.tenant_id, e.scheduled_for, e.fire_at, e.bucket, e.schedule_version, e.fired
FROM unnest(%(shards)s::smallint[], %(buckets)s::bigint[], %(tenants)s::integer[]) AS w(shard, bucket, tenant_id)
CROSS JOIN LATERAL (
    SELECT * FROM {leaf}
    WHERE shard_id = w.shard AND bucket = w.bucket AND tenant_id = w.tenant_id AND fire_at <= %(until)s
    ORDER BY fire_at LIMIT %(share)s
) AS e

-- name: due_entries_behind
-- Of tenants in shards, bucket by bucket, the earliest: so what the others had there, long consumed, is not walked over.
SELECT e.job_id, e.shard_id, e.tenant_id, e.scheduled_for, e.fire_at, e.bucket, e.schedule_version, e.fired, e.slot
FROM unnest(%(tenants)s::integer[], %(shards)s::smallint[], %(lows)s::bigint[], %(highs)s::bigint[]) AS w(tenant_id, shard, low, high)
CROSS JOIN LATERAL (
    SELECT e.* FROM generate_series(w.low, w.high) AS b(bucket)
    CROSS JOIN LATERAL (
        SELECT * FROM scheduling_entry
        WHERE slot = (b.bucket / 60 %% 64)::smallint AND shard_id = w.shard AND bucket = b.bucket AND tenant_id = w.tenant_id
          AND fire_at <= %(until)s
        ORDER BY fire_at LIMIT %(share)s
    ) AS e
    LIMIT %(share)s
) AS e

-- name: jobs
-- What is to be known of jobs that entries stand for, with the transactions that wrote what it was read from.
SELECT {due_columns}, j.xmin::text, t.xmin::text FROM scheduling_job j {due_joins}
WHERE j.id = ANY (%(job_ids)s::uuid[]) AND j.in_bucket AND j.deleted_at IS NULL

-- name: entries_of
-- Of jobs whose row was edited since: where their old schedule stood.
SELECT job_id, scheduled_for, fire_at, fired FROM scheduling_entry WHERE job_id = ANY (%(job_ids)s::uuid[])

-- name: consume
-- Take the entries of jobs that are as they were read: by their rows and their tenants', where that was some time ago. The lock waits
-- for nobody: a job that is just being edited, paused or deleted is left to the next poll, however long that takes. Until our commit
-- it keeps off all of these, as that of a claim that updates the job does, and no worker (they lock FOR KEY SHARE).
WITH held AS MATERIALIZED (
    SELECT p.*
    FROM unnest(
        %(job_ids)s::uuid[], %(versions)s::integer[], %(were)s::timestamptz[], %(job_xmins)s::xid[], %(tenant_xmins)s::xid[]
    ) AS p(job_id, version, was, job_xmin, tenant_xmin)
    CROSS JOIN LATERAL (
        SELECT tenant_id FROM scheduling_job
        WHERE id = p.job_id AND schedule_version = p.version AND in_bucket AND deleted_at IS NULL AND paused_at IS NULL
          AND (p.job_xmin IS NULL OR xmin = p.job_xmin)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS j
    JOIN fairness_tenant t ON t.id = j.tenant_id AND (p.tenant_xmin IS NULL OR t.xmin = p.tenant_xmin)
)
DELETE FROM {leaf} WHERE ctid = ANY (ARRAY(
    SELECT e.ctid FROM held CROSS JOIN LATERAL (
        SELECT ctid FROM {leaf} WHERE job_id = held.job_id AND scheduled_for = held.was AND schedule_version = held.version LIMIT 1
    ) AS e))
RETURNING job_id

-- name: advance
-- Jobs that come from their rows, where nothing but their schedule has a say: they leave them, or their rows move on. What has
-- changed since it was read is left to the next poll, as with consume; nobody is waited for.
WITH plan AS (
    SELECT * FROM unnest(
        %(job_ids)s::uuid[], %(versions)s::integer[], %(were)s::timestamptz[], %(next_fors)s::timestamptz[], %(next_ats)s::timestamptz[],
        %(fired)s::integer[], %(enter)s::boolean[]
    ) AS p(job_id, version, was, next_for, next_at, fired, enters)
), held AS MATERIALIZED (
    SELECT p.* FROM plan p JOIN scheduling_job j ON j.id = p.job_id
    WHERE j.schedule_version = p.version AND j.next_scheduled_for = p.was AND NOT j.in_bucket AND j.deleted_at IS NULL
      AND j.paused_at IS NULL
    ORDER BY j.id
    FOR NO KEY UPDATE OF j SKIP LOCKED
)
UPDATE scheduling_job j
SET next_scheduled_for = CASE WHEN NOT h.enters THEN h.next_for END, next_fire_at = CASE WHEN NOT h.enters THEN h.next_at END,
    in_bucket = h.enters, problem = '', fired = j.fired + CASE WHEN h.enters THEN 0 ELSE h.fired END
FROM held h WHERE j.id = h.job_id
RETURNING j.id

-- name: copy_fires
COPY scheduling_fire (
    id, job_id, tenant_id, shard_id, history_days, scheduled_for, fire_at, schedule_version, state, max_attempts, exclusive,
    seq_epoch, seq, claimed_at
) FROM STDIN (FORMAT BINARY)

-- name: copy_entries
COPY scheduling_entry (slot, shard_id, tenant_id, schedule_version, fired, bucket, job_id, scheduled_for, fire_at)
FROM STDIN (FORMAT BINARY)

-- name: finish
-- Their schedules have ended: nothing is to come.
UPDATE scheduling_job j SET in_bucket = false, fired = j.fired + f.fired
FROM unnest(%(job_ids)s::uuid[], %(fired)s::integer[]) AS f(job_id, fired) WHERE j.id = f.job_id

-- name: bucket
floor(extract(epoch FROM fire_at))::bigint

-- name: slot
-- As scheduling.store.buckets has it: slot_of_bucket, or LATER.
CASE WHEN fire_at < %(horizon)s THEN floor(extract(epoch FROM fire_at) / 60)::bigint %% 64 ELSE -1 END

-- name: in_slot
SELECT slot, ctid AS place FROM scheduling_entry WHERE slot = a.slot AND job_id = a.id OFFSET 0

-- name: anywhere
SELECT slot, ctid AS place FROM scheduling_entry WHERE job_id = a.id OFFSET 0

-- name: entries
, gone AS (
    DELETE FROM scheduling_entry e
    USING (SELECT f.* FROM advanced a CROSS JOIN LATERAL ({in_slot}) AS f WHERE a.leaves AND a.slot IS NOT NULL) AS f
    WHERE e.slot = f.slot AND e.ctid = f.place
), gone_by_edit AS (  -- wherever it was
    DELETE FROM scheduling_entry e
    USING (SELECT f.* FROM advanced a CROSS JOIN LATERAL ({anywhere}) AS f WHERE a.leaves AND a.slot IS NULL) AS f
    WHERE e.slot = f.slot AND e.ctid = f.place
), entered AS (
    INSERT INTO scheduling_entry (slot, shard_id, tenant_id, schedule_version, bucket, job_id, scheduled_for, fire_at)
    SELECT {slot}, shard_id, tenant_id, schedule_version, {bucket}, id, next_for, fire_at
    FROM (SELECT *, next_at AS fire_at FROM advanced) AS a WHERE a.enters
    {in_its_place}
)

-- name: in_its_place
-- (Of one that no job stood behind any more.)
ON CONFLICT (job_id, scheduled_for, slot) DO UPDATE
SET shard_id = excluded.shard_id, tenant_id = excluded.tenant_id, schedule_version = excluded.schedule_version,
    fired = excluded.fired, bucket = excluded.bucket, fire_at = excluded.fire_at

-- name: due_for_their_end
-- Paused jobs whose pause is over, and whose next occurrence is still an entry.
SELECT id FROM scheduling_job
WHERE shard_id = ANY (%(shards)s::smallint[]) AND deleted_at IS NULL AND paused_until <= %(now)s AND in_bucket
LIMIT %(limit)s

-- name: back_to_rows
-- The jobs' rows hold their next occurrences again. An edit that was not planned yet learns where the old schedule stood.
WITH found AS MATERIALIZED (
    SELECT job_id, slot, ctid AS place FROM scheduling_entry WHERE {which}
), held AS MATERIALIZED (
    SELECT f.* FROM (SELECT * FROM found ORDER BY job_id) AS f
    CROSS JOIN LATERAL (SELECT FROM scheduling_job WHERE id = f.job_id AND in_bucket FOR NO KEY UPDATE {patience}) AS j
), gone AS (
    DELETE FROM scheduling_entry e USING held h WHERE e.slot = h.slot AND e.ctid = h.place
    RETURNING e.job_id, e.schedule_version, e.fired, e.scheduled_for, e.fire_at
)
UPDATE scheduling_job j
SET in_bucket = false,
    fired = j.fired + g.fired,
    next_scheduled_for = CASE WHEN j.next_fire_at IS NULL THEN g.scheduled_for ELSE j.next_scheduled_for END,
    next_fire_at = coalesce(j.next_fire_at, g.fire_at),
    superseded = (
        SELECT coalesce(jsonb_agg(
            CASE WHEN old.said ->> 'after' IS NULL
                THEN old.said || jsonb_build_object('after', g.scheduled_for - interval '1 microsecond') ELSE old.said END
            ORDER BY old.place), '[]')
        FROM jsonb_array_elements(j.superseded) WITH ORDINALITY AS old(said, place))
FROM gone g
WHERE j.id = g.job_id AND (j.next_fire_at IS NOT NULL OR j.schedule_version = g.schedule_version)
RETURNING j.id

-- name: patience
-- None; all of a stop that is left behind have to come: then it is empty.
SKIP LOCKED

-- name: of_shards
shard_id = ANY (%(shards)s::smallint[])

-- name: of_jobs
job_id = ANY (%(job_ids)s::uuid[])

-- name: any_in_buckets
SELECT EXISTS (
    SELECT FROM unnest(%(shards)s::smallint[]) AS owned(shard)
    CROSS JOIN LATERAL (SELECT FROM scheduling_entry WHERE shard_id = owned.shard LIMIT 1) AS e)

-- name: promote
-- Move what comes within the horizon, which is before bucket high, into its minute.
WITH near AS (
    DELETE FROM scheduling_entry_later WHERE ctid = ANY (ARRAY(
        SELECT n.ctid FROM unnest(%(shards)s::smallint[], %(lows)s::bigint[]) AS owned(shard, low)
        CROSS JOIN LATERAL (
            SELECT ctid FROM scheduling_entry_later
            WHERE shard_id = owned.shard AND bucket >= owned.low AND bucket < %(high)s
            ORDER BY shard_id, bucket LIMIT %(share)s
        ) AS n))
    RETURNING *
), moved AS (
    INSERT INTO scheduling_entry (slot, shard_id, tenant_id, schedule_version, fired, bucket, job_id, scheduled_for, fire_at)
    SELECT {slot}, shard_id, tenant_id, schedule_version, fired, bucket, job_id, scheduled_for, fire_at FROM near
    {in_its_place}
)
SELECT shard_id, min(bucket), count(*) FROM near GROUP BY shard_id

-- name: forget
-- Entries that no job stands behind any more: it was deleted, or another entry has taken this one's place.
DELETE FROM scheduling_entry e
WHERE e.job_id = ANY (%(job_ids)s::uuid[]) AND e.shard_id = ANY (%(shards)s::smallint[]) AND NOT EXISTS (
    SELECT FROM scheduling_job j
    WHERE j.id = e.job_id AND j.in_bucket AND j.deleted_at IS NULL
      AND (j.schedule_version = e.schedule_version OR j.next_fire_at IS NOT NULL))

-- name: next_runs
SELECT j.id, coalesce(j.next_scheduled_for, e.scheduled_for), coalesce(j.next_fire_at, e.fire_at)
FROM scheduling_job j
LEFT JOIN LATERAL (
    SELECT scheduled_for, fire_at FROM scheduling_entry
    WHERE job_id = j.id AND schedule_version = j.schedule_version AND j.in_bucket AND j.next_fire_at IS NULL LIMIT 1
) AS e ON true
WHERE j.id = ANY (%(job_ids)s::uuid[])

-- name: grown
SELECT name, c.size < %(size)s OR 'autovacuum_enabled=false' <> ALL (coalesce(c.reloptions, '{}'))
FROM unnest(%(tables)s::text[]) AS name
CROSS JOIN LATERAL (SELECT reloptions, pg_relation_size(oid) AS size FROM pg_class WHERE oid = name::regclass) AS c
WHERE c.size > 0
