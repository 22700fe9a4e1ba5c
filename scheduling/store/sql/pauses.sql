-- Pauses, as people make and end them, and as the owner of a shard ends those whose time has come. The jobs are locked first; a
-- second statement looks at their fires, so that neither a claim nor an acquire in flight slips through.

-- name: lock
-- In the order in which claims lock theirs.
SELECT id FROM scheduling_job WHERE id = ANY (%(job_ids)s::uuid[]) ORDER BY id FOR UPDATE

-- name: pause
-- A job that is paused already stays paused since when it was: only why, by whom and until when are said anew.
UPDATE scheduling_job
SET paused_at = coalesce(paused_at, %(now)s), paused_until = %(until)s, paused_by = %(by)s, pause_reason = %(reason)s,
    catch_up = %(catch_up)s
WHERE id = ANY (%(job_ids)s::uuid[]) AND deleted_at IS NULL
RETURNING id, shard_id

-- name: skip
-- The schedule's own fires that have not started; they are no runs, so max_runs does not count them. What was published stays
-- claimed for ever if its task is a plain Celery task, which never acquires: so it is skipped only where a worker has acquired
-- some fire of the job. (Else its acquire, if there will be one, finds the pause.) The shards, and the form of the first condition
-- on state, let the planner choose between the history of the job and what waits in its shard.
WITH job AS MATERIALIZED (
    SELECT j.id, p.seq_epoch, p.seq, EXISTS (SELECT FROM scheduling_fire r WHERE r.job_id = j.id AND r.started_at IS NOT NULL) AS acquires
    FROM scheduling_job j JOIN scheduling_shardprogress p ON p.shard_id = j.shard_id
    WHERE j.id = ANY (%(job_ids)s::uuid[])
), held AS MATERIALIZED (  -- in the order in which all lock fires: values.lock_order
    SELECT f.scheduled_for, f.id, f.history_days FROM job j JOIN scheduling_fire f ON f.job_id = j.id
    WHERE f.job_id = ANY (%(job_ids)s::uuid[]) AND f.shard_id = ANY (%(shards)s::smallint[])
      AND f.origin = '' AND f.attempt = 0 AND (f.state = 'claimed' OR f.state IN ('parked', 'retry_wait'))
      AND (f.state <> 'claimed' OR j.acquires OR NOT (f.confirmed OR coalesce((f.seq_epoch, f.seq) <= (j.seq_epoch, j.seq), false)))
    ORDER BY f.shard_id, f.fire_at, f.id
    FOR NO KEY UPDATE OF f
), skipped AS (
    UPDATE scheduling_fire f
    SET state = 'skipped', reason = 'paused', wake_at = NULL, finished_at = clock_timestamp()
    FROM held h
    WHERE (f.scheduled_for, f.id, f.history_days) = (h.scheduled_for, h.id, h.history_days)
    RETURNING f.job_id
), counted AS (
    SELECT job_id, count(*) AS fires FROM skipped GROUP BY job_id
), uncounted AS (
    UPDATE scheduling_job j SET fired = CASE WHEN j.in_bucket THEN j.fired - c.fires ELSE greatest(0, j.fired - c.fires) END
    FROM counted c WHERE j.id = c.job_id
)
SELECT coalesce(sum(fires), 0) FROM counted

-- name: end_now
-- The pause ends now, with this choice; or earlier, where its time had come before.
UPDATE scheduling_job SET paused_until = least(paused_until, %(now)s), catch_up = %(catch_up)s
WHERE id = ANY (%(job_ids)s::uuid[]) AND paused_at IS NOT NULL AND deleted_at IS NULL
RETURNING id, shard_id

-- name: is_over
-- Every occurrence within the pause has its row: what a claim has yet to see would else be judged as if there had been no pause.
paused_until <= %(now)s AND NOT in_bucket AND (next_fire_at IS NULL OR next_fire_at >= paused_until)

