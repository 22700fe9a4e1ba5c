"""Tenants: the owners of jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.apps import apps as installed_apps
from django.apps.registry import Apps
from django.core.validators import RegexValidator
from django.db import models

from fairness.core.node import MAX_WEIGHT, MIN_WEIGHT
from fairness.core.rate import FASTEST_PER_S, SLOWEST_PER_S

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
    transactional_weight = models.FloatField(
        null=True,
        blank=True,
        help_text="Its weight in the transactional lane, where its plan has another one there. Empty: the same.",
    )
    rate_per_s = models.FloatField(
        "rate",
        null=True,
        blank=True,
        help_text="Fires a second; what is beyond waits, and a denser schedule is warned of. Empty: no rate.",
    )
    burst = models.PositiveIntegerField(default=1, db_default=1, help_text="Fires that may go at once after a rest.")
    max_in_flight = models.PositiveIntegerField(
        null=True, blank=True, help_text="Fires that may be with the workers at once; the others wait. Empty: no cap."
    )
    is_strict = models.BooleanField(
        "strict cap",
        default=False,
        db_default=False,
        help_text="The cap holds whatever fails, by rows in Postgres; it costs a statement for each batch of fires.",
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
                name="tenant_burst_is_positive",
                condition=models.Q(burst__gte=1),
                violation_error_message="burst: at least 1",
            ),
            models.CheckConstraint(
                name="tenant_strict_needs_a_cap",
                condition=models.Q(is_strict=False) | models.Q(max_in_flight__isnull=False),
                violation_error_message="strict cap: needs a number of fires that may be in flight",
            ),
            models.CheckConstraint(
                name="tenant_stagger_is_a_span",
                condition=models.Q(stagger__isnull=True)
                | models.Q(stagger__gte=timedelta(0)) & models.Q(stagger__lte=timedelta(days=1)),
                violation_error_message="stagger: from 0 to a day, or empty",
            ),
            models.CheckConstraint(
                name="tenant_rate_is_positive",
                condition=models.Q(rate_per_s__isnull=True)
                | models.Q(rate_per_s__gte=SLOWEST_PER_S) & models.Q(rate_per_s__lte=FASTEST_PER_S),
                violation_error_message="rate: a number from 1e-9 to 1e9, or empty",
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
