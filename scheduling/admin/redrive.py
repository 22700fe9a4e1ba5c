"""The pages of redrives: how far each has got, and a button that stops it.

The page of one that is under way loads itself anew every few seconds, without a script.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduling.admin import wording
from scheduling.admin.read_only import ReadOnlyAdmin
from scheduling.core.errors import InvalidField
from scheduling.models import Redrive
from scheduling.services.redrive import Progress, RedriveState, stop_redrive

LOADED_EVERY_S = 3
PERMISSION = "scheduling.change_deadletter"  # to redrive is to watch it, and to stop it


@admin.register(Redrive)
class RedriveAdmin(ReadOnlyAdmin):
    change_form_template = "admin/scheduling/redrive/change_form.html"
    list_display = ("named", "asked_at", "asked_by", "state", "total", "moved", "skipped", "left", "rate")
    readonly_fields = (
        "state", "done", "total", "moved", "skipped", "left", "rate", "ends", "asked_at", "asked_by", "stopped_at",
        "finished_at", "its_letters",
    )  # fmt: skip

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm(PERMISSION)) or super().has_view_permission(request, obj)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return list(self.readonly_fields)

    def get_urls(self) -> Any:
        stop = self.admin_site.admin_view(self.stop_view)
        return [path("<int:redrive_id>/stop/", stop, name="scheduling_redrive_stop"), *super().get_urls()]

    def stop_view(self, request: HttpRequest, redrive_id: int) -> HttpResponse:
        if not request.user.has_perm(PERMISSION):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        try:
            stopped = stop_redrive(redrive_id, by=request.user.get_username())
        except InvalidField as problem:
            self.message_user(request, f"{problem}.", messages.ERROR)
        else:
            self.message_user(request, f"Stopped: {Progress.of(stopped)}.", messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:scheduling_redrive_change", args=[redrive_id]))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        found = self.get_object(request, object_id)
        is_open = found is not None and Progress.of(found).state is RedriveState.UNDER_WAY
        more = {
            "loaded_every_s": LOADED_EVERY_S if is_open else None,
            "may_stop": is_open and request.user.has_perm(PERMISSION),
        }
        return super().change_view(request, object_id, form_url, more | (extra_context or {}))

    @admin.display(description="redrive")
    def named(self, redrive: Redrive) -> str:
        return str(redrive.pk)

    @admin.display(description="state")
    def state(self, redrive: Redrive) -> str:
        return str(Progress.of(redrive).state)

    @admin.display(description="done")
    def done(self, redrive: Redrive) -> SafeString:
        done = redrive.moved + redrive.skipped
        percent = 100 * done // redrive.total if redrive.total else 100
        return format_html('<progress max="{}" value="{}">{} %</progress> {} %', redrive.total, done, percent, percent)

    @admin.display(description="left")
    def left(self, redrive: Redrive) -> int:
        return Progress.of(redrive).left

    @admin.display(description="a second, at most")
    def rate(self, redrive: Redrive) -> str:
        return f"{redrive.rate_per_s:g}"

    @admin.display(description="still to go")
    def ends(self, redrive: Redrive) -> str:
        found = Progress.of(redrive)
        return f"about {found.left_s:,.0f} s, while a node runs" if found.left_s else "-"

    @admin.display(description="dead letters")
    def its_letters(self, redrive: Redrive) -> SafeString:
        return wording.letters_link(f"redrive__id__exact={redrive.pk}&standing=all", "its dead letters")
