-- What the owner of shards reads and writes. Everything written runs behind hold_epochs, in one transaction with it.

-- name: hold_epochs
SELECT fairbeat_hold_epochs(%(shards)s::smallint[], %(epochs)s::integer[]), clock_timestamp()

-- name: work
-- The columns of rows.work_of.
j.id, j.shard_id, j.tenant_id, t.slug, t.history_days, {what}

-- name: what
-- Of arguments that are beyond payload.PAYLOAD_LIMIT so much is read as shows it.
j.name, j.task, j.lane,
left(j.args::text, 262145), left(j.kwargs::text, 262145),
j.soft_timeout_s, j.hard_timeout_s, j.overlap, j.buffer_limit, j.misfire, j.misfire_grace_s, j.catch_up_limit, j.catch_up_window

-- name: due_columns
{work}, j.next_fire_at, j.next_scheduled_for, j.jitter, j.schedule_version, j.schedule_changed_at, j.in_bucket, j.max_runs,
j.max_attempts, j.fired, j.superseded, j.paused_at IS NOT NULL, j.paused_until, c.tz, c.days, c.hours,
j.kind, j.at, j.every, j.anchor, j.cron, j.rrule, j.dtstart, j.tz, j.day_match, j.gap, j.fold, j.start_at, j.end_at

-- name: due_joins
-- (LEFT, for all that every job has a tenant: an inner join lets the planner begin with the tenants, where it believes that there is but
-- one, and read the heads again for each.)
LEFT JOIN fairness_tenant t ON t.id = j.tenant_id LEFT JOIN scheduling_calendar c ON c.id = j.calendar_id

-- name: row_lock
-- Owners need none. (Stop 2 has no owners: FOR UPDATE SKIP LOCKED.)

-- name: due
-- Each shard's earliest, by index.
SELECT {due_columns}
FROM unnest(%(shards)s::smallint[]) AS owned(shard)
CROSS JOIN LATERAL (
    SELECT * FROM scheduling_job
    WHERE shard_id = owned.shard AND next_fire_at <= %(until)s
    ORDER BY next_fire_at LIMIT %(limit)s {row_lock}
) AS j
{due_joins}
LIMIT %(limit)s

-- name: crowded
-- In which of these shards any of these tenants has something due.
SELECT owned.shard FROM unnest(%(shards)s::smallint[]) AS owned(shard)
CROSS JOIN LATERAL (
    SELECT FROM unnest(%(full)s::integer[]) AS w(tenant_id)
    CROSS JOIN LATERAL (
        SELECT FROM scheduling_job
        WHERE shard_id = owned.shard AND tenant_id = w.tenant_id AND next_fire_at <= %(until)s
        ORDER BY shard_id, tenant_id, next_fire_at LIMIT 1
    ) AS j
    LIMIT 1
) AS present

-- name: tenants_due
-- Which tenants of a shard have something due, and when the first of it was; and how many tenants were looked at for that. A skip scan
-- over the tenants, never a sort of a backlog.
WITH RECURSIVE present(shard, tenant_id) AS (
    SELECT owned.shard, (
        SELECT tenant_id FROM scheduling_job
        WHERE shard_id = owned.shard AND next_fire_at IS NOT NULL
        ORDER BY shard_id, tenant_id LIMIT 1)
    FROM unnest(%(shards)s::smallint[]) AS owned(shard)
    UNION ALL
    SELECT p.shard, (
        SELECT tenant_id FROM scheduling_job
        WHERE shard_id = p.shard AND tenant_id > p.tenant_id AND next_fire_at IS NOT NULL
        ORDER BY shard_id, tenant_id LIMIT 1)
    FROM present p WHERE p.tenant_id IS NOT NULL
)
SELECT p.tenant_id, p.shard, head.next_fire_at, (SELECT count(tenant_id) FROM present)
FROM present p
CROSS JOIN LATERAL (
    SELECT next_fire_at FROM scheduling_job
    WHERE shard_id = p.shard AND tenant_id = p.tenant_id AND next_fire_at IS NOT NULL
    ORDER BY next_fire_at LIMIT 1
) AS head
WHERE p.tenant_id <> ALL (%(full)s::integer[]) AND head.next_fire_at <= %(until)s

-- name: due_of_tenants
-- The heads of each, by index.
SELECT {due_columns}
FROM unnest(%(shards)s::smallint[], %(tenants)s::integer[]) AS w(shard, tenant_id)
CROSS JOIN LATERAL (
    SELECT * FROM scheduling_job
    WHERE shard_id = w.shard AND tenant_id = w.tenant_id AND next_fire_at <= %(until)s
    ORDER BY next_fire_at LIMIT %(share)s {row_lock}
) AS j
{due_joins}

