"""Steps of a fire's task that are to happen at most once, whatever becomes of its attempts."""

from __future__ import annotations

from django.db import models


class Step(models.Model):
    """Begun, and then done with its result. One that stays begun is in doubt: its attempt ended in between.

    Kept for as long as its fire, or its dead letter.
    """

    fire_id = models.UUIDField()
    name = models.CharField(max_length=200)
    fence = models.IntegerField(help_text="Of the attempt that began it.")
    scheduled_for = models.DateTimeField()
    begun_at = models.DateTimeField(help_text="Real time.")
    is_done = models.BooleanField(default=False)
    result = models.JSONField(null=True)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index("scheduled_for", name="step_by_age")]
        constraints = [models.UniqueConstraint("fire_id", "name", name="step_is_one_for_each_name")]

    def __str__(self) -> str:
        return f"{self.fire_id} {self.name}"
