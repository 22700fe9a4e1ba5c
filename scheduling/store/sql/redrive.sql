-- Redrives: what a person asks for (service), and what a node does about it, a second's worth at a time. A node waits for nobody here:
-- what someone else holds just now is left to the next second. Locks go shard, job, fire, letter; but a redrive that has its letters
-- waits for no fire, since a dead row is nobody else's.

-- name: is_open
r.stopped_at IS NULL AND r.finished_at IS NULL

-- name: standing
-- Whether a letter d can be redriven, or what is against it.
CASE WHEN d.redriven_at IS NOT NULL THEN 'redriven'
     WHEN d.fire_id IS NULL THEN 'no_fire'
     WHEN j.id IS NULL THEN 'deleted'
     WHEN r.id IS NOT NULL THEN 'under_way'
     ELSE 'ready' END

-- name: with_standing
scheduling_deadletter d
LEFT JOIN scheduling_job j ON j.id = d.job_id AND j.deleted_at IS NULL
LEFT JOIN scheduling_redrive r ON r.id = d.redrive_id AND {is_open}

-- name: standings
SELECT {standing}, count(*) FROM {with_standing} WHERE d.id = ANY (%(letters)s::bigint[]) GROUP BY 1

-- name: one_at_a_time
-- Who marks or discards letters sees what the one before him has marked: a second click finds them under way, and takes them from nobody.
SELECT pg_advisory_xact_lock(hashtext('fairbeat redrives'))

-- name: mark
WITH held AS MATERIALIZED (  -- in the order in which all lock letters
    SELECT d.id FROM {with_standing}
    WHERE d.id = ANY (%(letters)s::bigint[]) AND {standing} = 'ready'
    ORDER BY d.id
    FOR NO KEY UPDATE OF d
)
UPDATE scheduling_deadletter d SET redrive_id = %(redrive)s FROM held WHERE d.id = held.id

-- name: begin
-- Its rate counts from here.
UPDATE scheduling_redrive SET total = %(total)s, asked_at = clock_timestamp() WHERE id = %(redrive)s

-- name: stop
UPDATE scheduling_redrive r SET stopped_at = clock_timestamp() WHERE r.id = %(redrive)s AND {is_open}

-- name: open
SELECT r.id FROM scheduling_redrive r WHERE {is_open} ORDER BY r.id

-- name: of_redrive
redrive_id = %(redrive)s AND redriven_at IS NULL

-- name: hold
-- One node carries it out, and whoever stops it waits for what is being moved. Letters are moved in the order of their ids: so the one
-- that was moved last is close before the first that was not. The last column is the speed of the job clock.
SELECT r.rate_per_s, r.moved + r.skipped, extract(epoch FROM clock_timestamp() - r.asked_at)::float8,
    extract(epoch FROM clock_timestamp() - greatest(r.asked_at, (
        SELECT d.redriven_at
        FROM (
            SELECT id, redrive_id, redriven_at FROM scheduling_deadletter
            WHERE id < (SELECT id FROM scheduling_deadletter WHERE {of_redrive} ORDER BY id LIMIT 1)
            ORDER BY id DESC LIMIT 10000  -- those in between are other people's: no reason to look for ever
        ) AS d
        WHERE d.redrive_id = r.id
        ORDER BY d.id DESC LIMIT 1)))::float8,
    extract(epoch FROM fairbeat_job_time(now() + interval '1 s') - fairbeat_job_time(now()))::float8
FROM scheduling_redrive r WHERE r.id = %(redrive)s AND {is_open}
FOR NO KEY UPDATE OF r SKIP LOCKED

-- name: take
-- Its next letters, and how things stand with their fires.
SELECT d.id, d.fire_id, d.scheduled_for, d.history_days, d.job_id,
    CASE WHEN j.id IS NULL THEN 'deleted' ELSE coalesce(f.state, 'gone') END
FROM (
    SELECT id, fire_id, scheduled_for, history_days, job_id FROM scheduling_deadletter
    WHERE {of_redrive}
    ORDER BY id LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
) AS d
LEFT JOIN scheduling_job j ON j.id = d.job_id AND j.deleted_at IS NULL
LEFT JOIN scheduling_fire f ON (f.scheduled_for, f.id, f.history_days) = (d.scheduled_for, d.fire_id, d.history_days)
ORDER BY d.id

