"""The ledger's row: one occurrence that a node claimed, or a manual one.

::

    (none)    -claim->  claimed -acquire-> running -ok-> succeeded
    claimed   -limit | turn | overlap-> parked -released-> claimed
    running   -fail | lease out-> retry_wait -due-> claimed      fence + 1
    running   -attempts exhausted | cancel-> dead          with a dead letter
    running   -snooze-> retry_wait                         fence + 1, the attempt is not counted
    claimed | parked, never started -policy | cancel-> skipped(reason)
    dead      -redrive-> retry_wait                        fence + 1, as many attempts more

The table is partitioned by time-to-live class and by UTC day of ``scheduled_for``, so its primary key holds both;
Django knows the id alone. Look a fire up with ``Fire.objects.by_id()``, which reads one partition: the id carries the
millisecond.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import models

from scheduling.core.fire import State
from scheduling.core.identity import idempotency_key, millisecond_of

_STATE = models.Q(state__in=[s.value for s in State])


class FireQuerySet(models.QuerySet["Fire"]):
    def by_id(self, fire: UUID) -> Fire:
        """The fire of this id, read from its own partition.

        Raises Fire.DoesNotExist.
        """
        millisecond = millisecond_of(fire)
        return self.get(
            id=fire, scheduled_for__gte=millisecond, scheduled_for__lt=millisecond + timedelta(milliseconds=1)
        )


class Fire(models.Model):
    """Unique on (job, ``scheduled_for``, ``origin``); every later change of state is a conditional UPDATE that
    carries the fence.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    job = models.ForeignKey(
        "scheduling.Job", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="fires"
    )
    tenant = models.ForeignKey(
        "fairness.Tenant", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    shard_id = models.SmallIntegerField()
    history_days = models.SmallIntegerField()
    scheduled_for = models.DateTimeField()
    fire_at = models.DateTimeField()
    origin = models.TextField(default="", help_text="Empty for the schedule's own; manual:… or backfill:… otherwise.")
    schedule_version = models.IntegerField()
    state = models.TextField(choices=[(s.value, s.value.replace("_", " ")) for s in State])
    reason = models.TextField(default="", help_text="Why it is skipped, parked, dead or waiting.")
    fence = models.IntegerField(default=1)
    attempt = models.IntegerField(default=0)
    max_attempts = models.IntegerField(default=1)
    exclusive = models.BooleanField(default=False, help_text="Its job does not let runs overlap.")
    seq_epoch = models.IntegerField(null=True)
    seq = models.BigIntegerField(null=True)
    claimed_at = models.DateTimeField(null=True, help_text="Real time.")
    claimed_until = models.DateTimeField(null=True, help_text="Stop 2: published by then, or any node does it again.")
    confirmed = models.BooleanField(default=False, help_text="Stop 2: the broker has it.")
    wake_at = models.DateTimeField(null=True, help_text="Job time at which its owner looks at it again.")
    lease_until = models.DateTimeField(null=True, help_text="Real time at which its holder's lease ends.")
    holder = models.UUIDField(null=True, help_text="The delivery that runs it.")
    started_at = models.DateTimeField(null=True, help_text="Real time at which the current attempt began.")
    covers = models.IntegerField(default=1, help_text="Occurrences that this row accounts for.")
    covers_to = models.DateTimeField(null=True, help_text="The last of them.")
    cancel_reason = models.TextField(
        default="", db_default="", help_text="Why it is to stop, where that was asked for while it runs."
    )
    sent_again_at = models.DateTimeField(
        null=True, help_text="Real time at which its message, which seemed to be gone, was last sent once more."
    )
    nominal = models.TextField(default="", help_text="Local times that the zone skips, for which it stands.")
    finished_at = models.DateTimeField(null=True, help_text="Real time.")

    objects = FireQuerySet.as_manager()

    class Meta:
        ordering = ["-scheduled_for", "-id"]
        # The table is made by hand in the first migration, with its partitions, keys and indexes.
        constraints = [
            models.CheckConstraint(name="fire_state_is_known", condition=_STATE),
            models.CheckConstraint(name="fire_fence_starts_at_one", condition=models.Q(fence__gte=1)),
            models.CheckConstraint(name="fire_attempt_not_negative", condition=models.Q(attempt__gte=0)),
            models.CheckConstraint(name="fire_covers_at_least_itself", condition=models.Q(covers__gte=1)),
            models.CheckConstraint(
                name="fire_running_has_holder_and_lease",
                condition=~models.Q(state="running") | models.Q(holder__isnull=False, lease_until__isnull=False),
            ),
            models.CheckConstraint(
                name="fire_waiting_has_wake_time",
                condition=~models.Q(state__in=["parked", "retry_wait"]) | models.Q(wake_at__isnull=False),
            ),
            models.CheckConstraint(
                name="fire_unrun_has_reason",
                condition=~models.Q(state__in=["parked", "skipped", "dead"]) | ~models.Q(reason=""),
            ),
            models.CheckConstraint(
                name="fire_skipped_never_started", condition=~models.Q(state="skipped") | models.Q(attempt=0)
            ),
        ]

    def __str__(self) -> str:
        return idempotency_key(self.job_id, self.scheduled_for, self.origin)
