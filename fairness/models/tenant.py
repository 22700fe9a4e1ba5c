"""Tenants: the owners of jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.apps import apps as installed_apps
from django.apps.registry import Apps
from django.core.validators import RegexValidator
from django.db import models

from fairness.core.node import MAX_WEIGHT, MIN_WEIGHT
from fairness.models.bounds import Bounds

SLUG_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,99}$"


DEFAULT_TENANT = "default"  # of those who have no tenants


class HistoryDays(models.IntegerChoices):
    """Time-to-live classes of a tenant's fires and runs; each is a family of partitions that expire together."""

    WEEK = 7, "7 days"
    MONTH = 30, "30 days"
    QUARTER = 90, "90 days"


class Tenant(Bounds):
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
    transactional_weight = models.FloatField(
        null=True,
        blank=True,
        help_text="Its weight in the transactional lane, where its plan has another one there. Empty: the same.",
    )
    max_jobs = models.PositiveIntegerField(
        null=True, blank=True, help_text="Jobs that it may have; one more is refused. Empty: no quota."
    )
    daily_fires = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Fires a day (UTC, on the job clock); the others wait for the next. Empty: no budget.",
    )
    stagger = models.DurationField(
        null=True,
        blank=True,
        help_text="Jitter of its jobs that name none, so that they do not all fire at the top of the hour.",
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
            *Bounds.Meta.constraints,
            models.CheckConstraint(
                name="tenant_slug_is_plain", condition=models.Q(slug__regex=SLUG_PATTERN), violation_error_code="slug"
            ),
            models.CheckConstraint(
                name="tenant_weight_is_positive",
                condition=models.Q(weight__gte=MIN_WEIGHT) & models.Q(weight__lte=MAX_WEIGHT),
                violation_error_message="weight: a number from 0.001 to 10000",
            ),
            models.CheckConstraint(
                name="tenant_transactional_weight_is_one",
                condition=models.Q(transactional_weight__isnull=True)
                | models.Q(transactional_weight__gte=MIN_WEIGHT) & models.Q(transactional_weight__lte=MAX_WEIGHT),
                violation_error_message="transactional weight: a number from 0.001 to 10000, or empty",
            ),
            models.CheckConstraint(
                name="tenant_stagger_is_a_span",
                condition=models.Q(stagger__isnull=True)
                | models.Q(stagger__gte=timedelta(0)) & models.Q(stagger__lte=timedelta(days=1)),
                violation_error_message="stagger: from 0 to a day, or empty",
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
