"""Reads what a run has left: every occurrence told anew from the schedules, the ledger's rows, effects, runs."""

from __future__ import annotations

from pathlib import Path

from django.db import connection

from project.demo.models import Effect
from scheduling.core.clock import EPOCH
from scheduling.core.recurrence import occurrences
from scheduling.models import Fire, Job
from tests.chaos import runlog
from tests.chaos.judge import Evidence, FireRow
from tests.chaos.settings import FIRE_LEASE_S

UNSETTLED = """
SELECT (SELECT count(*) FROM scheduling_job WHERE next_fire_at IS NOT NULL)
     + (SELECT count(*) FROM scheduling_entry)
     + (SELECT count(*) FROM scheduling_fire WHERE state IN ('claimed', 'parked', 'retry_wait', 'running'))
"""


def count_unsettled() -> int:
    """Occurrences that still have to be claimed, and fires that have not come to their end."""
    with connection.cursor() as cursor:
        cursor.execute(UNSETTLED)
        count: int = cursor.fetchone()[0]
    return count


def read_evidence(log: Path) -> Evidence:
    """All jobs have a ``end_at`` that is past."""
    due = {}
    for job in Job.objects.all():
        assert job.end_at is not None, f"{job} never ends"
        due[job.pk] = list(occurrences(job.schedule, after=EPOCH, until=job.end_at))
    fires = Fire.objects.order_by().values_list("pk", "job_id", "scheduled_for", "state", "reason", "covers_to")
    return Evidence(
        due=due,
        fires=[FireRow._make(row) for row in fires.iterator()],
        effects=list(Effect.objects.values_list("fire_id", flat=True)),
        runs=runlog.read(log.read_text().splitlines()),
        lease_s=FIRE_LEASE_S,
    )
