"""Tenants whose due jobs are left unclaimed: they have enough under way, and what is beyond that waits where it is."""

from __future__ import annotations

from django.db import models


class Hold(models.Model):
    """Since then a shard's owner has not claimed all that was due of the tenant; what came due later is not late by it.

    Written by the owner under its epoch, once it has lasted a while; removed when all that is due has been claimed.
    """

    shard_id = models.SmallIntegerField()
    tenant = models.ForeignKey("fairness.Tenant", on_delete=models.CASCADE, related_name="+")
    since = models.DateTimeField(help_text="Job time.")

    class Meta:
        ordering = ["shard_id", "tenant"]
        constraints = [models.UniqueConstraint("shard_id", "tenant", name="hold_is_one_a_shard")]

    def __str__(self) -> str:
        return f"shard {self.shard_id}: {self.tenant_id} since {self.since}"
