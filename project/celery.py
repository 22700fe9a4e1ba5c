"""The Celery app of the project: `celery -A project worker`.

Its configuration is every `CELERY_…` of the Django settings. Tasks are found in the `tasks` modules of the installed
apps. It has no beat: `manage.py scheduler` takes its place.
"""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

app = Celery("project")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