-- name: fired
-- Of max_runs, with this plan. (What a pause takes is no run; the planner may not have seen the pause yet.)
j.fired + coalesce(p.carried, 0) + CASE WHEN j.paused_at IS NULL THEN p.fired ELSE (
    SELECT count(*) FROM unnest(%(fire_job_ids)s::uuid[], %(scheduled_fors)s::timestamptz[], %(states)s::text[]) AS r(job_id, at, state)
    WHERE r.job_id = j.id AND r.at >= j.paused_until AND r.state IS DISTINCT FROM 'skipped') END

-- name: entries
-- (The bucketed store moves the jobs' entries too.)

-- name: claim
-- Advance the jobs that are still as they were read, and insert the occurrences of those. Nobody is waited for: a job that somebody is
-- changing just now is left to the next poll, however long his transaction takes. A row that an older schedule left unstarted is
-- taken over by a newer one, also where the end of a pause has brought it back; one that a person cancelled, or that started, is not.
WITH plan AS (
    SELECT * FROM unnest(
        %(job_ids)s::uuid[], %(versions)s::integer[], %(were)s::timestamptz[], %(next_fors)s::timestamptz[], %(next_ats)s::timestamptz[],
        %(fired)s::integer[], %(problems)s::text[], %(leave)s::boolean[], %(enter)s::boolean[], %(slots)s::smallint[],
        %(carried)s::integer[]
    ) AS p(job_id, version, was, next_for, next_at, fired, problem, leaves, enters, slot, carried)
), held AS MATERIALIZED (
    SELECT p.* FROM plan p CROSS JOIN LATERAL (
        SELECT FROM scheduling_job
        WHERE id = p.job_id AND schedule_version = p.version AND deleted_at IS NULL AND next_scheduled_for IS NOT DISTINCT FROM p.was
          AND in_bucket = coalesce(p.leaves, false)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS j
), advanced AS (
    UPDATE scheduling_job j
    SET next_scheduled_for = CASE WHEN j.max_runs <= {fired} OR p.enters THEN NULL ELSE p.next_for END,
        next_fire_at = CASE WHEN j.max_runs <= {fired} OR p.enters THEN NULL ELSE p.next_at END,
        in_bucket = coalesce(p.enters, false),
        fired = {fired}, problem = coalesce(p.problem, ''), superseded = '[]'
    FROM held p WHERE j.id = p.job_id
    RETURNING j.id, j.tenant_id, j.shard_id, j.schedule_version, j.max_attempts, j.overlap <> 'allow' AS exclusive,
        CASE WHEN j.paused_at IS NOT NULL THEN coalesce(j.paused_until, 'infinity') END AS paused_until,
        p.leaves, p.enters, p.slot, p.next_for, p.next_at
) {entries}
INSERT INTO scheduling_fire AS f (
    id, job_id, tenant_id, shard_id, history_days, scheduled_for, fire_at, schedule_version,
    state, reason, max_attempts, exclusive, seq_epoch, seq, claimed_at, claimed_until, covers, covers_to, wake_at, nominal, finished_at)
SELECT o.id, a.id, a.tenant_id, a.shard_id, o.history_days, o.scheduled_for, o.fire_at, a.schedule_version,
    CASE WHEN held.is_paused THEN 'skipped' ELSE coalesce(o.state, 'claimed') END,
    CASE WHEN held.is_paused THEN 'paused' ELSE coalesce(o.reason, '') END,
    a.max_attempts, a.exclusive, o.seq_epoch, o.seq, clock_timestamp(), clock_timestamp() + %(claim_for)s::interval, coalesce(o.covers, 1), o.covers_to,
    o.wake_at, coalesce(o.nominal, ''),
    CASE WHEN held.is_paused OR o.state = 'skipped' THEN clock_timestamp() END
FROM unnest(
    %(ids)s::uuid[], %(fire_job_ids)s::uuid[], %(history_days)s::smallint[], %(scheduled_fors)s::timestamptz[],
    %(fire_ats)s::timestamptz[], %(states)s::text[], %(reasons)s::text[], %(seq_epochs)s::integer[], %(seqs)s::bigint[],
    %(covers)s::integer[], %(covers_tos)s::timestamptz[], %(wake_ats)s::timestamptz[], %(nominals)s::text[]
) AS o(id, job_id, history_days, scheduled_for, fire_at, state, reason, seq_epoch, seq, covers, covers_to, wake_at, nominal)
JOIN advanced a ON a.id = o.job_id
CROSS JOIN LATERAL (  -- what its calendar excludes, or an edit took, would not have run: the end of the pause brings none of it back
    SELECT o.scheduled_for < a.paused_until AND coalesce(o.reason, '') NOT IN ('excluded', 'superseded') AS is_paused
) AS held
ON CONFLICT (job_id, scheduled_for, origin, history_days) DO UPDATE
SET state = excluded.state, reason = excluded.reason, fence = f.fence + 1, fire_at = excluded.fire_at,
    schedule_version = excluded.schedule_version, seq_epoch = excluded.seq_epoch, seq = excluded.seq,
    claimed_at = excluded.claimed_at, claimed_until = excluded.claimed_until, covers = excluded.covers, covers_to = excluded.covers_to,
    wake_at = excluded.wake_at, nominal = excluded.nominal,
    exclusive = excluded.exclusive, confirmed = false, finished_at = excluded.finished_at
WHERE f.attempt = 0 AND f.schedule_version < excluded.schedule_version
  AND (f.state IN ('claimed', 'parked', 'retry_wait')
       OR f.state = 'skipped' AND f.reason IN ('superseded', 'paused', 'excluded'))
RETURNING f.id, f.state, f.fence

-- name: supersede
-- Behind the claim that plans these jobs anew after edits: what an older schedule had claimed ahead of the first of them, and the new one
-- has not, is to run no more, whatever is edited next. (What a plain Celery task was sent stays sent.)
WITH held AS MATERIALIZED (  -- in the order in which all lock fires: values.lock_order
    SELECT f.scheduled_for, f.id, f.history_days
    FROM unnest(%(job_ids)s::uuid[], %(versions)s::integer[], %(edits)s::timestamptz[]) AS p(job_id, version, edited_at)
    JOIN scheduling_job k ON k.id = p.job_id AND k.schedule_version = p.version AND k.deleted_at IS NULL
    JOIN scheduling_fire f ON f.job_id = p.job_id AND f.scheduled_for > p.edited_at
    WHERE f.origin = '' AND f.attempt = 0 AND f.schedule_version < p.version
      AND (f.state = 'claimed' AND {guarded} OR f.state IN ('parked', 'retry_wait') OR f.state = 'skipped' AND f.reason = 'paused')
    ORDER BY f.shard_id, f.fire_at, f.id
    FOR NO KEY UPDATE OF f
)
UPDATE scheduling_fire f
SET state = 'skipped', reason = 'superseded', wake_at = NULL, finished_at = clock_timestamp()
FROM held h
WHERE (f.scheduled_for, f.id, f.history_days) = (h.scheduled_for, h.id, h.history_days)

-- name: blockers
-- Node sessions that hold what a take-over waits for: frozen ones, or ones inside a long statement.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = ANY (pg_blocking_pids(%(waiting)s)) AND starts_with(application_name, %(prefix)s)

-- name: take_over
-- Waits for every open transaction that holds the old epoch; in the order in which those take their locks.
WITH held AS (
    SELECT id FROM scheduling_shard WHERE id = ANY (%(shards)s::smallint[]) ORDER BY id FOR NO KEY UPDATE
)
UPDATE scheduling_shard s SET epoch = epoch + 1, owner_id = %(node)s
FROM held WHERE s.id = held.id
RETURNING s.id, s.epoch

-- name: recover
-- What is claimed beyond the watermark may or may not be in a queue: a higher fence makes that copy worthless. Fires of plain tasks stay
-- claimed, by the million: so each arm is a range of the index, and the rows are found again by their keys (unnest: few, for the planner).
WITH beyond AS MATERIALIZED (
    SELECT f.*, s.epoch, row_number() OVER (PARTITION BY s.id ORDER BY f.fire_at, f.id) AS seq
    FROM scheduling_shard s
    JOIN scheduling_shardprogress p ON p.shard_id = s.id
    CROSS JOIN LATERAL (
        SELECT scheduled_for, id, history_days, fire_at FROM scheduling_fire
        WHERE shard_id = s.id AND state = 'claimed' AND (seq_epoch, seq) > (p.seq_epoch, p.seq)
        UNION ALL
        SELECT scheduled_for, id, history_days, fire_at FROM scheduling_fire
        WHERE shard_id = s.id AND state = 'claimed' AND seq_epoch IS NULL AND seq IS NULL AND NOT confirmed
    ) AS f
    WHERE s.id = ANY (%(shards)s::smallint[])
), columns AS (
    SELECT array_agg(scheduled_for) AS scheduled_fors, array_agg(id) AS ids, array_agg(history_days) AS history_days,
        array_agg(epoch) AS epochs, array_agg(seq) AS seqs
    FROM beyond
), lifted AS (
    UPDATE scheduling_fire f
    SET fence = f.fence + 1, seq_epoch = b.epoch, seq = b.seq, claimed_until = NULL
    FROM columns CROSS JOIN LATERAL unnest(
        columns.scheduled_fors, columns.ids, columns.history_days, columns.epochs, columns.seqs
    ) AS b(scheduled_for, id, history_days, epoch, seq)
    WHERE (f.scheduled_for, f.id, f.history_days) = (b.scheduled_for, b.id, b.history_days) AND f.state = 'claimed'
    RETURNING f.*
)
SELECT {fire_columns} FROM lifted f {fire_work}

-- name: fire_columns
-- Those of rows.work_of first: a fire stays its tenant's, whoever's its job is by now. The last one: for how long, in seconds, it has been
-- late by our own doing (what its job or a retry held back starts anew).
j.id, j.shard_id, f.tenant_id, t.slug, f.history_days, {what}, f.id, f.scheduled_for, f.fire_at, f.origin, f.fence, f.attempt, f.seq_epoch, f.seq, f.exclusive,
CASE WHEN f.state = 'claimed' OR f.reason = 'turn' THEN extract(epoch FROM clock_timestamp() - f.claimed_at)::float8 ELSE 0 END

-- name: fire_work
JOIN scheduling_job j ON j.id = f.job_id JOIN fairness_tenant t ON t.id = f.tenant_id

-- name: start_epoch
-- After recover, in its transaction: what an older epoch numbered is settled, or renumbered.
UPDATE scheduling_shardprogress p SET seq_epoch = s.epoch, seq = 0
FROM scheduling_shard s WHERE s.id = p.shard_id AND s.id = ANY (%(shards)s::smallint[])

-- name: wake
-- In recover's transaction: what waited for its turn with the last owner, in whose memory alone its turn was. Not more of a tenant than an
-- owner keeps, of what wakes next; the rest wakes by itself. Nobody is waited for: not all fires that we lock are locked in one order.
WITH RECURSIVE now AS MATERIALIZED (SELECT fairbeat_job_now() AS now), present(shard, tenant_id) AS (
    SELECT owned.shard, (
        SELECT tenant_id FROM scheduling_fire WHERE shard_id = owned.shard AND state IN ('parked', 'retry_wait')
        ORDER BY shard_id, tenant_id LIMIT 1)
    FROM unnest(%(shards)s::smallint[]) AS owned(shard)
    UNION ALL
    SELECT p.shard, (
        SELECT tenant_id FROM scheduling_fire WHERE shard_id = p.shard AND tenant_id > p.tenant_id AND state IN ('parked', 'retry_wait')
        ORDER BY shard_id, tenant_id LIMIT 1)
    FROM present p WHERE p.tenant_id IS NOT NULL
), next AS MATERIALIZED (
    SELECT w.scheduled_for, w.id, w.history_days
    FROM now CROSS JOIN present p CROSS JOIN LATERAL (
        SELECT * FROM scheduling_fire
        WHERE shard_id = p.shard AND tenant_id = p.tenant_id AND state IN ('parked', 'retry_wait') AND wake_at > now.now
        ORDER BY shard_id, tenant_id, wake_at LIMIT %(share)s
    ) AS w
    WHERE w.state = 'parked' AND w.reason = ANY (%(reasons)s::text[])
), held AS MATERIALIZED (
    SELECT f.* FROM next n CROSS JOIN LATERAL (
        SELECT scheduled_for, id, history_days FROM scheduling_fire
        WHERE (scheduled_for, id, history_days) = (n.scheduled_for, n.id, n.history_days) AND state = 'parked'
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS f
)
UPDATE scheduling_fire f SET wake_at = now.now
FROM held h, now
WHERE (f.scheduled_for, f.id, f.history_days) = (h.scheduled_for, h.id, h.history_days)

-- name: record
UPDATE scheduling_shardprogress p SET seq_epoch = m.epoch, seq = m.seq
FROM unnest(%(marked)s::smallint[], %(mark_epochs)s::integer[], %(seqs)s::bigint[]) AS m(shard, epoch, seq)
WHERE p.shard_id = m.shard AND (p.seq_epoch, p.seq) < (m.epoch, m.seq)
RETURNING p.shard_id, p.ctid::text

-- name: record_in_place
-- The same where the owner knows which version of the row is the last, for it wrote it: these rows change many times a second, and by the
-- index all their versions would be looked at that an old snapshot keeps.
UPDATE scheduling_shardprogress p SET seq_epoch = m.epoch, seq = m.seq
FROM unnest(%(marked)s::smallint[], %(mark_epochs)s::integer[], %(seqs)s::bigint[], %(places)s::tid[]) AS m(shard, epoch, seq, place)
WHERE p.ctid = m.place AND p.shard_id = m.shard AND (p.seq_epoch, p.seq) < (m.epoch, m.seq)
RETURNING p.shard_id, p.ctid::text

-- name: fire_lock
-- Owners need none. (Stop 2: FOR NO KEY UPDATE OF j, f SKIP LOCKED; the job too, so that its fires are judged one at a time.)

-- name: waits
-- What a pause holds (it has started, and goes on when its job is resumed) is passed over; what a person asked for it does not hold.
SELECT f.* FROM scheduling_fire f JOIN scheduling_job j ON j.id = f.job_id
WHERE f.shard_id = w.shard AND f.tenant_id = w.tenant_id AND f.state IN ('parked', 'retry_wait') AND f.wake_at <= %(now)s
  AND (j.paused_at IS NULL OR j.paused_until <= %(now)s OR f.origin <> ''
       OR coalesce((SELECT d.redriven_at IS NOT NULL FROM scheduling_deadletter d WHERE d.fire_id = f.id), false))

-- name: tenants_waiting
-- Which tenants of a shard have something that has waited long enough: a skip scan over the tenants, each with its earliest. The last row
-- says when the next will, of those that have nothing.
WITH RECURSIVE present AS (
    SELECT owned.shard, head.tenant_id, head.wake_at
    FROM unnest(%(shards)s::smallint[]) AS owned(shard)
    CROSS JOIN LATERAL (
        SELECT tenant_id, wake_at FROM scheduling_fire
        WHERE shard_id = owned.shard AND state IN ('parked', 'retry_wait')
        ORDER BY shard_id, tenant_id, wake_at LIMIT 1
    ) AS head
    UNION ALL
    SELECT p.shard, head.tenant_id, head.wake_at
    FROM present p
    CROSS JOIN LATERAL (
        SELECT tenant_id, wake_at FROM scheduling_fire
        WHERE shard_id = p.shard AND tenant_id > p.tenant_id AND state IN ('parked', 'retry_wait')
        ORDER BY shard_id, tenant_id, wake_at LIMIT 1
    ) AS head
)
SELECT shard, tenant_id, NULL::timestamptz FROM present WHERE wake_at <= %(now)s AND tenant_id <> ALL (%(full)s::integer[])
UNION ALL SELECT NULL, NULL, min(wake_at) FROM present WHERE wake_at > %(now)s AND tenant_id <> ALL (%(full)s::integer[])

-- name: waiting
-- Of each tenant of a shard those that are due longest.
SELECT {fire_columns}
FROM unnest(%(shards)s::smallint[], %(tenants)s::integer[]) AS w(shard, tenant_id)
CROSS JOIN LATERAL (
    {waits} ORDER BY f.wake_at LIMIT %(share)s {fire_lock}
) AS f {fire_work}

-- name: waiting_newest
-- And those that are due most recently.
SELECT {fire_columns}
FROM unnest(%(shards)s::smallint[], %(tenants)s::integer[]) AS w(shard, tenant_id)
CROSS JOIN LATERAL (
    {waits} ORDER BY f.wake_at DESC LIMIT %(share)s {fire_lock}
) AS f {fire_work}

-- name: release
-- Waiting fires whose time has come are numbered anew, before they are published.
UPDATE scheduling_fire f
SET state = 'claimed', reason = '', wake_at = NULL, seq_epoch = r.seq_epoch, seq = r.seq, confirmed = false,
    claimed_until = clock_timestamp() + %(claim_for)s::interval,
    claimed_at = CASE WHEN f.reason = 'turn' THEN f.claimed_at ELSE clock_timestamp() END
FROM unnest(
    %(ids)s::uuid[], %(scheduled_fors)s::timestamptz[], %(history_days)s::smallint[], %(fences)s::integer[],
    %(seq_epochs)s::integer[], %(seqs)s::bigint[]
) AS r(id, scheduled_for, history_days, fence, seq_epoch, seq)
WHERE (f.scheduled_for, f.id, f.history_days) = (r.scheduled_for, r.id, r.history_days)
  AND f.fence = r.fence AND f.state IN ('parked', 'retry_wait')
RETURNING f.id

-- name: settle
-- Claimed fires that are not to be published now (parked), or not at all (skipped).
UPDATE scheduling_fire f
SET state = r.state, reason = r.reason, wake_at = r.wake_at,
    finished_at = CASE WHEN r.state = 'skipped' THEN clock_timestamp() END
FROM unnest(
    %(ids)s::uuid[], %(scheduled_fors)s::timestamptz[], %(history_days)s::smallint[], %(fences)s::integer[],
    %(states)s::text[], %(reasons)s::text[], %(wake_ats)s::timestamptz[]
) AS r(id, scheduled_for, history_days, fence, state, reason, wake_at)
WHERE (f.scheduled_for, f.id, f.history_days) = (r.scheduled_for, r.id, r.history_days)
  AND f.fence = r.fence AND f.state = 'claimed'

-- name: predecessors
-- Unfinished fires of the same jobs that are ahead: running, or earlier in order; and those of them that never started. Where the newest
-- takes the place: what has begun before it and is to stop, and the newer ones that wait already.
SELECT d.id, count(*) FILTER (WHERE a.is_ahead) AS ahead,
    count(*) FILTER (WHERE a.is_ahead AND f.state <> 'running' AND f.origin = '' AND f.attempt = 0) AS queued,
    count(*) FILTER (WHERE d.gives_way AND {begun}) AS begun,
    count(*) FILTER (WHERE NOT a.is_ahead) AS newer
FROM unnest(
    %(ids)s::uuid[], %(job_ids)s::uuid[], %(scheduled_fors)s::timestamptz[], %(history_days)s::smallint[], %(give_way)s::boolean[]
) AS d(id, job_id, scheduled_for, history_days, gives_way)
JOIN scheduling_fire f ON f.job_id = d.job_id AND f.history_days = d.history_days AND f.exclusive AND f.id <> d.id
    AND f.state IN ('claimed', 'parked', 'retry_wait', 'running')
CROSS JOIN LATERAL (SELECT f.state = 'running' OR (f.scheduled_for, f.id) < (d.scheduled_for, d.id) AS is_ahead) AS a
WHERE a.is_ahead OR d.gives_way AND f.state = 'parked' AND f.reason = 'overlap' AND f.origin = '' AND f.attempt = 0
GROUP BY d.id

-- name: begun
-- Of the schedule's own, before d, and not asked to stop yet. (What a person redrives is his.)
(f.scheduled_for, f.id) < (d.scheduled_for, d.id) AND f.origin = '' AND f.cancel_reason = ''
AND (f.state = 'running' OR f.state = 'retry_wait' AND f.attempt > 0 AND f.reason <> 'redriven')

-- name: cancel_running
-- What has begun before these is to make room: a run is asked to stop, and what waits for a retry gets none. Nobody is waited for, who is
-- parked looks again.
WITH held AS MATERIALIZED (  -- in the order in which all lock fires: values.lock_order
    SELECT f.scheduled_for, f.id, f.history_days
    FROM unnest(
        %(ids)s::uuid[], %(job_ids)s::uuid[], %(scheduled_fors)s::timestamptz[], %(history_days)s::smallint[]
    ) AS d(id, job_id, scheduled_for, history_days)
    JOIN scheduling_fire f ON f.job_id = d.job_id AND f.history_days = d.history_days AND f.exclusive
        AND f.state IN ('claimed', 'parked', 'retry_wait', 'running') AND {begun}
    ORDER BY f.shard_id, f.fire_at, f.id
    FOR NO KEY UPDATE OF f SKIP LOCKED
), asked AS (
    UPDATE scheduling_fire f
    SET cancel_reason = %(reason)s,
        state = CASE f.state WHEN 'running' THEN 'running' ELSE 'dead' END,
        reason = CASE f.state WHEN 'running' THEN f.reason ELSE 'cancelled' END,
        wake_at = NULL, finished_at = CASE f.state WHEN 'running' THEN NULL ELSE clock_timestamp() END
    FROM held h
    WHERE (f.scheduled_for, f.id, f.history_days) = (h.scheduled_for, h.id, h.history_days)
    RETURNING {mortal}, f.state
), died AS (
    SELECT a.*, %(reason)s AS error, '' AS traceback, %(reason)s AS essence, '' AS worker FROM asked a WHERE a.state = 'dead'
), letters AS ({dead_letter})
SELECT a.state, a.id, a.job_id, t.slug, j.name, j.task, a.scheduled_for, a.origin, a.attempt, a.reason,
    CASE a.state WHEN 'running' THEN pg_notify('fairbeat_cancel', a.id::text) END
FROM asked a JOIN scheduling_job j ON j.id = a.job_id JOIN fairness_tenant t ON t.id = a.tenant_id

-- name: expired
-- Running beyond the lease: the worker is gone, or was frozen. The last columns: somebody else has locked the row (or has renewed the lease
-- since this statement began: whoever was told so has it); and beyond the grace.
SELECT f.id, f.shard_id, f.scheduled_for, f.history_days, f.fence, f.attempt, f.max_attempts, f.holder,
    extract(epoch FROM j.retry_base)::float8, extract(epoch FROM j.retry_cap)::float8, j.deleted_at IS NOT NULL OR f.cancel_reason <> '',
    greatest(1, least(f.attempt, f.attempt - (f.max_attempts - j.max_attempts))), f.origin, j.id, j.name, j.task, t.slug, held.id IS NULL,
    f.lease_until < clock_timestamp() - %(grace)s::interval
FROM unnest(%(shards)s::smallint[]) AS owned(shard)
CROSS JOIN LATERAL (
    SELECT * FROM scheduling_fire
    WHERE shard_id = owned.shard AND state = 'running' AND lease_until < clock_timestamp()
    ORDER BY lease_until LIMIT %(share)s
) AS f
LEFT JOIN LATERAL (
    SELECT h.id FROM scheduling_fire h
    WHERE (h.scheduled_for, h.id, h.history_days) = (f.scheduled_for, f.id, f.history_days) AND h.fence = f.fence AND h.state = 'running'
      AND h.lease_until < clock_timestamp()
    FOR UPDATE SKIP LOCKED
) AS held ON true
JOIN scheduling_job j ON j.id = f.job_id
JOIN fairness_tenant t ON t.id = f.tenant_id

-- name: reap
-- The first of a job's fires that waits for its turn is due now, where the end of the run has made room.
WITH ended AS (
    UPDATE scheduling_fire f
    SET state = r.state, reason = r.reason, fence = f.fence + 1, wake_at = r.wake_at, lease_until = NULL, holder = NULL,
        finished_at = CASE WHEN r.state = 'dead' THEN clock_timestamp() END
    FROM unnest(
        %(ids)s::uuid[], %(scheduled_fors)s::timestamptz[], %(history_days)s::smallint[], %(fences)s::integer[],
        %(states)s::text[], %(reasons)s::text[], %(wake_ats)s::timestamptz[], %(run_ids)s::uuid[], %(holders)s::uuid[]
    ) AS r(id, scheduled_for, history_days, fence, state, reason, wake_at, run_id, holder)
    WHERE (f.scheduled_for, f.id, f.history_days) = (r.scheduled_for, r.id, r.history_days)
      AND f.fence = r.fence AND f.state = 'running'
    RETURNING f.*, r.run_id, r.holder AS held_by
), died AS (
    SELECT e.*, %(error)s AS error, '' AS traceback, %(error)s AS essence, '' AS worker FROM ended e WHERE e.state = 'dead'
), letters AS (
    {dead_letter}
), woken AS (
    UPDATE scheduling_fire s SET wake_at = %(now)s
    FROM (SELECT DISTINCT job_id, history_days FROM died WHERE exclusive) AS d
    CROSS JOIN LATERAL (
        SELECT scheduled_for, id FROM scheduling_fire w
        WHERE w.job_id = d.job_id AND w.history_days = d.history_days AND w.exclusive AND w.state = 'parked' AND w.reason = 'overlap'
        ORDER BY w.scheduled_for, w.id LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS next
    WHERE (s.scheduled_for, s.id, s.history_days) = (next.scheduled_for, next.id, d.history_days)
)
INSERT INTO scheduling_jobrun (id, fire_id, fence, job_id, tenant_id, history_days, scheduled_for, attempt, state,
    holder, started_at, finished_at, error)
SELECT e.run_id, e.id, e.fence - 1, e.job_id, e.tenant_id, e.history_days, e.scheduled_for, e.attempt, 'lost',
    e.held_by, e.started_at, clock_timestamp(), %(error)s
FROM ended e
ON CONFLICT DO NOTHING

-- name: holder
-- Waits for whoever has locked a run that is beyond its lease and grace.
SELECT FROM scheduling_fire
WHERE (scheduled_for, id, history_days) = (%(scheduled_for)s, %(id)s, %(history_days)s) AND fence = %(fence)s AND state = 'running'
FOR UPDATE

-- name: end_holder
-- He has had this long; what is shorter is a heartbeat, or a person's change, and goes away by itself.
SELECT pid, application_name, pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = ANY (pg_blocking_pids(%(waiting)s)) AND xact_start < clock_timestamp() - %(grace)s::interval

-- name: unstarted
-- A piece of each shard's walk over what was published and nobody has acquired: how many rows, the last number, and the keys of those whose
-- messages may be gone. (Those of plain Celery tasks are never acquired; after each time that one was sent again it takes twice as long.)
SELECT f.shard_id, count(*), max(ARRAY[f.seq_epoch, f.seq]),
    array_agg(f.id) FILTER (WHERE f.is_suspect), array_agg(f.scheduled_for) FILTER (WHERE f.is_suspect),
    array_agg(f.history_days) FILTER (WHERE f.is_suspect)
FROM unnest(%(shards)s::smallint[], %(epochs)s::integer[], %(seqs)s::bigint[]) AS walk(shard, epoch, seq)
JOIN scheduling_shardprogress p ON p.shard_id = walk.shard
CROSS JOIN LATERAL (
    SELECT f.*, f.claimed_at < clock_timestamp() - %(patience)s::interval
        AND (f.sent_again_at IS NULL OR clock_timestamp() - f.sent_again_at >= f.sent_again_at - f.claimed_at) AND {guarded} AS is_suspect
    FROM scheduling_fire f
    WHERE f.shard_id = walk.shard AND f.state = 'claimed'
      AND (f.seq_epoch, f.seq) > (walk.epoch, walk.seq) AND (f.seq_epoch, f.seq) <= (p.seq_epoch, p.seq)
    ORDER BY f.seq_epoch, f.seq LIMIT %(share)s
) AS f
WHERE EXISTS (SELECT FROM scheduling_workertask WHERE name > '' AND is_guarded)
GROUP BY f.shard_id

-- name: guarded
-- (Of an EXISTS Postgres 18 may make a table of all jobs, read whole, whatever it is told of sequential scans; not of a value.)
coalesce((SELECT k.is_guarded FROM scheduling_job j JOIN scheduling_workertask k ON k.name = j.task WHERE j.id = f.job_id), false)

-- name: unstarted_confirmed
-- The same of what stop 2 has confirmed: these say by when they are to be acquired.
SELECT f.id, f.scheduled_for, f.history_days FROM scheduling_fire f
WHERE f.state = 'claimed' AND f.claimed_until < clock_timestamp() AND f.confirmed AND f.shard_id = ANY (%(shards)s::smallint[])
ORDER BY f.claimed_until LIMIT %(limit)s

-- name: suspects
SELECT {fire_columns}
FROM unnest(%(ids)s::uuid[], %(scheduled_fors)s::timestamptz[], %(history_days)s::smallint[]) AS r(id, scheduled_for, history_days)
JOIN scheduling_fire f ON (f.scheduled_for, f.id, f.history_days) = (r.scheduled_for, r.id, r.history_days) AND f.state = 'claimed'
{fire_work}

-- name: acquired
-- What was acquired long ago, by tenant and lane of a shard, and was published last: of the last fires of the suspects' jobs, and of some of
-- their neighbours' (by the index of names, and not farther into it than is cheap).
SELECT g.shard, g.tenant_id, g.lane, {published_last}
FROM unnest(%(shards)s::smallint[], %(tenants)s::integer[], %(lanes)s::text[], %(history_days)s::smallint[])
    AS g(shard, tenant_id, lane, history_days)
CROSS JOIN LATERAL (
    SELECT k.id FROM unnest(%(job_ids)s::uuid[]) AS own(job_id) JOIN scheduling_job k ON k.id = own.job_id
    WHERE (k.tenant_id, k.lane) = (g.tenant_id, g.lane) AND {same_shard}
    UNION
    (SELECT k.id FROM (
        SELECT * FROM scheduling_job WHERE tenant_id = g.tenant_id AND name <> '' AND deleted_at IS NULL LIMIT 50 * %(jobs)s
     ) AS k WHERE k.lane = g.lane AND {same_shard} LIMIT %(jobs)s)
) AS j
CROSS JOIN LATERAL (
    SELECT * FROM scheduling_fire
    WHERE job_id = j.id AND history_days = g.history_days ORDER BY scheduled_for DESC LIMIT %(fires)s
) AS a
WHERE a.state NOT IN ('claimed', 'parked') AND a.started_at < clock_timestamp() - %(patience)s::interval AND {is_comparable}
GROUP BY g.shard, g.tenant_id, g.lane

-- name: published_last
max(ARRAY[a.seq_epoch, a.seq])

-- name: is_comparable
a.seq IS NOT NULL

-- name: same_shard
k.shard_id = g.shard

-- name: send_again
UPDATE scheduling_fire f
SET seq_epoch = r.seq_epoch, seq = r.seq, sent_again_at = clock_timestamp(), claimed_until = NULL, confirmed = false
FROM unnest(
    %(ids)s::uuid[], %(scheduled_fors)s::timestamptz[], %(history_days)s::smallint[], %(fences)s::integer[],
    %(seq_epochs)s::integer[], %(seqs)s::bigint[]
) AS r(id, scheduled_for, history_days, fence, seq_epoch, seq)
WHERE (f.scheduled_for, f.id, f.history_days) = (r.scheduled_for, r.id, r.history_days) AND f.fence = r.fence AND f.state = 'claimed'
RETURNING f.id

-- name: report
UPDATE scheduling_node SET fires = %(fires)s, latency = %(latency)s WHERE id = %(node)s
