"""Calendars of closed days and hours, which jobs share: an occurrence in a closed time is skipped, as ``excluded``."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models

from scheduling.core.closed_times import calendar_of
from scheduling.core.recurrence import Calendar as ClosedTimes


class Calendar(models.Model):
    """Times at which nothing is to run. Without a tenant, every tenant's jobs may use it.

    A change counts for what is claimed after it.
    """

    tenant = models.ForeignKey("fairness.Tenant", null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=100)
    tz = models.CharField("time zone", max_length=64, default="UTC", help_text="IANA name, as Europe/Paris.")
    days = ArrayField(models.DateField(), default=list, blank=True, help_text="Closed days, comma-separated.")
    hours = models.JSONField(
        default=list,
        blank=True,
        help_text='Closed hours, as [{"begins": "22:00", "ends": "06:00", "weekdays": [5, 6]}].',
    )

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint("tenant", "name", name="calendar_name_is_unique", nulls_distinct=False),
            models.CheckConstraint(name="calendar_has_name", condition=~models.Q(name="")),
        ]

    def __str__(self) -> str:
        return self.name

    def is_open_to(self, tenant_id: int) -> bool:
        """Whether jobs of this tenant may use it. (A trigger on jobs says the same to those who write SQL.)"""
        return self.tenant_id is None or self.tenant_id == tenant_id

    def closed_times(self) -> ClosedTimes:
        """Raises InvalidField."""
        return calendar_of(self.tz, self.days, self.hours)

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Raises InvalidField for times that cannot be read."""
        self.closed_times()
        super().save(*args, **kwargs)
