"""Tenants: the owners of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar

from django.apps import apps as installed_apps
from django.apps.registry import Apps
from django.core.validators import RegexValidator
from django.db import models, router

from fairness.core.node import MAX_WEIGHT, MIN_WEIGHT
from fairness.models.bounds import Bounds
from fairness.models.checked import CheckedManager, is_outside, within
from fairness.models.tenant_deletion import TenantQuerySet, refuse_in_use

SLUG_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,99}$"
WEIGHT = "a number from 0.001 to 10000"
STAGGER = "from 0 to a day, or empty"
LONGEST_STAGGER = timedelta(days=1)

DEFAULT_TENANT = "default"  # of those who have no tenants


class HistoryDays(models.IntegerChoices):
    """Time-to-live classes of a tenant's fires and runs; each is a family of partitions that expire together."""

    WEEK = 7, "7 days"
    MONTH = 30, "30 days"
    QUARTER = 90, "90 days"


class TenantManager(CheckedManager["Tenant"]):
    def get_queryset(self) -> TenantQuerySet:
        return TenantQuerySet(self.model, using=self._db)


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

    objects: ClassVar[TenantManager] = TenantManager()

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
                violation_error_message=f"weight: {WEIGHT}",
            ),
            models.CheckConstraint(
                name="tenant_transactional_weight_is_one",
                condition=within("transactional_weight", MIN_WEIGHT, MAX_WEIGHT),
                violation_error_message=f"transactional weight: {WEIGHT}, or empty",
            ),
            models.CheckConstraint(
                name="tenant_stagger_is_a_span",
                condition=within("stagger", timedelta(0), LONGEST_STAGGER),
                violation_error_message=f"stagger: {STAGGER}",
            ),
            models.CheckConstraint(
                name="tenant_history_days_is_a_class", condition=models.Q(history_days__in=HistoryDays.values)
            ),
        ]

    def __str__(self) -> str:
        return self.slug

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if is_outside(self.weight, MIN_WEIGHT, MAX_WEIGHT):
            yield "weight", WEIGHT
        if is_outside(self.transactional_weight, MIN_WEIGHT, MAX_WEIGHT):
            yield "transactional_weight", f"{WEIGHT}, or empty"
        if is_outside(self.stagger, timedelta(0), LONGEST_STAGGER):
            yield "stagger", STAGGER

    def delete(self, using: str | None = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:
        """As Django's. Raises TenantInUse while it has jobs."""
        refuse_in_use([self], using=using or router.db_for_write(Tenant, instance=self))
        return super().delete(using=using, keep_parents=keep_parents)


def seed_default_tenant(*, using: str, apps: Apps = installed_apps, **_: Any) -> None:
    """Make the default tenant where it is missing (after each migrate and flush)."""
    if "tenant" in apps.all_models["fairness"]:  # else: migrated back to where there were none
        Tenant.objects.using(using).get_or_create(slug=DEFAULT_TENANT)