-- name: jobs
-- Not while a person pauses, edits or deletes them; workers and claims are not in the way. (The condition holds of the row as it is
-- once it is locked.)
SELECT id, tenant_id, shard_id, max_attempts FROM scheduling_job
WHERE id = ANY (%(job_ids)s::uuid[]) AND deleted_at IS NULL
FOR KEY SHARE SKIP LOCKED

-- name: move
-- A death without a start counts as one, so that nothing takes the fire for an occurrence that is new: it never expires, is no
-- misfire, and waits where runs may not overlap.
WITH job AS MATERIALIZED ({jobs})
UPDATE scheduling_fire f
SET state = 'retry_wait', reason = 'redriven', fence = f.fence + 1, attempt = greatest(f.attempt, 1),
    max_attempts = greatest(f.attempt, 1) + job.max_attempts, wake_at = l.wake_at, holder = NULL, lease_until = NULL, finished_at = NULL,
    cancel_reason = '', sent_again_at = NULL, seq_epoch = NULL, seq = NULL, claimed_until = NULL, confirmed = false
FROM unnest(
    %(letters)s::bigint[], %(ids)s::uuid[], %(scheduled_fors)s::timestamptz[], %(history_days)s::smallint[], %(wake_ats)s::timestamptz[]
) AS l(letter, id, scheduled_for, history_days, wake_at), job
WHERE (f.scheduled_for, f.id, f.history_days) = (l.scheduled_for, l.id, l.history_days) AND f.job_id = job.id AND f.state = 'dead'
RETURNING l.letter

-- name: make
-- The same of fires whose rows are gone with their day. (One that is there nevertheless is found by the next second.)
WITH job AS MATERIALIZED ({jobs}), made AS (
    INSERT INTO scheduling_fire (
        id, job_id, tenant_id, shard_id, history_days, scheduled_for, fire_at, origin, schedule_version, state, reason, fence, attempt,
        max_attempts, exclusive, wake_at)
    SELECT d.fire_id, job.id, job.tenant_id, job.shard_id, d.history_days, d.scheduled_for, d.fire_at, d.origin, d.schedule_version,
        'retry_wait', 'redriven', d.fence + 1, greatest(d.attempts, 1), greatest(d.attempts, 1) + job.max_attempts, d.exclusive, l.wake_at
    FROM unnest(%(letters)s::bigint[], %(wake_ats)s::timestamptz[]) AS l(letter, wake_at)
    JOIN scheduling_deadletter d ON d.id = l.letter
    JOIN job ON job.id = d.job_id
    ON CONFLICT (job_id, scheduled_for, origin, history_days) DO NOTHING
    RETURNING id
)
SELECT d.id FROM made JOIN scheduling_deadletter d ON d.fire_id = made.id

-- name: note_moved
UPDATE scheduling_deadletter SET redriven_at = clock_timestamp(), redrives = redrives + 1 WHERE id = ANY (%(letters)s::bigint[])

-- name: note_skipped
-- They wait for someone to decide, as before.
UPDATE scheduling_deadletter SET redrive_id = NULL WHERE id = ANY (%(letters)s::bigint[])

-- name: count
UPDATE scheduling_redrive
SET moved = moved + %(moved)s, skipped = skipped + %(skipped)s,
    finished_at = CASE WHEN NOT EXISTS (SELECT FROM scheduling_deadletter WHERE {of_redrive}) THEN clock_timestamp() END
WHERE id = %(redrive)s

-- name: discard
-- With the steps of fires whose rows are gone, which nothing else keeps.
WITH held AS MATERIALIZED (
    SELECT d.id FROM {with_standing}
    WHERE d.id = ANY (%(letters)s::bigint[]) AND {standing} <> 'under_way'
    ORDER BY d.id
    FOR UPDATE OF d
), discarded AS (
    DELETE FROM scheduling_deadletter d USING held WHERE d.id = held.id
    RETURNING d.fire_id, d.scheduled_for, d.history_days
), forgotten AS (
    DELETE FROM scheduling_step s USING discarded d
    WHERE s.fire_id = d.fire_id AND NOT EXISTS (
        SELECT FROM scheduling_fire f WHERE (f.scheduled_for, f.id, f.history_days) = (d.scheduled_for, d.fire_id, d.history_days))
)
SELECT count(*) FROM discarded
