"""The pages of tenants: what each may have, beside what it gets. What their history and their queues hang on is fixed
at creation, and can only be read then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db import router
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from fairness.admin import wording
from fairness.admin.known_tasks import unknown_tasks
from fairness.models import Budget, Limit, Standing, Tenant, TenantQueue
from fairness.models.tenant_deletion import in_use
from fairness.observed import WINDOW_S, Observed, observe

if TYPE_CHECKING:
    TenantModelAdmin = admin.ModelAdmin[Tenant]
    LimitInlineAdmin = admin.TabularInline[Limit, Tenant]
else:
    TenantModelAdmin = admin.ModelAdmin
    LimitInlineAdmin = admin.TabularInline

ROWS_SHOWN = 500  # of the page of shares: those that were served most
GRANTS_SHOWN = 100
QUEUES_SHOWN = 20
WINDOWS = {"1 min": 60.0, "10 min": 600.0, "1 h": 3600.0, "1 day": 86_400.0}


class TenantList(ChangeList):
    """How they stand is looked up for all that a page shows at once."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        found: dict[int, list[Observed]] = defaultdict(list)
        for row in observe().rows:
            found[row.tenant_id].append(row)
        for tenant in self.result_list:
            tenant.observed = found[tenant.pk]


class LimitInline(LimitInlineAdmin):
    """Of a part of what the tenant does."""

    model = Limit
    extra = 0
    fields = ("lane", "task", "rate_per_s", "burst", "max_in_flight", "is_strict")


