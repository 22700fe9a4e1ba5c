"""Dead letters: fires whose attempts are used up, and messages that nothing here can execute; and their redrives.

::

    (none) -a fire dies | the broker gives a message up-> waiting -redrive-> redriven -it dies again-> waiting
                                                             └── discarded by a person

A dead letter holds all that a redrive needs, so it outlives the partition of its fire. A fire has one, however often
it dies.
"""

from __future__ import annotations

from enum import StrEnum

from django.db import models


class DeathReason(StrEnum):
    """Why: kept apart, since what is to be done about each differs."""

    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    GAVE_UP = "gave_up"  # the task raised what ``give_up_on`` names
    REJECTED = "rejected"  # a worker refused the message for good
    DELIVERY_LIMIT = "delivery_limit"  # delivered again and again, and never acknowledged
    UNDECODABLE = "undecodable"
    UNKNOWN_TASK = "unknown_task"
    FORGED = "forged"  # it names a fire that is not its own
    CANCELLED = "cancelled"


class DeadLetter(models.Model):
    """What names a fire is empty for a message that is none of ours."""

    fire_id = models.UUIDField(null=True, unique=True)
    job = models.ForeignKey(
        "scheduling.Job", null=True, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    tenant = models.ForeignKey(
        "fairness.Tenant",
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    shard_id = models.SmallIntegerField(null=True)
    history_days = models.SmallIntegerField(null=True)
    scheduled_for = models.DateTimeField(null=True)
    fire_at = models.DateTimeField(null=True)
    origin = models.TextField(default="", db_default="")
    schedule_version = models.IntegerField(null=True)
    fence = models.IntegerField(null=True, help_text="With which it died.")
    attempts = models.IntegerField(default=0, db_default=0)
    exclusive = models.BooleanField(default=False, db_default=False)
    task = models.TextField(default="", db_default="")
    args = models.JSONField(default=list, db_default=[])
    kwargs = models.JSONField(default=dict, db_default={})
    reason = models.TextField(choices=[(r.value, r.value.replace("_", " ")) for r in DeathReason])
    error = models.TextField(default="", db_default="", help_text="One line.")
    traceback = models.TextField(default="", db_default="", help_text="Its end, where the cause is.")
    fingerprint = models.CharField(max_length=16, help_text="The same for those that died of the same.")
    worker = models.TextField(default="", db_default="")
    queue = models.TextField(default="", db_default="", help_text="Where the broker had the message.")
    message = models.BinaryField(null=True, help_text="The beginning of what could not be read.")
    died_at = models.DateTimeField(help_text="Real time.")
    redrive = models.ForeignKey(
        "scheduling.Redrive", null=True, on_delete=models.SET_NULL, db_index=False, related_name="letters"
    )
    redriven_at = models.DateTimeField(null=True, help_text="Real time; empty: it waits for someone to decide.")
    redrives = models.IntegerField(default=0, db_default=0)

    class Meta:
        ordering = ["-died_at", "-id"]
        indexes = [
            models.Index(fields=["-died_at", "-id"], name="dead_letter_newest"),
            models.Index(
                "fingerprint", name="dead_letter_alike", condition=models.Q(redriven_at__isnull=True)
            ),
            models.Index(fields=["tenant", "-died_at"], name="dead_letter_of_tenant"),
            models.Index(
                "redrive", "id", name="dead_letter_to_redrive",
                condition=models.Q(redrive__isnull=False, redriven_at__isnull=True),
            ),
        ]  # fmt: skip
        constraints = [
            models.CheckConstraint(
                name="dead_letter_reason_is_known", condition=models.Q(reason__in=[r.value for r in DeathReason])
            ),
            models.CheckConstraint(
                name="dead_letter_is_redriven_as_a_fire",
                condition=models.Q(redriven_at__isnull=True) | models.Q(fire_id__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task or self.queue}: {self.reason}"


class Redrive(models.Model):
    """A person's wish to have dead letters run again, at a rate; the nodes carry it out, a second's worth at a time.

    ``moved + skipped`` is its progress towards ``total``. Its letters name it.
    """

    asked_at = models.DateTimeField(help_text="Real time.")
    asked_by = models.CharField(max_length=200, blank=True, default="")
    rate_per_s = models.FloatField(help_text="Fires a second, at most.")
    total = models.IntegerField(default=0)
    moved = models.IntegerField(default=0)
    skipped = models.IntegerField(default=0, help_text="Their jobs are deleted, or they live again already.")
    stopped_at = models.DateTimeField(null=True, help_text="Real time; what had not moved by then stays dead.")
    finished_at = models.DateTimeField(null=True, help_text="Real time.")

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(
                "id", name="redrive_open", condition=models.Q(stopped_at__isnull=True, finished_at__isnull=True)
            )
        ]
        constraints = [models.CheckConstraint(name="redrive_rate_is_positive", condition=models.Q(rate_per_s__gt=0))]

    def __str__(self) -> str:
        return f"redrive {self.pk}: {self.moved + self.skipped} of {self.total}"
