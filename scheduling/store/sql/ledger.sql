-- What a worker reads and writes. Every write names the fire's row by its whole primary key, so that one partition is
-- touched, and carries fence and holder. Statements of a worker run outside a transaction, but for the completion in ctx.commit().
-- {fires} and {runs} may be the partitions themselves: ledger_session.py. {mortal} and {dead_letter} are of dead_letters.sql.

-- name: fires
scheduling_fire

-- name: runs
scheduling_jobrun

-- name: table_beyond_scans
-- Null while Postgres might rather read these tables whole than by their index: that takes some ten pages.
CASE WHEN least(pg_relation_size(f.tableoid), pg_relation_size('scheduling_job')) >= 262144 THEN f.tableoid::regclass::text END

-- name: row
f.scheduled_for = %(scheduled_for)s AND f.id = %(fire_id)s AND f.history_days = %(history_days)s

-- name: held
{row} AND f.fence = %(fence)s AND f.holder = %(holder)s AND f.state = 'running'

-- name: job
SELECT id, paused_at, paused_until, deleted_at, schedule_version, schedule_changed_at, expires_after, max_attempts, retry_base, retry_cap,
    CASE WHEN paused_at IS NOT NULL OR expires_after IS NOT NULL THEN fairbeat_job_now() END AS now
FROM scheduling_job WHERE id = %(job_id)s
FOR KEY SHARE

-- name: counted
-- Which of the attempts that count this is: snoozes and redrives have given the fire more than its job gives.
greatest(1, least(f.attempt, job.max_attempts - f.max_attempts + f.attempt))

-- name: acquired
f.reason, f.attempt, {counted}, f.max_attempts, f.exclusive, job.retry_base, job.retry_cap, {table_beyond_scans}

-- name: is_paused
f.origin = '' AND %(asked_for)s = '' AND job.paused_at IS NOT NULL AND job.now < coalesce(job.paused_until, 'infinity')

-- name: acquire
-- The lock on the job waits for a pause, an edit or a delete in flight (they hold it FOR UPDATE), and is read as they left it;
-- it does not wait for a claim. What may not run is skipped by the same statement. A fire that was started before is not: that of a
-- paused job is left to ``hold_back``, that of a deleted one to ``bury``.
WITH job AS MATERIALIZED ({job})
UPDATE {fires} f
SET (state, reason, attempt, holder, started_at, lease_until, wake_at, finished_at) = (
    SELECT
        CASE WHEN verdict = '' THEN 'running' ELSE 'skipped' END,
        verdict,
        CASE WHEN verdict = '' AND f.state = 'claimed' THEN f.attempt + 1 ELSE f.attempt END,
        CASE WHEN verdict = '' THEN %(holder)s::uuid END,
        CASE WHEN verdict = '' AND f.state = 'claimed' THEN clock_timestamp() ELSE f.started_at END,
        CASE WHEN verdict = '' THEN clock_timestamp() + %(lease)s::interval END,
        NULL::timestamptz,
        CASE WHEN verdict <> '' THEN clock_timestamp() END
    FROM (SELECT CASE
        WHEN f.attempt > 0 THEN ''
        WHEN job.deleted_at IS NOT NULL THEN 'cancelled'
        WHEN {is_paused} THEN 'paused'
        WHEN f.origin = '' AND f.schedule_version < job.schedule_version AND job.schedule_changed_at < f.scheduled_for THEN 'superseded'
        WHEN f.fire_at + job.expires_after <= job.now THEN 'expired'
        ELSE '' END AS verdict) AS judged
)
FROM job
WHERE {row} AND f.job_id = job.id AND f.tenant_id = %(tenant_id)s AND f.fence = %(fence)s
  AND (f.state = 'claimed' AND (f.attempt = 0 OR job.deleted_at IS NULL AND NOT ({is_paused}))
       OR f.state = 'running' AND f.holder = %(holder)s)
RETURNING {acquired}

-- name: hold_back
-- A claimed fire that was started before: its owner gets it back, and keeps it until its job is resumed. But one that a person has
-- redriven runs, whatever the pause says, until it dies again.
WITH job AS MATERIALIZED ({job})
UPDATE {fires} f SET state = 'retry_wait', reason = 'paused', wake_at = job.now
FROM job
WHERE {row} AND f.job_id = job.id AND f.fence = %(fence)s AND f.state = 'claimed' AND f.attempt > 0 AND {is_paused} AND NOT ({asked_for})
RETURNING f.id

-- name: asked_for
coalesce((SELECT d.redriven_at IS NOT NULL FROM scheduling_deadletter d WHERE d.fire_id = f.id), false)

-- name: who_asked_for
SELECT CASE WHEN {asked_for} THEN 'redriven' ELSE '' END FROM scheduling_fire f WHERE {row}

-- name: acquire_unhindered
-- The same of a claimed fire whose job stands as it did, as most do; what is not so is left to ``acquire``. It judges in its
-- conditions, at three quarters of the cost.
UPDATE {fires} f
SET state = 'running', reason = '', attempt = f.attempt + 1, holder = %(holder)s, started_at = clock_timestamp(),
    lease_until = clock_timestamp() + %(lease)s::interval, wake_at = NULL, finished_at = NULL
