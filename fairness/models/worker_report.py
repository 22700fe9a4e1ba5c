"""What workers say of themselves: from it follows how much may be released to them."""

from __future__ import annotations

from django.db import models


class WorkerReport(models.Model):
    """One row for each worker process, written about each second. Figures are of the time since the last report."""

    name = models.CharField(max_length=255, primary_key=True)
    started_at = models.DateTimeField(help_text="Real time.")
    seen_at = models.DateTimeField(help_text="Real time, by the database's clock.")
    interval_s = models.FloatField(help_text="Real seconds since the last report.")
    slots = models.PositiveIntegerField(help_text="Tasks that it can run at once.")
    busy = models.PositiveIntegerField(help_text="Tasks that run now.")
    waiting = models.PositiveIntegerField(help_text="Messages that it holds, and that do not run yet.")
    idle_s = models.FloatField(help_text="Slot-seconds without a task.")
    ran = models.PositiveIntegerField(help_text="Tasks that ended.")
    ran_s = models.FloatField(help_text="Slot-seconds that these took.")
    is_leaving = models.BooleanField(default=False, help_text="It ends once what it runs has ended.")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
