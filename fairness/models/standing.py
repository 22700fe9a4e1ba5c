"""How tenants stand, as nodes see them: for the admin, for metrics, and for the answer to why something waits."""

from __future__ import annotations

from django.db import models

from fairness.models.tenant import Tenant


class Standing(models.Model):
    """One row for each node, tenant and lane with something waiting or in flight lately; written every few seconds."""

    node = models.CharField(max_length=200)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="standings")
    lane = models.CharField(max_length=20)
    at = models.DateTimeField(help_text="Real time at which it was written.")
    waiting = models.PositiveIntegerField(help_text="Fires that the node holds for their turn.")
    in_flight = models.PositiveIntegerField(help_text="Fires of the node that are with the broker and the workers.")
    reason = models.TextField(blank=True, default="", help_text="What holds the first of them. Empty: its turn.")
    until = models.DateTimeField(null=True, help_text="Real time at which that is asked again; empty: when one ends.")
    weight = models.FloatField()
    starts_per_s = models.FloatField(default=0.0, help_text="Over the last minute.")
    served_per_s = models.FloatField(default=0.0, help_text="Slot-seconds a second, over the last minute.")
    mean_s = models.FloatField(default=0.0, help_text="Slot-seconds of one fire, as expected.")
    oldest_at = models.DateTimeField(null=True, help_text="When the oldest that waits was due.")
    grants = models.JSONField(default=list, help_text="The last hundred: fire and instant, newest first.")

    class Meta:
        ordering = ["tenant", "lane", "node"]
        constraints = [models.UniqueConstraint("node", "tenant", "lane", name="standing_is_one_a_node")]

    def __str__(self) -> str:
        return f"{self.node}: {self.tenant} {self.lane}"


class ServedShare(models.Model):
    """What a tenant's lane was served in a minute, of all nodes together. Kept for a day."""

    minute = models.DateTimeField(help_text="Its beginning, real time.")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="served_shares")
    lane = models.CharField(max_length=20)
    weight = models.FloatField()
    served_s = models.FloatField(default=0.0, help_text="Slot-seconds.")
    starts = models.PositiveIntegerField(default=0)
    throttled = models.PositiveIntegerField(default=0, help_text="Times that a limit said: later.")
    refused = models.PositiveIntegerField(
        default=0, help_text="Jobs that a quota refused, or fires that the broker did."
    )
    backlogged_s = models.FloatField(
        default=0.0, help_text="Seconds of the minute in which something waited for its turn."
    )

    class Meta:
        ordering = ["-minute", "tenant", "lane"]
        constraints = [models.UniqueConstraint("minute", "tenant", "lane", name="served_share_is_one_a_minute")]

    def __str__(self) -> str:
        return f"{self.minute:%H:%M} {self.tenant} {self.lane}"
