-- What has to be known to say why something waits. For pages and the command line: read only, by index, and no farther than a bound.

-- name: moment
SELECT clock_timestamp(), fairbeat_job_now(), c.job_origin, c.real_origin, c.speed, c.stops_after_s
FROM (VALUES (1)) AS one(id) LEFT JOIN scheduling_jobclock c USING (id)

-- name: fires
-- Each from its own partition. (A redriven fire goes on where a pause holds its job; the letter says whether it is one.)
SELECT f.id, f.state, f.reason, f.fire_at, f.wake_at, f.origin, f.attempt, f.max_attempts, f.started_at, f.cancel_reason,
    f.job_id, f.tenant_id, f.shard_id, f.scheduled_for, f.history_days, f.exclusive,
    f.state = 'claimed' AND (f.confirmed OR coalesce((f.seq_epoch, f.seq) <= (p.seq_epoch, p.seq), false)),
    coalesce((SELECT d.redriven_at IS NOT NULL FROM scheduling_deadletter d WHERE d.fire_id = f.id), false),
    (SELECT k.is_guarded FROM scheduling_workertask k WHERE k.name = j.task),
    j.task, j.lane, t.slug, j.paused_at IS NOT NULL, j.paused_until, j.paused_by, j.pause_reason
FROM unnest(%(ids)s::uuid[], %(millis)s::timestamptz[]) AS r(id, milli)
CROSS JOIN LATERAL (
    SELECT * FROM scheduling_fire WHERE id = r.id AND scheduled_for >= r.milli AND scheduled_for < r.milli + interval '1 ms'
) AS f
JOIN scheduling_job j ON j.id = f.job_id
JOIN fairness_tenant t ON t.id = f.tenant_id
LEFT JOIN scheduling_shardprogress p ON p.shard_id = f.shard_id

-- name: jobs
-- What their owners have not claimed yet.
SELECT j.id, j.tenant_id, j.shard_id, coalesce(j.next_fire_at, e.fire_at), coalesce(j.next_scheduled_for, e.scheduled_for), j.misfire_grace_s, j.misfire, j.problem, j.task, j.lane, t.slug,
    j.paused_at IS NOT NULL, j.paused_until, j.paused_by, j.pause_reason, h.since
FROM scheduling_job j
JOIN fairness_tenant t ON t.id = j.tenant_id
LEFT JOIN scheduling_hold h ON (h.shard_id, h.tenant_id) = (j.shard_id, j.tenant_id)
LEFT JOIN LATERAL (
    SELECT fire_at, scheduled_for FROM scheduling_entry
    WHERE job_id = j.id AND schedule_version = j.schedule_version AND j.in_bucket AND j.next_fire_at IS NULL LIMIT 1
) AS e ON true
WHERE j.id = ANY (%(ids)s::uuid[])

-- name: unfinished
-- Of a job: those that may not overlap by their index, of the others those among its last ones.
SELECT id FROM (
    (SELECT id, scheduled_for FROM scheduling_fire
     WHERE job_id = %(job)s AND exclusive AND state IN ('claimed', 'parked', 'retry_wait', 'running')
     ORDER BY scheduled_for LIMIT %(limit)s)
    UNION
    (SELECT id, scheduled_for FROM (
        SELECT id, scheduled_for, state FROM scheduling_fire WHERE job_id = %(job)s ORDER BY scheduled_for DESC LIMIT %(seen)s
     ) AS last WHERE state IN ('claimed', 'parked', 'retry_wait', 'running')
     ORDER BY scheduled_for LIMIT %(limit)s)
) AS found
ORDER BY scheduled_for, id LIMIT %(limit)s

-- name: owners
SELECT s.id, coalesce(s.owner_id, ''), coalesce(n.lease_until > clock_timestamp(), false)
FROM scheduling_shard s LEFT JOIN scheduling_node n ON n.id = s.owner_id

-- name: waits
-- What waits of a tenant: parked for it, due to be tried again, or claimed and not published; not what a pause holds.
SELECT w.*, j.lane, j.task FROM (
    (SELECT f.job_id, f.id, f.fire_at, f.wake_at, f.claimed_at, f.attempt, f.origin, f.seq_epoch, f.seq FROM scheduling_fire f
     WHERE f.shard_id = ANY (%(shards)s::smallint[]) AND f.tenant_id = %(tenant)s AND f.state IN ('parked', 'retry_wait')
       AND (f.wake_at <= %(now)s OR f.reason IN ('share', 'rate', 'cap', 'budget'))
     LIMIT %(limit)s)
    UNION ALL
    (SELECT f.job_id, f.id, f.fire_at, f.wake_at, f.claimed_at, f.attempt, f.origin, f.seq_epoch, f.seq
     FROM scheduling_shardprogress p
     CROSS JOIN LATERAL (
         SELECT * FROM scheduling_fire
         WHERE shard_id = p.shard_id AND state = 'claimed' AND (seq_epoch, seq) > (p.seq_epoch, p.seq) AND tenant_id = %(tenant)s
           AND fire_at <= %(now)s
         LIMIT %(limit)s
     ) AS f
     WHERE p.shard_id = ANY (%(shards)s::smallint[]))
    LIMIT %(limit)s
) AS w
JOIN scheduling_job j ON j.id = w.job_id
WHERE j.paused_at IS NULL OR w.origin <> ''

