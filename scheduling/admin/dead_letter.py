"""The pages of dead letters: one by one, alike ones together, and one in full.

The lists show those that wait for someone to decide, unless others are asked for. What acts on them is offered to who
may change dead letters (redrive), or delete them (discard); nobody edits one.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduling.admin import wording
from scheduling.admin.dead_letter_actions import ACTIONS
from scheduling.admin.job import TenantFilter
from scheduling.admin.read_only import ReadOnlyAdmin
from scheduling.core.identity import idempotency_key
from scheduling.models import DeadLetter, Fire
from scheduling.services.dead_letters import COUNTED, kinds

ERROR_SHOWN = 100  # characters, in lists
MESSAGE_SHOWN = 2_000  # bytes
KINDS_SHOWN = 100
_LONG = ("args", "kwargs", "traceback", "message", "job__args", "job__kwargs")


class StandingFilter(admin.SimpleListFilter):
    """Without a choice: those that wait."""

    title = "standing"
    parameter_name = "standing"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("redriven", "Redriven"), ("all", "All")]

    def choices(self, changelist: Any) -> Any:
        for choice in super().choices(changelist):
            is_default = choice["query_string"].find(f"{self.parameter_name}=") < 0
            yield choice | {"display": "Waiting"} if is_default else choice

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "all":
            return queryset
        return queryset.filter(redriven_at__isnull=self.value() != "redriven")


class KindFilter(admin.SimpleListFilter):
    """By fingerprint: offered once it is in use, which the page of alike ones leads to."""

    title = "alike ones"
    parameter_name = "fingerprint"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        value = self.value()
        return [(value, value)] if value else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(fingerprint=self.value()) if self.value() else queryset


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    change_list_template = "admin/scheduling/deadletter/change_list.html"
    change_form_template = "admin/scheduling/deadletter/change_form.html"
    actions = ACTIONS
    show_facets = admin.ShowFacets.NEVER  # each would count the table
    list_display = ("died_at", "of_job", "tenant", "task", "reason", "attempts", "short_error", "alike", "standing")
    list_filter = (StandingFilter, "reason", TenantFilter, KindFilter)
    list_select_related = ("job", "tenant", "redrive")
    readonly_fields = (
        "id", "standing", "reason", "of_job", "tenant", "task", "of_fire", "key", "scheduled_for", "origin", "attempts",
        "died_at", "error", "alike", "where", "masked_args", "masked_kwargs", "worker", "queue", "beginning",
        "redrives", "fence",
    )  # fmt: skip

    # -- who may ------------------------------------------------------------------------------------------------

    def has_redrive_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("scheduling.change_deadletter"))

    def has_discard_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("scheduling.delete_deadletter"))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_redrive_permission(request) or super().has_view_permission(request, obj)

    # -- the pages ----------------------------------------------------------------------------------------------

    def get_urls(self) -> Any:
        alike = self.admin_site.admin_view(self.alike_view)
        return [path("alike/", alike, name="scheduling_deadletter_alike"), *super().get_urls()]

    def alike_view(self, request: HttpRequest) -> HttpResponse:
        """Those that the list shows under the same filters, by what they died of."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            shown = self.get_changelist_instance(request)
        except IncorrectLookupParameters:
            return HttpResponseRedirect(request.path)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Dead letters, alike ones together",
            "cl": shown,
            "kinds": [
                {"kind": kind, "query": shown.get_query_string({KindFilter.parameter_name: kind.fingerprint})}
                for kind in kinds(shown.queryset, most=KINDS_SHOWN)
            ],
            "counted": COUNTED,
            "may_redrive": self.has_redrive_permission(request),
        }
        return TemplateResponse(request, "admin/scheduling/deadletter/alike.html", context)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        more = {"may_redrive": self.has_redrive_permission(request)}
        return super().changelist_view(request, more | (extra_context or {}))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        more = {"may_redrive": self.has_redrive_permission(request)}
        return super().change_view(request, object_id, form_url, more | (extra_context or {}))

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeadLetter]:
        """Without what is long, and shown on the page of one alone."""
        return super().get_queryset(request).defer(*_LONG)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """With its job and tenant, which may be gone."""
        if not object_id.isdecimal():
            return None
        found = self.get_queryset(request).defer(None).select_related(*self.list_select_related)
        return found.filter(pk=object_id).first()

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """A message that cannot be read cannot be masked either: who may only look is not shown it."""
        hidden = () if self.has_redrive_permission(request) else ("beginning",)
        return [name for name in self.readonly_fields if name not in hidden]

    # -- columns ------------------------------------------------------------------------------------------------

    @admin.display(description="job")
    def of_job(self, letter: DeadLetter) -> str | SafeString:
        if letter.job is None:
            return "-" if letter.job_id is None else f"{letter.job_id} (gone)"
        return wording.job_link(letter.job)

    @admin.display(description="fire")
    def of_fire(self, letter: DeadLetter) -> str | SafeString:
        if letter.fire_id is None or letter.scheduled_for is None:
            return "none of ours"
        return wording.fire_link(Fire(pk=letter.fire_id, scheduled_for=letter.scheduled_for))

    @admin.display(description="idempotency key")
    def key(self, letter: DeadLetter) -> str:
        if letter.job_id is None or letter.scheduled_for is None:
            return "-"
        return idempotency_key(letter.job_id, letter.scheduled_for, letter.origin)

    @admin.display(description="error")
    def short_error(self, letter: DeadLetter) -> str:
        return letter.error if len(letter.error) <= ERROR_SHOWN else f"{letter.error[:ERROR_SHOWN]}…"

    @admin.display(description="alike ones")
    def alike(self, letter: DeadLetter) -> SafeString:
        everything = reverse("admin:scheduling_deadletter_changelist")
        return format_html('<a href="{}?fingerprint={}">{}</a>', everything, letter.fingerprint, letter.fingerprint)

    @admin.display(description="standing")
    def standing(self, letter: DeadLetter) -> str | SafeString:
        """What may be done about it, or was."""
        if letter.redriven_at is not None:
            return wording.redrive_link(letter.redrive, f"redriven {wording.instant(letter.redriven_at)}")
        if letter.fire_id is None:
            return "cannot be redriven: no fire of ours"
        if letter.job is None or letter.job.deleted_at is not None:
            return "cannot be redriven: its job was deleted"
        if letter.redrive is not None and letter.redrive.stopped_at is None and letter.redrive.finished_at is None:
            return wording.redrive_link(letter.redrive, "is to be redriven")
        return "waits for someone to decide"

    @admin.display(description="traceback")
    def where(self, letter: DeadLetter) -> str | SafeString:
        return format_html("<pre>{}</pre>", letter.traceback) if letter.traceback else "-"

    @admin.display(description="args")
    def masked_args(self, letter: DeadLetter) -> str | SafeString:
        return wording.arguments(letter.args)

    @admin.display(description="kwargs")
    def masked_kwargs(self, letter: DeadLetter) -> str | SafeString:
        return wording.arguments(letter.kwargs)

    @admin.display(description="beginning of the message")
    def beginning(self, letter: DeadLetter) -> str | SafeString:
        if letter.message is None:
            return "-"
        text = bytes(letter.message)[:MESSAGE_SHOWN].decode("utf-8", "backslashreplace")
        return format_html("<pre>{}</pre>", text)
