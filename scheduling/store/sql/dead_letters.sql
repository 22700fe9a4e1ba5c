-- The dead letter of a fire, for every statement that lets one die: it is to be written with the death, or not at all.
-- Included by statements("...", **statements("dead_letters")).

-- name: mortal
-- What ``dead_letter`` needs of the fire f, as it is when it is dead.
f.id, f.job_id, f.tenant_id, f.shard_id, f.history_days, f.scheduled_for, f.fire_at, f.origin, f.schedule_version, f.fence, f.attempt,
f.exclusive, f.reason

-- name: fingerprint
-- As core/fingerprint.py computes it.
left(encode(sha256(convert_to(coalesce(j.task, '') || chr(31) || d.reason || chr(31) || d.essence, 'UTF8')), 'hex'), 16)

-- name: dead_letter
-- A CTE ``died`` gives the columns of ``mortal``, and as texts: error (one line), traceback, essence (core/fingerprint.py), worker.
-- One that dies again after a redrive waits once more for someone to decide. (In the order of their locks: values.lock_order.)
INSERT INTO scheduling_deadletter AS letter (
    fire_id, job_id, tenant_id, shard_id, history_days, scheduled_for, fire_at, origin, schedule_version, fence, attempts, exclusive,
    task, args, kwargs, reason, error, traceback, fingerprint, worker, died_at)
SELECT d.id, d.job_id, d.tenant_id, d.shard_id, d.history_days, d.scheduled_for, d.fire_at, d.origin, d.schedule_version, d.fence, d.attempt,
    d.exclusive, coalesce(j.task, ''), coalesce(j.args, '[]'), coalesce(j.kwargs, '{}'), d.reason, d.error, d.traceback, {fingerprint},
    d.worker, clock_timestamp()
FROM died d LEFT JOIN scheduling_job j ON j.id = d.job_id
ORDER BY d.shard_id, d.fire_at, d.id
ON CONFLICT (fire_id) DO UPDATE
SET fence = excluded.fence, attempts = excluded.attempts, schedule_version = excluded.schedule_version, fire_at = excluded.fire_at,
    task = excluded.task, args = excluded.args, kwargs = excluded.kwargs, reason = excluded.reason, error = excluded.error,
    traceback = excluded.traceback, fingerprint = excluded.fingerprint, worker = excluded.worker, queue = '', message = NULL,
    died_at = excluded.died_at, redriven_at = NULL, redrive_id = NULL
