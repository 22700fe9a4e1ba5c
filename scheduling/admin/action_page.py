"""The page on which an action of a list asks, before it acts: how many rows, some of them, and what it needs to know.

It is posted to the list's own address, so that the list's filter stands, with the selection in hidden fields; or, for
all that the filter shows, without it. So an action acts on what it has shown, and needs no script.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.http import HttpRequest
from django.template.response import TemplateResponse

from scheduling.admin.action_forms import ActionForm

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin

ROWS_SHOWN = 10
CONFIRMED = "confirmed"  # name of the button


def action_page(
    model_admin: ModelAdmin,
    request: HttpRequest,
    form: ActionForm,
    action: str,
    *,
    title: str,
    explanation: str,
    count: int,
    shown: Sequence[str],
    button: str,
    step: str = CONFIRMED,
    **more: Any,
) -> TemplateResponse:
    """``shown``: some of the rows, in words; ``step`` is the name of the button."""
    selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
    across = request.POST.get("select_across", "0")
    context = {
        **model_admin.admin_site.each_context(request),
        "opts": model_admin.opts,
        "title": title,
        "explanation": explanation,
        "form": form,
        "action": action,
        "selected": selected[:1] if across == "1" else selected,
        "select_across": across,
        "count": count,
        "shown": shown,
        "back": request.get_full_path(),
        "button": button,
        "step": step,
        **more,
    }
    return TemplateResponse(request, "admin/scheduling/action.html", context)


def is_confirmed(request: HttpRequest) -> bool:
    """Whether the page was seen, and its button clicked."""
    return CONFIRMED in request.POST


def done(model_admin: ModelAdmin, request: HttpRequest, words: str) -> None:
    """Django then leads back to the list, as it was filtered."""
    model_admin.message_user(request, words, messages.SUCCESS)
