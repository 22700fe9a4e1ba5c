"""The pages of workers and of queues: what there is to be shared. To read only, as nodes and workers write it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone

from fairness.models import TenantQueue, WorkerReport

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin

GONE_S = 10.0  # a worker that has not reported for so long


class WrittenByProcesses(ModelAdmin):
    show_full_result_count = False
    sortable_by = ()
    actions: Any = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(WorkerReport)
class WorkerReportAdmin(WrittenByProcesses):
    list_display = ("name", "state", "slots", "busy", "waiting", "idle", "ran_per_s", "mean", "seen_at")
    search_fields = ("name__startswith",)

    @admin.display(description="state")
    def state(self, report: WorkerReport) -> str:
        if report.seen_at < timezone.now() - timedelta(seconds=GONE_S):
            return "has ended" if report.is_leaving else "gone, or its reports do not arrive"
        return "ends" if report.is_leaving else "works"

    @admin.display(description="idle")
    def idle(self, report: WorkerReport) -> str:
        """Of its slots' time."""
        had_s = report.slots * report.interval_s
        return f"{report.idle_s / had_s:.0%}" if had_s else "-"

    @admin.display(description="tasks a second")
    def ran_per_s(self, report: WorkerReport) -> str:
        return f"{report.ran / report.interval_s:,.1f}" if report.interval_s else "-"

    @admin.display(description="mean run time")
    def mean(self, report: WorkerReport) -> str:
        return f"{report.ran_s / report.ran:.3f} s" if report.ran else "-"


@admin.register(TenantQueue)
class TenantQueueAdmin(WrittenByProcesses):
    list_display = ("name", "whose", "lane", "made_at", "used_at", "retired_at")
    list_filter = ("lane", ("retired_at", admin.EmptyFieldListFilter))
    list_select_related = ("tenant",)
    search_fields = ("name__startswith",)

    @admin.display(description="tenant")
    def whose(self, queue: TenantQueue) -> str:
        return "many" if queue.tenant is None else queue.tenant.slug
