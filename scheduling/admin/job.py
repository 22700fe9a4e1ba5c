"""The pages of jobs: the list, and the form with what is coming and what was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.db import models
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from fairness.models import Tenant
from scheduling.admin import wording
from scheduling.admin.job_actions import ACTIONS
from scheduling.admin.job_form import DurationField, JobForm
from scheduling.admin.paging import BoundedPaginator
from scheduling.core.recurrence import lint
from scheduling.models import Fire, Job, JobClock
from scheduling.services.explain import explain_job
from scheduling.services.next_runs import next_runs

TENANTS_SHOWN = 100
FIRES_SHOWN = 10

if TYPE_CHECKING:
    JobModelAdmin = admin.ModelAdmin[Job]
else:
    JobModelAdmin = admin.ModelAdmin


class TenantFilter(admin.SimpleListFilter):
    """By slug: ``?tenant=acme`` works for every tenant, also for those beyond the first ones that are listed."""

    title = "tenant"
    parameter_name = "tenant"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(slug, slug) for slug in Tenant.objects.values_list("slug", flat=True)[:TENANTS_SHOWN]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(tenant__slug=self.value()) if self.value() else queryset


class JobList(ChangeList):
    def get_queryset(self, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        """Without what no column shows: arguments may be a quarter of a megabyte each."""
        return super().get_queryset(*args, **kwargs).defer("args", "kwargs", "superseded")

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        _look_up_next_runs(list(self.result_list))  # which reads them, once for all


def _look_up_next_runs(jobs: Iterable[Any]) -> None:
    """Of all that a page shows at once; each gets its own as ``next_run``."""
    runs = next_runs(jobs)
    for job in jobs:
        job.next_run = runs.get(job.pk)


@admin.register(Job)
class JobAdmin(JobModelAdmin):
    form = JobForm
    formfield_overrides = {models.DurationField: {"form_class": DurationField}}
    paginator = BoundedPaginator
    show_full_result_count = False
    actions = ACTIONS
    list_display = ("named", "tenant", "task", "schedule_words", "next_run", "state", "pause", "lane")
    list_display_links = ("named",)
    list_filter = (TenantFilter, "kind", "lane", "origin")
    list_select_related = ("tenant",)
    search_fields = ("name",)
    search_help_text = "The beginning of a job's name."
    sortable_by = ()
    save_on_top = True
    readonly_fields = (
        "id",
        "shown_args",
        "shown_kwargs",
        "next_run",
        "state",
        "pause",
        "waits",
        "schedule_words",
        "coming_fires",
        "latest_fires",
        "origin",
        "shard_id",
        "schedule_version",
        "created_at",
        "updated_at",
    )
    what: Any = ("What", {"fields": ("task", "args", "kwargs", "lane")})
    what_is_shown: Any = ("What", {"fields": ("task", "shown_args", "shown_kwargs", "lane")})
    fieldsets = (
        (None, {"fields": ("tenant", "name", "description")}),
        what,
        (
            "When",
            {"fields": ("kind", "cron", "tz", "every", "anchor", "at", "rrule", "dtstart", "jitter", "calendar")},
        ),
        ("From when, and for how long", {"fields": ("start_at", "end_at", "max_runs")}),
        ("Where the clock changes", {"fields": ("gap", "fold", "day_match")}),
        (
            "When it is late",
            {"fields": ("misfire", "misfire_grace_s", "catch_up_limit", "catch_up_window", "expires_after")},
        ),
        ("While one runs", {"fields": ("overlap", "buffer_limit")}),
        ("Attempts", {"fields": ("max_attempts", "retry_base", "retry_cap", "soft_timeout_s", "hard_timeout_s")}),
    )
    coming = (
        "Coming and gone",
        {"fields": ("state", "pause", "waits", "schedule_words", "next_run", "coming_fires", "latest_fires")},
    )
    about = ("About", {"fields": ("id", "origin", "shard_id", "schedule_version", "created_at", "updated_at")})

    def get_fieldsets(self, request: HttpRequest, obj: Job | None = None) -> Any:
        """Who may only look does not see the secrets among the arguments."""
        if obj is None:
            return self.fieldsets
        sets: list[Any] = [self.coming, *self.fieldsets, self.about]
        if not self.has_change_permission(request, obj):
            sets[sets.index(self.what)] = self.what_is_shown
        return sets

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        return super().get_queryset(request).filter(deleted_at=None)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return JobList

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Job | None:
        job = super().get_object(request, object_id, from_field)
        if job is not None:
            _look_up_next_runs([job])
        return job

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Job], search_term: str
    ) -> tuple[QuerySet[Job], bool]:
        """By prefix, in one piece: names have spaces in them."""
        return queryset.filter(name__startswith=search_term.strip()), False

    def save_model(self, request: HttpRequest, obj: Job, form: Any, change: bool) -> None:
        """What is allowed and probably not meant is said, and saved."""
        super().save_model(request, obj, form, change)
        for caution in lint(obj.schedule, now=JobClock.objects.now(), rate_per_s=obj.tenant.rate_per_s):
            messages.warning(request, caution.reason)

    @admin.display(description="args")
    def shown_args(self, job: Job) -> str | SafeString:
        return wording.arguments(job.args)

    @admin.display(description="kwargs")
    def shown_kwargs(self, job: Job) -> str | SafeString:
        return wording.arguments(job.kwargs)

    @admin.display(description="job")
    def named(self, job: Job) -> str:
        return job.name or f"({job.id})"

    @admin.display(description="schedule")
    def schedule_words(self, job: Job) -> str:
        return wording.schedule_words(job)

    @admin.display(description="next run")
    def next_run(self, job: Any) -> str | SafeString:
        return wording.next_run(job, job.next_run)

    @admin.display(description="next fires")
    def coming_fires(self, job: Job) -> str | SafeString:
        return wording.coming_fires(job)

    @admin.display(description="state")
    def state(self, job: Job) -> str:
        return wording.state(job)

    @admin.display(description="paused")
    def pause(self, job: Job) -> str | SafeString:
        return wording.pause(job)

    @admin.display(description="why is it waiting")
    def waits(self, job: Job) -> str | SafeString:
        """Its next occurrence, and each of its fires that is not over."""
        found = explain_job(job)
        said = wording.explained(found.next)
        if found.held_since is not None:
            said = format_html("{}<br>its tenant has had more due since {}", said, wording.instant(found.held_since))
        fires = format_html_join(
            "",
            "<li>{}: {}</li>",
            (
                (
                    wording.fire_link(Fire(pk=fire.id, scheduled_for=fire.scheduled_for)),
                    wording.explained(fire.explained),
                )
                for fire in found.fires[:FIRES_SHOWN]
            ),
        )
        return format_html("{}<ul>{}</ul>", said, fires) if fires else said

    @admin.display(description="latest fires")
    def latest_fires(self, job: Job) -> str | SafeString:
        fires = list(Fire.objects.filter(job=job)[:FIRES_SHOWN])
        rows = format_html_join(
            "", "<li>{}: {} {}</li>", ((wording.fire_link(f), f.get_state_display(), wording.reason(f)) for f in fires)
        )
        everything = reverse("admin:scheduling_fire_changelist")
        more = format_html('<a href="{}?job__id__exact={}&amp;when=all">all fires of this job</a>', everything, job.pk)
        return format_html("<ul>{}<li>{}</li></ul>", rows, more) if fires else "none yet"