@admin.register(Tenant)
class TenantAdmin(TenantModelAdmin):
    list_display = (
        "slug", "weight", "share", "waiting", "backlog_age", "throttled", "held_by", "rate_per_s", "max_in_flight",
        "history_days", "created_at",
    )  # fmt: skip
    search_fields = ("slug__startswith",)
    search_help_text = "The beginning of a slug."
    show_full_result_count = False
    inlines = (LimitInline,)
    readonly_fields = ("live", "spent", "queues", "last_grants")
    what_it_may_have = (
        (None, {"fields": ("slug", "weight", "transactional_weight", "history_days")}),
        ("Limits: what is over one waits", {"fields": ("rate_per_s", "burst", "max_in_flight", "is_strict")}),
        ("Quotas", {"fields": ("max_jobs", "daily_fires", "stagger")}),
    )
    what_it_gets = ("What it gets", {"fields": ("live", "spent", "queues", "last_grants")})

    def get_fieldsets(self, request: HttpRequest, obj: Tenant | None = None) -> Any:
        return self.what_it_may_have if obj is None else (*self.what_it_may_have, self.what_it_gets)

    def get_readonly_fields(self, request: HttpRequest, obj: Tenant | None = None) -> tuple[str, ...]:
        return self.readonly_fields if obj is None else (*self.readonly_fields, "slug", "history_days")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return TenantList

    def get_urls(self) -> Any:
        shares = self.admin_site.admin_view(self.shares_view)
        return [path("shares/", shares, name="fairness_tenant_shares"), *super().get_urls()]

    def get_deleted_objects(self, objs: Sequence[Tenant] | QuerySet[Tenant], request: HttpRequest) -> Any:
        """Without a look at each of the jobs that are in the way."""
        refused = in_use(objs, using=router.db_for_write(Tenant))
        return ([], {}, set(), refused) if refused else super().get_deleted_objects(objs, request)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """A limit of a task that nobody knows is saved, and said: workers may have tasks that are not known here."""
        super().save_related(request, form, formsets, change)
        named = {limit.task for limit in form.instance.limits.all() if limit.task}
        for task in unknown_tasks(form.instance, named):
            messages.warning(
                request,
                f"task {task!r}: no worker has registered a task of this name, and no job of {form.instance} runs one;"
                " its limit limits nothing until then",
            )

    def shares_view(self, request: HttpRequest) -> HttpResponse:
        """All that were served lately or have something waiting, against their weights."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        window = request.GET.get("window", "")
        found = observe(window_s=WINDOWS.get(window, WINDOW_S))
        rows = sorted(found.rows, key=lambda row: (row.lane, -row.served_s, -row.waiting, row.tenant))
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Shares",
            "rows": [_cells(row) for row in rows[:ROWS_SHOWN]],
            "beyond": len(rows) - ROWS_SHOWN,
            "jain": [(lane, f"{index:.4f}") for lane, index in found.jain.items()],
            "windows": list(WINDOWS),
            "window": window if window in WINDOWS else next(iter(WINDOWS)),
        }
        return TemplateResponse(request, "admin/fairness/tenant/shares.html", context)

    # -- in the list --------------------------------------------------------------------------------------------

    @admin.display(description="share in the last minute, of what its weight gives")
    def share(self, tenant: Any) -> SafeString | str:
        return _by_lane(tenant.observed, wording.share)

    @admin.display(description="waiting")
    def waiting(self, tenant: Any) -> str:
        return wording.count(sum(row.waiting for row in tenant.observed))

    @admin.display(description="oldest")
    def backlog_age(self, tenant: Any) -> SafeString | str:
        return _by_lane(tenant.observed, wording.age)

    @admin.display(description="throttled")
    def throttled(self, tenant: Any) -> str:
        return wording.count(sum(row.throttled for row in tenant.observed))

    @admin.display(description="held by")
    def held_by(self, tenant: Any) -> SafeString | str:
        return _by_lane(tenant.observed, wording.held_by)

    # -- on the page --------------------------------------------------------------------------------------------

    @admin.display(description="in the last minute")
    def live(self, tenant: Tenant) -> SafeString | str:
        rows = [row for row in observe().rows if row.tenant_id == tenant.pk]
        said = format_html_join(
            "",
            "<li>{}: {} by weight {}; {} started, {} throttled, {} refused; {} wait, {} in flight; the oldest has been"
            " due for {}; held by: {}</li>",
            (
                (
                    row.lane, wording.share(row), f"{row.weight:g}", wording.count(row.starts),
                    wording.count(row.throttled), wording.count(row.refused), wording.count(row.waiting),
                    wording.count(row.in_flight), wording.age(row), wording.held_by(row),
                )
                for row in rows
            ),
        )  # fmt: skip
        return format_html("<ul>{}</ul>", said) if rows else "nothing was served, and nothing waits"

    @admin.display(description="budget of the day")
    def spent(self, tenant: Tenant) -> str:
        if tenant.daily_fires is None:
            return "-"
        budget = Budget.objects.filter(tenant=tenant).order_by("-day").first()
        if budget is None:
            return f"none of {tenant.daily_fires:,}"
        return (
            f"{budget.taken:,} of {tenant.daily_fires:,} on {budget.day} (with what nodes have taken and not used yet)"
        )

    @admin.display(description="queues")
    def queues(self, tenant: Tenant) -> SafeString | str:
        """Its own; without one it is in shared ones."""
        found: QuerySet[TenantQueue] = TenantQueue.objects.filter(tenant=tenant)[:QUEUES_SHOWN]
        rows = format_html_join(
            "", "<li>{}{}</li>", ((row.name, ", being emptied" if row.retired_at else "") for row in found)
        )
        return format_html("<ul>{}</ul>", rows) if rows else "none of its own"

    @admin.display(description="last grants")
    def last_grants(self, tenant: Tenant) -> SafeString | str:
        """The newest first, of all nodes."""
        standings = Standing.objects.filter(tenant=tenant).values_list("lane", "grants")
        found = sorted(((at, fire, lane) for lane, grants in standings for fire, at in grants), reverse=True)
        rows = format_html_join("", "<li>{} {} {}</li>", ((at, lane, fire) for at, fire, lane in found[:GRANTS_SHOWN]))
        return format_html("<details><summary>{}</summary><ul>{}</ul></details>", len(found), rows) if rows else "none"


def _by_lane(rows: Sequence[Observed], said: Any) -> SafeString | str:
    """In a line for each lane; the lane is named where there are two."""
    if len(rows) == 1:
        return str(said(rows[0]))
    return format_html_join(SafeString("<br>"), "{}: {}", ((row.lane, said(row)) for row in rows)) or "-"


def _cells(row: Observed) -> dict[str, Any]:
    return {
        "id": row.tenant_id,
        "tenant": row.tenant,
        "lane": row.lane,
        "weight": f"{row.weight:g}",
        "served": f"{row.served_s:,.1f} s",
        "share": f"{row.share:.1%}",
        "due": f"{row.due:.1%}",
        "starts": wording.count(row.starts),
        "waiting": wording.count(row.waiting),
        "in_flight": wording.count(row.in_flight),
        "age": wording.age(row),
        "throttled": wording.count(row.throttled),
        "refused": wording.count(row.refused),
        "held_by": wording.held_by(row),
    }
