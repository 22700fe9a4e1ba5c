"""The Django project of django-celery-beat's measurement."""

from __future__ import annotations

import os

from psycopg.conninfo import conninfo_to_dict

SECRET_KEY = "not a secret: nothing is served"
USE_TZ = True
TIME_ZONE = "UTC"
INSTALLED_APPS = ["django_celery_beat"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

_postgres = conninfo_to_dict(os.environ["DATABASE_URL"])
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _postgres.get("dbname"),
        "USER": _postgres.get("user", ""),
        "PASSWORD": _postgres.get("password", ""),
        "HOST": _postgres.get("host", ""),
        # Django's default of 0 makes it connect anew for each look at the rows
        "CONN_MAX_AGE": None if os.environ.get("BENCH_KEEP_CONNECTION") else 0,
        "PORT": str(_postgres.get("port", "")),
    }
}
