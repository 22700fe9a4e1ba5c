"""Deleting jobs: really, where they never fired; softly, where there is history that tells of them.

The jobs are locked ``FOR UPDATE`` first, and a *second* statement looks at their fires: a claim or an acquire in flight
has committed by then, and is seen; a later one finds the job deleted. A fire that is running is left to its worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import connections, transaction

LOCK = "SELECT id FROM scheduling_job WHERE id = ANY (%s) ORDER BY id FOR UPDATE"

CANCEL_FIRES = """
UPDATE scheduling_fire
SET state = CASE WHEN attempt = 0 THEN 'skipped' ELSE 'dead' END,
    reason = 'cancelled', wake_at = NULL, finished_at = clock_timestamp()
WHERE job_id = ANY (%s) AND state IN ('claimed', 'parked', 'retry_wait')
"""

HIDE = """
UPDATE scheduling_job j
SET deleted_at = fairbeat_job_now(), next_scheduled_for = NULL, next_fire_at = NULL
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
