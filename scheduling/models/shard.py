"""Who owns what: nodes with their leases, shards with their epochs, and how far each shard has been confirmed.

Three tables, because their rows are written at different rates and locked for different reasons: a take-over
*updates* the shard's row and thereby waits for every open transaction that holds its epoch; the lease and the
progress must not be in that row, or each renewal would wait for claims.
"""

from __future__ import annotations

from typing import Any

from django.apps import apps as installed_apps
from django.apps.registry import Apps
from django.conf import settings
from django.db import models

from scheduling.conf import scheduling_settings


class Node(models.Model):
    """One scheduler process. Its lease is judged by the database's clock."""

    id = models.CharField(primary_key=True, max_length=200)
    region = models.CharField(max_length=100, blank=True, default="")
    weight = models.FloatField(default=1.0, help_text="Capacity relative to the other nodes.")
    started_at = models.DateTimeField()
    lease_until = models.DateTimeField()
    fires = models.BigIntegerField(default=0, help_text="Fires confirmed since the start.")
    latency = models.JSONField(default=dict, help_text="Histogram of (confirmed - due), real seconds.")

    class Meta:
        constraints = [models.CheckConstraint(name="node_weight_is_positive", condition=models.Q(weight__gt=0))]

    def __str__(self) -> str:
        return self.id


class Shard(models.Model):
    """A fixed slice of the jobs. ``epoch`` is the fencing token of its ownership, and only ever grows."""

    id = models.SmallIntegerField(primary_key=True)
    epoch = models.IntegerField(default=0)
    owner = models.ForeignKey(Node, null=True, on_delete=models.SET_NULL, related_name="shards")

    class Meta:
        ordering = ["id"]
        constraints = [models.CheckConstraint(name="shard_epoch_not_negative", condition=models.Q(epoch__gte=0))]

    def __str__(self) -> str:
        return f"shard {self.id}"


class ShardProgress(models.Model):
    """The watermark: every fire numbered at or below (seq_epoch, seq) is confirmed, or has left ``claimed``."""

    shard = models.OneToOneField(Shard, primary_key=True, on_delete=models.CASCADE, related_name="progress")
    seq_epoch = models.IntegerField(default=0)
    seq = models.BigIntegerField(default=0)

    class Meta:
        verbose_name_plural = "shard progress"

    def __str__(self) -> str:
        return f"{self.shard_id}: ({self.seq_epoch}, {self.seq})"


def seed_shards(*, using: str, apps: Apps = installed_apps, **_: Any) -> None:
    """Make the rows of the configured shards where they are missing (after each migrate and flush; removes none)."""
    if "shard" not in apps.all_models["scheduling"]:
        return  # migrated back to where there were none
    wanted = scheduling_settings(settings).SHARDS
    Shard.objects.using(using).bulk_create([Shard(id=n) for n in range(wanted)], ignore_conflicts=True)
    progress = [ShardProgress(shard_id=n) for n in range(wanted)]
    ShardProgress.objects.using(using).bulk_create(progress, ignore_conflicts=True)
