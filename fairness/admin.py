"""The pages of tenants. What their history and their queues hang on is fixed at creation, and can only be read then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.http import HttpRequest

from fairness.models import Tenant

if TYPE_CHECKING:
    TenantModelAdmin = admin.ModelAdmin[Tenant]
else:
    TenantModelAdmin = admin.ModelAdmin


@admin.register(Tenant)
class TenantAdmin(TenantModelAdmin):
    list_display = ("slug", "weight", "rate_per_s", "history_days", "created_at")
    search_fields = ("slug__startswith",)
    search_help_text = "The beginning of a slug."
    show_full_result_count = False
    fields = ("slug", "weight", "rate_per_s", "history_days")

    def get_readonly_fields(self, request: HttpRequest, obj: Tenant | None = None) -> tuple[str, ...]:  # noqa: ARG002
        return () if obj is None else ("slug", "history_days")
