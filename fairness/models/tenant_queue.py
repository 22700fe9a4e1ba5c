"""The broker's queues that are in use: what workers consume, and what the janitor retires."""

from __future__ import annotations

from django.db import models

from fairness.models.tenant import Tenant


class TenantQueue(models.Model):
    """A queue of one tenant's lane, or, without a tenant, of many (or of one that is gone). Its row is there before its
    first message.
    """

    name = models.CharField(max_length=255, primary_key=True)
    tenant = models.ForeignKey(Tenant, null=True, on_delete=models.SET_NULL, related_name="queues")
    lane = models.CharField(max_length=20)
    made_at = models.DateTimeField(help_text="Real time.")
    used_at = models.DateTimeField(
        help_text="Real time at which something was last known to be published to it; coarse."
    )
    retired_at = models.DateTimeField(
        null=True, help_text="Real time from which nothing is published to it any more: it is being emptied."
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