FROM ({job}) AS job
WHERE {row} AND f.job_id = job.id AND f.tenant_id = %(tenant_id)s AND f.fence = %(fence)s AND f.state = 'claimed'
  AND job.deleted_at IS NULL AND job.expires_after IS NULL
  AND (f.origin <> '' OR job.paused_at IS NULL AND (
      f.attempt > 0 OR f.schedule_version >= job.schedule_version OR job.schedule_changed_at >= f.scheduled_for))
RETURNING {acquired}

-- name: tenant
SELECT id FROM fairness_tenant WHERE slug = %(tenant)s

-- name: standing
SELECT f.state, f.reason, f.fence, f.holder, f.attempt, f.job_id <> %(job_id)s OR f.tenant_id IS DISTINCT FROM ({tenant}),
    (SELECT j.deleted_at IS NULL FROM scheduling_job j WHERE j.id = f.job_id)
FROM scheduling_fire f WHERE {row}

-- name: standing_locked
SELECT f.state, f.reason, f.fence, f.holder FROM scheduling_fire f WHERE {row} FOR UPDATE

-- name: between
f.scheduled_for BETWEEN %(earliest)s AND %(latest)s

-- name: named
unnest(
    %(scheduled_fors)s::timestamptz[], %(fire_ids)s::uuid[], %(history_days)s::smallint[], %(fences)s::integer[], %(holders)s::uuid[]
) AS m(scheduled_for, id, history_days, fence, holder)
JOIN scheduling_fire f ON (f.scheduled_for, f.id, f.history_days) = (m.scheduled_for, m.id, m.history_days)
    AND f.fence = m.fence AND f.holder = m.holder

-- name: heartbeat
-- A row that is locked, perhaps by its own task's open transaction, must not hold up the others. With the bounds the planner
-- leaves alone the days on which none of these fires is.
WITH mine AS (
    SELECT f.scheduled_for, f.id, f.history_days FROM {named} WHERE f.state = 'running' AND {between}
    FOR NO KEY UPDATE OF f SKIP LOCKED
)
UPDATE scheduling_fire f SET lease_until = clock_timestamp() + %(lease)s::interval
FROM mine
WHERE (f.scheduled_for, f.id, f.history_days) = (mine.scheduled_for, mine.id, mine.history_days) AND {between}
RETURNING f.holder, f.cancel_reason

-- name: still_mine
-- Of those that were not renewed: which are still this holder's, running or just ended by it.
SELECT f.holder, CASE WHEN f.state = 'running' THEN f.cancel_reason ELSE '' END FROM {named} WHERE {between}

-- name: ended
f.id, f.job_id, f.tenant_id, f.shard_id, f.history_days, f.scheduled_for, f.attempt, f.started_at, f.state

-- name: record_run
INSERT INTO {runs} (id, fire_id, fence, job_id, tenant_id, history_days, scheduled_for, attempt, state,
    holder, worker, started_at, finished_at, result, error, traceback)
SELECT %(run_id)s, e.id, %(fence)s, e.job_id, e.tenant_id, e.history_days, e.scheduled_for, e.attempt, %(run_state)s,
    %(holder)s, %(worker)s, e.started_at, greatest(clock_timestamp(), e.started_at), %(result)s, %(error)s, %(traceback)s
FROM ended e

