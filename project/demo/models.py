"""What the demo's task writes: one row for each effect."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class Effect(models.Model):
    """An effect of a fire. Nothing here forbids a second one of the same fire: the demo counts those."""

    fire_id = models.UUIDField()
    job_id = models.UUIDField()
    attempt = models.IntegerField()
    fence = models.IntegerField()
    written_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.fire_id} attempt {self.attempt}"
