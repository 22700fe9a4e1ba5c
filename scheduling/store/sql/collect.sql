-- What the collector of the broker's dead letters reads and writes. A fire is written only while it waits, claimed, for the very message
-- that died: under its fence. So a message that is collected twice changes nothing more.

-- name: row
f.scheduled_for = %(scheduled_for)s AND f.id = %(fire_id)s AND f.history_days = %(history_days)s

-- name: named
-- With the bounds the planner leaves alone the days on which none of these fires is.
unnest(%(scheduled_fors)s::timestamptz[], %(fire_ids)s::uuid[], %(history_days)s::smallint[], %(fences)s::integer[])
    AS m(scheduled_for, id, history_days, fence)
JOIN scheduling_fire f ON (f.scheduled_for, f.id, f.history_days) = (m.scheduled_for, m.id, m.history_days)
    AND f.scheduled_for BETWEEN %(earliest)s AND %(latest)s

-- name: lock
-- Those that may be written, in the order in which whoever locks many locks them.
SELECT count(*) FROM (
    SELECT FROM {named} WHERE f.state = 'claimed' AND f.fence = m.fence
    ORDER BY f.shard_id, f.fire_at, f.id
    FOR NO KEY UPDATE OF f
) AS locked

-- name: standings
SELECT DISTINCT f.id, f.state, f.fence, f.job_id, t.slug, f.attempt, f.max_attempts,
    least(f.attempt, j.max_attempts - f.max_attempts + f.attempt), j.deleted_at IS NOT NULL, j.retry_base, j.retry_cap
FROM {named}
JOIN scheduling_job j ON j.id = f.job_id JOIN fairness_tenant t ON t.id = f.tenant_id

-- name: known_tasks
SELECT name, is_guarded FROM scheduling_workertask WHERE name = ANY (%(tasks)s)

-- name: record_run
-- The attempt that the broker lost; nobody is known to have held it.
INSERT INTO scheduling_jobrun (id, fire_id, fence, job_id, tenant_id, history_days, scheduled_for, attempt, state,
    holder, started_at, finished_at, error)
SELECT %(run_id)s, e.id, %(fence)s, e.job_id, e.tenant_id, e.history_days, e.scheduled_for, e.attempt, 'lost',
    %(nobody)s, statement_timestamp(), statement_timestamp(), %(error)s
FROM ended e WHERE %(is_attempt)s
ON CONFLICT DO NOTHING

-- name: facts
e.attempt, e.origin, j.name, j.task

-- name: give_back
WITH ended AS (
    UPDATE scheduling_fire f
    SET state = 'retry_wait', reason = %(reason)s, fence = f.fence + 1, attempt = f.attempt + 1,
        wake_at = fairbeat_job_now() + %(wait)s::interval, claimed_until = NULL
    WHERE {row} AND f.fence = %(fence)s AND f.state = 'claimed'
    RETURNING f.*
), run AS ({record_run})
SELECT {facts}, CASE WHEN %(wait)s::interval <= '2 s' THEN pg_notify('fairbeat', e.shard_id::text) END
FROM ended e JOIN scheduling_job j ON j.id = e.job_id

-- name: let_die
-- What waits for its turn behind it is due now.
WITH ended AS (
    UPDATE scheduling_fire f
    SET state = 'dead', reason = %(reason)s, fence = f.fence + 1, attempt = f.attempt + %(is_attempt)s::integer,
        claimed_until = NULL, finished_at = clock_timestamp()
    WHERE {row} AND f.fence = %(fence)s AND f.state = 'claimed'
    RETURNING f.*
), run AS ({record_run})
, died AS (
    SELECT e.*, %(error)s::text AS error, ''::text AS traceback, %(essence)s::text AS essence, ''::text AS worker FROM ended e
), letters AS ({dead_letter}) {wake_next}
SELECT {facts}, (SELECT count(*) FROM hinted) FROM ended e JOIN scheduling_job j ON j.id = e.job_id

-- name: note_origin
-- Of a fire's dead letter: where its message died, and what could not be read of it.
UPDATE scheduling_deadletter SET queue = %(queue)s, message = %(message)s WHERE fire_id = %(fire_id)s

-- name: one_at_a_time
-- Until the end of the transaction; so that the look for what was kept before sees what others keep.
SELECT pg_advisory_xact_lock(hashtext('fairbeat dead letters'))

-- name: keep
-- A message that is no fire's. It bears no key: but only one that was delivered before can have been kept before.
INSERT INTO scheduling_deadletter (tenant_id, task, reason, error, fingerprint, queue, message, died_at)
SELECT (SELECT id FROM fairness_tenant WHERE slug = %(owner)s), %(task)s, %(reason)s, %(error)s, %(fingerprint)s, %(queue)s, %(message)s,
    %(died_at)s
WHERE NOT %(is_redelivered)s OR NOT EXISTS (
    SELECT FROM scheduling_deadletter l
    WHERE l.died_at = %(died_at)s AND l.fire_id IS NULL AND l.queue = %(queue)s AND l.task = %(task)s AND l.error = %(error)s
      AND l.message = %(message)s
)
RETURNING id
