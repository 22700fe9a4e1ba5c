"""The one row that says which tzdata the stored next occurrences were last computed with, all of them."""

from __future__ import annotations

from django.db import models


class ZoneData(models.Model):
    """No row: nothing was recorded yet."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    version = models.TextField(help_text="As services.zone_data_version tells it.")
    replanned_at = models.DateTimeField(help_text="Real time.")

    class Meta:
        verbose_name_plural = "zone data"
        constraints = [models.CheckConstraint(name="zone_data_is_one_row", condition=models.Q(id=1))]

    def __str__(self) -> str:
        return self.version
