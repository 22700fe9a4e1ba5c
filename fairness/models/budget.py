"""Fires of a day that nodes have taken out of tenants' budgets, in chunks: so no more than the budget ever go."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from fairness.models.tenant import Tenant


class Budget(models.Model):
    """``taken`` moves by a conditional UPDATE only; a node gives back what it did not use."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="budgets")
    day = models.DateField(help_text="UTC, on the job clock.")
    taken = models.PositiveIntegerField(default=0)
    changed_at = models.DateTimeField(db_default=Now(), help_text="Real time.")

    class Meta:
        ordering = ["-day", "tenant"]
        constraints = [models.UniqueConstraint("tenant", "day", name="budget_is_one_a_day")]

    def __str__(self) -> str:
        return f"{self.tenant} {self.day}"
