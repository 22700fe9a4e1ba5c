"""Deleting jobs: really, where they never fired; softly, where there is history that tells of them.

The jobs are locked ``FOR UPDATE`` first, and a *second* statement looks at their fires: a claim or an acquire in flight
has committed by then, and is seen; a later one finds the job deleted. A fire that is running is left to its worker,
and so is one that was published for a job of which no worker has ever acquired a fire: a plain Celery task has run
it, or will; anything else finds the job deleted at its acquire.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import connections, transaction

LOCK = "SELECT id FROM scheduling_job WHERE id = ANY (%s) ORDER BY id FOR UPDATE"

CANCEL_FIRES = """
WITH job AS MATERIALIZED (
    SELECT j.id, p.seq_epoch, p.seq,
        EXISTS (SELECT FROM scheduling_fire r WHERE r.job_id = j.id AND r.attempt > 0) AS acquires
    FROM scheduling_job j JOIN scheduling_shardprogress p ON p.shard_id = j.shard_id
    WHERE j.id = ANY (%s)
), held AS MATERIALIZED (  -- in the order in which all lock fires: values.lock_order
    SELECT f.scheduled_for, f.id, f.history_days FROM job j JOIN scheduling_fire f ON f.job_id = j.id
    WHERE f.state IN ('claimed', 'parked', 'retry_wait')
      AND (f.state <> 'claimed' OR j.acquires
           OR NOT (f.confirmed OR coalesce((f.seq_epoch, f.seq) <= (j.seq_epoch, j.seq), false)))
    ORDER BY f.shard_id, f.fire_at, f.id
    FOR NO KEY UPDATE OF f
)
UPDATE scheduling_fire f
SET state = CASE WHEN f.attempt = 0 THEN 'skipped' ELSE 'dead' END,
    reason = 'cancelled', wake_at = NULL, finished_at = clock_timestamp()
FROM held h
WHERE (f.scheduled_for, f.id, f.history_days) = (h.scheduled_for, h.id, h.history_days)
"""

HIDE = """
UPDATE scheduling_job j
SET deleted_at = fairbeat_job_now(), next_scheduled_for = NULL, next_fire_at = NULL, in_bucket = false,
    paused_at = NULL, paused_until = NULL  -- nobody will end it: what runs now, and fails, would wait for ever
WHERE j.id = ANY (%s) AND j.deleted_at IS NULL AND EXISTS (SELECT FROM scheduling_fire f WHERE f.job_id = j.id)
"""

REMOVE = """
DELETE FROM scheduling_job j
WHERE j.id = ANY (%s) AND NOT EXISTS (SELECT FROM scheduling_fire f WHERE f.job_id = j.id)
"""


def delete_jobs(job_ids: Sequence[UUID], *, using: str) -> int:
    """Delete these jobs in one transaction; returns how many went, either way.

    One that was deleted softly before, and whose history has expired since, goes for good.
    """
    ids = list(job_ids)
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        cursor.execute(LOCK, [ids])
        cursor.execute(CANCEL_FIRES, [ids])
        cursor.execute(HIDE, [ids])
        hidden = cursor.rowcount
        cursor.execute(REMOVE, [ids])
        return hidden + cursor.rowcount
