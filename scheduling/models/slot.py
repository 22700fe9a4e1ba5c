"""Slots of strict caps: a fire of such a tenant is published only while a slot is its own."""

from __future__ import annotations

from django.db import models


class Slot(models.Model):
    """The ``number``-th place under a strict cap. It is free once its fire is neither with a worker nor on its way."""

    tenant = models.ForeignKey("fairness.Tenant", on_delete=models.CASCADE, related_name="+")
    lane = models.CharField(max_length=20, default="", blank=True, help_text="Of the cap, as are tenant and task.")
    task = models.CharField(max_length=255, default="", blank=True)
    number = models.PositiveIntegerField(help_text="From 1; those beyond the cap are not given out.")
    fire_id = models.UUIDField(null=True)
    scheduled_for = models.DateTimeField(null=True)
    history_days = models.SmallIntegerField(null=True)
    fence = models.IntegerField(
        default=0, db_default=0, help_text="Of the fire, when it took the slot: under a higher one it has it no more."
    )
    taken_at = models.DateTimeField(null=True, help_text="Real time.")

    class Meta:
        ordering = ["tenant", "lane", "task", "number"]
        constraints = [models.UniqueConstraint("tenant", "lane", "task", "number", name="slot_is_one")]
        indexes = [models.Index("fire_id", name="slot_by_fire", condition=models.Q(fire_id__isnull=False))]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.lane} {self.task} {self.number}"
