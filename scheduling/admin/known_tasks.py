"""Which names are those of tasks, for the pages of tenants: limits may be of a task."""

from __future__ import annotations

from collections.abc import Collection

from celery import current_app

from fairness.admin.known_tasks import knows_tasks
from fairness.models import Tenant
from scheduling.models import Job, WorkerTask


@knows_tasks
def registered(_tenant: Tenant, names: Collection[str]) -> set[str]:
    """By a worker, or in this process."""
    found = set(WorkerTask.objects.filter(name__in=names).values_list("name", flat=True))
    return found | {name for name in names if name in current_app.tasks}


@knows_tasks
def of_jobs(tenant: Tenant, names: Collection[str]) -> set[str]:
    """What the tenant's jobs run."""
    return set(Job.objects.filter(tenant=tenant, task__in=names).order_by().values_list("task", flat=True).distinct())
