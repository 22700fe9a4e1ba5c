"""Tenants: the owners of jobs."""

from __future__ import annotations

from typing import Any

from django.apps import apps as installed_apps
from django.apps.registry import Apps
from django.core.validators import RegexValidator
from django.db import models

SLUG_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,99}$"


DEFAULT_TENANT = "default"  # of those who have no tenants


class HistoryDays(models.IntegerChoices):
    """Time-to-live classes of a tenant's fires and runs; each is a family of partitions that expire together."""

    WEEK = 7, "7 days"
    MONTH = 30, "30 days"
    QUARTER = 90, "90 days"


class Tenant(models.Model):
    """Owner of jobs: its weight decides its share of the workers, its class how long its history is kept."""

    slug = models.CharField(
        max_length=100,
        unique=True,
        validators=[
            RegexValidator(SLUG_PATTERN, "lower-case letters, digits, '.', '_' and '-', a letter or digit first")
        ],
        help_text="Stable short name; part of the names of the tenant's queues.",
    )
    weight = models.FloatField(default=1.0, help_text="Share of the workers, relative to the other tenants.")
    rate_per_s = models.FloatField(
        "rate",
        null=True,
        blank=True,
        help_text="Fires a second that it is meant to stay under; a denser schedule is warned of. Empty: no rate.",
    )
    history_days = models.SmallIntegerField(
        choices=HistoryDays.choices,
        default=HistoryDays.MONTH,
        help_text="How long fires and runs are kept. Fixed at creation: it is part of the identity of their rows.",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                name="tenant_slug_is_plain", condition=models.Q(slug__regex=SLUG_PATTERN), violation_error_code="slug"
            ),
            models.CheckConstraint(
                name="tenant_weight_is_positive",
                condition=models.Q(weight__gt=0) & models.Q(weight__lte=10_000),
                violation_error_message="weight: a number above 0 and up to 10000",
            ),
            models.CheckConstraint(
                name="tenant_rate_is_positive",
                condition=models.Q(rate_per_s__isnull=True) | models.Q(rate_per_s__gt=0),
                violation_error_message="rate: a number above 0, or empty",
            ),
            models.CheckConstraint(
                name="tenant_history_days_is_a_class", condition=models.Q(history_days__in=HistoryDays.values)
            ),
        ]

    def __str__(self) -> str:
        return self.slug


def seed_default_tenant(*, using: str, apps: Apps = installed_apps, **_: Any) -> None:
    """Make the default tenant where it is missing (after each migrate and flush)."""
    if "tenant" in apps.all_models["fairness"]:  # else: migrated back to where there were none
        Tenant.objects.using(using).get_or_create(slug=DEFAULT_TENANT)