-- name: over
SELECT j.id
FROM unnest(%(shards)s::smallint[]) AS owned(shard)
CROSS JOIN LATERAL (
    SELECT id FROM scheduling_job
    WHERE shard_id = owned.shard AND deleted_at IS NULL AND {is_over}
    ORDER BY paused_until LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
) AS j

-- name: reach
-- How far back a catch-up goes. (A window may be longer than a timestamp can tell.)
least(e.catch_up_window, interval '1000 years')

-- name: of_pause
-- Rows that this pause, and none before it, has taken; one that stands for several occurrences stays as it is.
FROM scheduling_fire f
WHERE f.job_id = e.id AND f.origin = '' AND f.state = 'skipped' AND f.reason = 'paused' AND f.attempt = 0 AND f.covers = 1
  AND f.scheduled_for >= e.paused_at - {reach} AND fairbeat_job_time(f.finished_at) >= e.paused_at

-- name: end
-- What its catch-up choice brings back is due now: the newest occurrence, or the last catch_up_limit of those within
-- catch_up_window. What a claim, which looks ahead, took although it is due after the end comes back for its time, whatever the
-- choice. Where max_runs leaves fewer, the earliest of them run, and the schedule is at its end. The owner is told that something is due.
WITH ending AS MATERIALIZED (
    SELECT id, paused_at, paused_until, catch_up, catch_up_limit, catch_up_window, max_runs - fired AS runs_left
    FROM scheduling_job WHERE id = ANY (%(job_ids)s::uuid[]) AND {is_over}
), back AS (
    SELECT w.*, e.runs_left, row_number() OVER (PARTITION BY e.id ORDER BY w.scheduled_for, w.id) AS place
    FROM ending e
    CROSS JOIN LATERAL (
        (SELECT f.scheduled_for, f.id, f.history_days {of_pause} AND f.fire_at < e.paused_until
            AND (e.catch_up = 'latest' OR f.scheduled_for >= %(now)s::timestamptz - {reach})
         ORDER BY f.scheduled_for DESC
         LIMIT CASE e.catch_up WHEN 'latest' THEN 1 WHEN 'all' THEN e.catch_up_limit ELSE 0 END)
        UNION ALL
        SELECT f.scheduled_for, f.id, f.history_days {of_pause} AND f.fire_at >= e.paused_until
    ) AS w
), held AS MATERIALIZED (  -- in the order in which all lock fires: values.lock_order
    SELECT f.scheduled_for, f.id, f.history_days
    FROM back b JOIN scheduling_fire f ON (f.scheduled_for, f.id, f.history_days) = (b.scheduled_for, b.id, b.history_days)
    WHERE b.runs_left IS NULL OR b.place <= b.runs_left
    ORDER BY f.shard_id, f.fire_at, f.id
    FOR NO KEY UPDATE OF f
), resumed AS (
    UPDATE scheduling_fire f
    SET state = 'retry_wait', reason = 'resumed', fence = f.fence + 1, fire_at = greatest(f.fire_at, %(now)s),
        wake_at = greatest(f.fire_at, %(now)s), finished_at = NULL, seq_epoch = NULL, seq = NULL, claimed_until = NULL, confirmed = false
    FROM held h
    WHERE (f.scheduled_for, f.id, f.history_days) = (h.scheduled_for, h.id, h.history_days)
    RETURNING f.job_id
), counted AS (
    SELECT e.id, count(r.job_id)::integer AS fires FROM ending e LEFT JOIN resumed r ON r.job_id = e.id GROUP BY e.id
)
UPDATE scheduling_job j
SET paused_at = NULL, paused_until = NULL, paused_by = '', pause_reason = '', catch_up = 'none', fired = j.fired + c.fires,
    next_scheduled_for = CASE WHEN j.max_runs <= j.fired + c.fires THEN NULL ELSE j.next_scheduled_for END,
    next_fire_at = CASE WHEN j.max_runs <= j.fired + c.fires THEN NULL ELSE j.next_fire_at END
FROM counted c
WHERE j.id = c.id
RETURNING j.id, c.fires, CASE WHEN c.fires > 0 THEN pg_notify('fairbeat', j.shard_id::text) END
