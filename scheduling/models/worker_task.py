"""The tasks that workers have registered: so that a node, which imports none of them, knows which of them acquire."""

from __future__ import annotations

from django.db import models


class WorkerTask(models.Model):
    """Written by each worker at its start. One that is not seen any more stays: some other worker may have it."""

    name = models.CharField(max_length=255, primary_key=True)
    is_guarded = models.BooleanField(help_text="Made with @job: it acquires its fires in the ledger.")
    seen_at = models.DateTimeField(help_text="Real time.")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
