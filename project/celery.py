"""The Celery app of the project: `celery -A project worker`.

Its configuration is every `CELERY_…` of the Django settings. Tasks are found in the `tasks` modules of the installed
apps. Its workers consume the tenants' queues. In the place of beat stands `manage.py scheduler`, or
`celery -A project beat -S fairbeat`.
"""

from __future__ import annotations

import os

from celery import Celery

import fairness.worker
from fairness.queues import QueuePlan
from fairness.worker import Sharing
from scheduling.core import message
from scheduling.core.fire import Lane
from scheduling.worker.children import Children

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

app = Celery("project")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


def queue_plan() -> QueuePlan:
    """The sizes and names of the tenants' queues, for those who publish and those who consume."""
    from django.conf import settings

    from scheduling.conf import scheduling_settings

    ours = scheduling_settings(settings)
    return QueuePlan(prefix=ours.QUEUE_PREFIX, max_length=ours.QUEUE_MAX_LENGTH)


def sharing() -> Sharing:
    """How workers share their slots."""
    from django.conf import settings

    from scheduling.conf import Cost, Fairness, scheduling_settings

    ours = scheduling_settings(settings)
    return Sharing(
        is_fair=ours.fairness in (Fairness.QUEUES, Fairness.FAIR),
        by_count=ours.COST is Cost.COUNT,
    )


fairness.worker.install(app, lanes=tuple(Lane), plan=queue_plan, tenant_header=message.TENANT, sharing=sharing)
app.steps["consumer"].add(Children)
