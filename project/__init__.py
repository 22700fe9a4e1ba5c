"""The deployable project: settings, the Celery app, the URLs, and the one place that joins the parts (`wiring`).

Importing this package makes the Celery app, so that `@shared_task` and `@job` find it in every Django process.
"""

from __future__ import annotations

from project.celery import app as celery_app

__all__ = ("celery_app",)
