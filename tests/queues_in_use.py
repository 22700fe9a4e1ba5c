"""Rows of tenants' queues, as nodes write them before a queue's first message: workers consume what has one."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from fairness.models import Tenant, TenantQueue
from fairness.queues import QueuePlan

LANES = ("transactional", "bulk")


def use(plan: QueuePlan, slug: str, **terms: Any) -> None:
    """The tenant's queues in all lanes are in use from now; the tenant is made with these ``terms`` if need be."""
    tenant, _ = Tenant.objects.get_or_create(slug=slug, defaults=terms)
    for lane in LANES:
        now, name = timezone.now(), plan.queue_name(slug, lane)
        TenantQueue.objects.create(name=name, tenant=tenant, lane=lane, made_at=now, used_at=now)