-- name: line
-- Of each (lane, task) how much waits of a tenant, and how much is before each fire that is asked for. Those that came due at the same
-- instant go as they were claimed.
WITH waits AS MATERIALIZED ({waits}), placed AS (
    SELECT id, lane, task, row_number() OVER (
        PARTITION BY lane, task ORDER BY CASE WHEN attempt = 0 THEN fire_at ELSE claimed_at END, claimed_at, seq_epoch, seq, id
    ) - 1 AS ahead FROM waits
)
SELECT NULL::uuid, lane, task, count(*) FROM waits GROUP BY lane, task
UNION ALL SELECT id, lane, task, ahead FROM placed WHERE id = ANY (%(ids)s::uuid[])

-- name: in_line
-- The first part of it alone.
SELECT lane, task, count(*) FROM ({waits}) AS waits GROUP BY lane, task

-- name: due_line
-- The places of some jobs among those of their tenant and lane that are due and not claimed, as they came due. Of each shard so many are
-- looked at: one that has as many is told itself, as a place without a job; what is asked for and lies beyond them has its place behind
-- those that were looked at.
WITH due AS (
    SELECT w.shard, j.* FROM unnest(%(shards)s::smallint[]) AS w(shard)
    CROSS JOIN LATERAL (
        (SELECT id, lane, next_fire_at AS fire_at, ctid AS place FROM scheduling_job
         WHERE shard_id = w.shard AND tenant_id = %(tenant)s AND next_fire_at <= %(until)s ORDER BY next_fire_at LIMIT %(limit)s)
        UNION ALL
        (SELECT e.job_id, k.lane, e.fire_at, e.ctid FROM (
            SELECT job_id, fire_at, ctid FROM scheduling_entry
            WHERE shard_id = w.shard AND bucket <= floor(extract(epoch FROM %(until)s::timestamptz))::bigint AND tenant_id = %(tenant)s
              AND fire_at <= %(until)s LIMIT %(limit)s
         ) AS e JOIN scheduling_job k ON k.id = e.job_id)
    ) AS j
), cut AS (
    SELECT shard FROM due GROUP BY shard HAVING count(*) >= %(limit)s
), placed AS (
    SELECT id, row_number() OVER (PARTITION BY lane ORDER BY fire_at, place) - 1 AS ahead FROM (
        SELECT id, lane, fire_at, place FROM due
        UNION ALL
        SELECT a.id, a.lane, a.fire_at, NULL
        FROM unnest(%(ids)s::uuid[], %(of_shards)s::smallint[], %(lanes)s::text[], %(fire_ats)s::timestamptz[]) AS a(id, shard, lane, fire_at)
        WHERE a.shard IN (SELECT shard FROM cut) AND a.id NOT IN (SELECT id FROM due)
    ) AS known
)
SELECT id, ahead FROM placed WHERE id = ANY (%(ids)s::uuid[])
UNION ALL SELECT NULL::uuid, shard FROM cut

-- name: ahead_of_job
-- Of fires that wait for earlier ones of their jobs: the first of these, running ones before the others.
SELECT r.id, a.id, a.state, a.scheduled_for
FROM unnest(%(ids)s::uuid[], %(job_ids)s::uuid[], %(scheduled_fors)s::timestamptz[], %(history_days)s::smallint[])
    AS r(id, job_id, scheduled_for, history_days)
CROSS JOIN LATERAL (
    SELECT id, state, scheduled_for FROM scheduling_fire f
    WHERE f.job_id = r.job_id AND f.history_days = r.history_days AND f.exclusive AND f.id <> r.id
      AND f.state IN ('claimed', 'parked', 'retry_wait', 'running')
      AND (f.state = 'running' OR (f.scheduled_for, f.id) < (r.scheduled_for, r.id))
    ORDER BY f.state <> 'running', f.scheduled_for, f.id LIMIT %(limit)s
) AS a

-- name: running
-- Some of what runs of a tenant. (As many fires run as workers have slots: these are few.)
SELECT f.id, j.lane, j.task, f.started_at FROM scheduling_fire f JOIN scheduling_job j ON j.id = f.job_id
WHERE f.state = 'running' AND f.shard_id = ANY (%(shards)s::smallint[]) AND f.tenant_id = %(tenant)s
ORDER BY f.started_at LIMIT %(limit)s

-- name: slots
-- Whose the places under a tenant's strict caps are: fires that took them under their fence, and are on their way to a worker, or run.
SELECT s.lane, s.task, s.fire_id, s.taken_at FROM scheduling_slot s
CROSS JOIN LATERAL (
    SELECT id FROM scheduling_fire f
    WHERE (f.scheduled_for, f.id, f.history_days) = (s.scheduled_for, s.fire_id, s.history_days) AND f.fence = s.fence
      AND f.state IN ('claimed', 'running')
) AS f
WHERE s.tenant_id = %(tenant)s
ORDER BY s.taken_at
