"""Append-only history: one attempt of a worker to execute a fire, keyed by (fire, fence)."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from django.db import models

NOBODY = UUID(int=0)  # the holder of an attempt that never began: the broker lost its message


class RunState(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"  # its lease ran out, or its process died
    TIMED_OUT = "timed_out"  # ended by its hard timeout
    SNOOZED = "snoozed"  # it put itself off, which is no attempt
    CANCELLED = "cancelled"  # it stopped because it was asked to, or because it wanted to


class JobRun(models.Model):
    """Partitioned as its fire is; ``id`` is derived from (fire, fence), so a second row for one attempt is refused."""

    id = models.UUIDField(primary_key=True, editable=False)
    fire_id = models.UUIDField()
    fence = models.IntegerField()
    job = models.ForeignKey(
        "scheduling.Job", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="runs"
    )
    tenant = models.ForeignKey(
        "fairness.Tenant", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    history_days = models.SmallIntegerField()
    scheduled_for = models.DateTimeField()
    attempt = models.IntegerField()
    state = models.TextField(choices=[(s.value, s.value) for s in RunState])
    holder = models.UUIDField()
    worker = models.TextField(default="")
    started_at = models.DateTimeField(help_text="Real time.")
    finished_at = models.DateTimeField(help_text="Real time.")
    result = models.TextField(default="")
    error = models.TextField(default="")
    traceback = models.TextField(default="")

    class Meta:
        ordering = ["-scheduled_for", "-id"]
        constraints = [
            models.CheckConstraint(
                name="job_run_state_is_known", condition=models.Q(state__in=[s.value for s in RunState])
            ),
            models.CheckConstraint(name="job_run_attempt_counts_from_one", condition=models.Q(attempt__gte=1)),
            models.CheckConstraint(
                name="job_run_ends_after_it_starts", condition=models.Q(finished_at__gte=models.F("started_at"))
            ),
        ]

    def __str__(self) -> str:
        return f"{self.fire_id} attempt {self.attempt}: {self.state}"
