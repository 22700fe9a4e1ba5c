"""The web pages of the project: the Django admin under `/admin/`, where `/` leads too; `/health/…` for probes."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("health/", include("scheduling.health")),
]