-- name: wake_next
-- The end of a run that may not overlap: the first that waits for its turn is due now, and its owner hears of it. Not looked for
-- in days long past, which would lock every partition: one that waits there is found by its owner's poll.
, woken AS (
    UPDATE scheduling_fire s SET wake_at = fairbeat_job_now()
    FROM (
        SELECT w.scheduled_for, w.id, w.history_days
        FROM scheduling_fire w
        WHERE w.job_id = %(job_id)s AND w.history_days = %(history_days)s AND w.scheduled_for >= %(day_before)s
          AND w.exclusive AND w.state = 'parked' AND w.reason = 'overlap' AND EXISTS (SELECT FROM ended)
        ORDER BY w.scheduled_for, w.id LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS next
    WHERE (s.scheduled_for, s.id, s.history_days) = (next.scheduled_for, next.id, next.history_days)
      AND s.history_days = %(history_days)s AND s.scheduled_for >= %(day_before)s
    RETURNING s.shard_id
), hinted AS (
    SELECT pg_notify('fairbeat', shard_id::text) FROM woken
)

-- name: succeed
UPDATE {fires} f
SET state = 'succeeded', reason = '', lease_until = NULL, finished_at = greatest(clock_timestamp(), f.started_at)
WHERE {held}
RETURNING {ended}

-- name: limit_commit
set_config('idle_in_transaction_session_timeout', '5s', true)

-- name: complete
-- The timeout is for ctx.commit(), where this is the last statement before the COMMIT: a worker that freezes or vanishes here
-- must not leave the outcome in doubt for long. It ends with the transaction.
WITH ended AS ({succeed})
{record_run}
RETURNING {limit_commit}

-- name: complete_exclusive
WITH ended AS ({succeed}) {wake_next}
{record_run}
RETURNING {limit_commit}, (SELECT count(*) FROM hinted)

-- name: give_back
-- What was asked to stop does not come back.
UPDATE {fires} f
SET state = 'retry_wait', reason = %(reason)s, fence = f.fence + 1, max_attempts = f.max_attempts + %(uncounted)s,
    holder = NULL, lease_until = NULL, wake_at = fairbeat_job_now() + %(delay)s::interval
WHERE {held} AND f.cancel_reason = '' AND f.attempt < f.max_attempts + %(uncounted)s
RETURNING {ended}

-- name: hint_retry
(SELECT count(pg_notify('fairbeat', e.shard_id::text)) FROM ended e WHERE %(delay)s::interval <= '2 s')

-- name: retry
-- Most failures: no dead letter is thought of.
WITH ended AS ({give_back}), run AS ({record_run})
SELECT e.state, {hint_retry} FROM ended e

-- name: retry_exclusive
WITH ended AS ({give_back}), run AS ({record_run}) {wake_next}
SELECT e.state, {hint_retry}, (SELECT count(*) FROM hinted) FROM ended e

-- name: end_for_good
UPDATE {fires} f
SET state = 'dead', reason = CASE WHEN f.cancel_reason = '' THEN %(reason)s ELSE 'cancelled' END,
    fence = f.fence + 1, holder = NULL, lease_until = NULL, finished_at = greatest(clock_timestamp(), f.started_at)
WHERE {held}
RETURNING f.*

-- name: died
SELECT {mortal}, CASE WHEN %(line)s = '' THEN f.cancel_reason ELSE %(line)s END AS error,
    %(traceback)s AS traceback, %(essence)s AS essence, %(worker)s AS worker
FROM ended f

-- name: die
WITH ended AS ({end_for_good}), run AS ({record_run}), died AS ({died}), letter AS ({dead_letter})
SELECT e.state FROM ended e

-- name: die_exclusive
WITH ended AS ({end_for_good}), run AS ({record_run}), died AS ({died}), letter AS ({dead_letter}) {wake_next}
SELECT e.state, (SELECT count(*) FROM hinted) FROM ended e

-- name: losing
-- What becomes of a run whose process is gone depends on this.
SELECT f.attempt, {counted}, f.max_attempts, f.exclusive, job.retry_base, job.retry_cap, job.deleted_at IS NOT NULL OR f.cancel_reason <> ''
FROM scheduling_fire f JOIN scheduling_job job ON job.id = f.job_id
WHERE {held}

-- name: ended_run
-- How this holder's run was ended by the same worker (its owner, who may have called it lost, is none), and whether the fire died of it.
SELECT r.state, EXISTS (SELECT FROM scheduling_deadletter d WHERE d.fire_id = r.fire_id AND d.fence = r.fence + 1)
FROM scheduling_jobrun r
WHERE r.scheduled_for = %(scheduled_for)s AND r.id = %(run_id)s AND r.history_days = %(history_days)s AND r.holder = %(holder)s
  AND r.worker = %(worker)s

-- name: bury
WITH ended AS (
    UPDATE scheduling_fire f SET state = 'dead', reason = %(reason)s, finished_at = clock_timestamp()
    WHERE {row} AND f.fence = %(fence)s AND f.state = 'claimed'
    RETURNING f.*
), died AS ({died}), letter AS ({dead_letter})
SELECT e.id FROM ended e

-- name: mine
-- Locked, so that nobody takes the fire away until what the same statement notes is committed.
SELECT f.id, f.fence, f.scheduled_for FROM scheduling_fire f WHERE {held} FOR SHARE

-- name: begin_step
-- A row that an earlier call made, which may have committed just now, is touched so as to be seen.
WITH mine AS MATERIALIZED ({mine})
INSERT INTO scheduling_step AS step (fire_id, name, fence, scheduled_for, begun_at, is_done)
SELECT id, %(name)s, fence, scheduled_for, clock_timestamp(), false FROM mine
ON CONFLICT (fire_id, name) DO UPDATE SET name = excluded.name
RETURNING step.fence, step.is_done, step.result::text

-- name: finish_step
WITH mine AS MATERIALIZED ({mine}), done AS (
    UPDATE scheduling_step s SET is_done = true, result = %(result)s
    FROM mine WHERE s.fire_id = mine.id AND s.name = %(name)s
    RETURNING s.id
)
SELECT (SELECT count(*) FROM done) FROM mine

-- name: undo_step
WITH mine AS MATERIALIZED ({mine}), undone AS (
    DELETE FROM scheduling_step s USING mine WHERE s.fire_id = mine.id AND s.name = %(name)s AND NOT s.is_done
    RETURNING s.id
)
SELECT (SELECT count(*) FROM undone) FROM mine
