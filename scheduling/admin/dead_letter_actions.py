"""The actions on dead letters: redrive and discard, for one, some, or all that the list's filter shows.

Each first shows how many there are, some of them, and what is against the others; then it acts on what it has shown:
what died since then is not meant. A redrive leads to its page, where it can be watched and stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from scheduling.admin.action_forms import ActionForm, DiscardForm, RedriveForm
from scheduling.admin.action_page import ROWS_SHOWN, action_page, done, is_confirmed
from scheduling.core.errors import InvalidField
from scheduling.models import DeadLetter
from scheduling.services.dead_letters import discard, survey
from scheduling.services.redrive import ask_redrive

if TYPE_CHECKING:
    LetterAdmin = admin.ModelAdmin[DeadLetter]
else:
    LetterAdmin = admin.ModelAdmin


@admin.action(description="Redrive…", permissions=["redrive"])
def redrive_letters(
    letters_admin: LetterAdmin, request: HttpRequest, letters: QuerySet[DeadLetter]
) -> HttpResponse | None:
    form = RedriveForm(request.POST if is_confirmed(request) else None)
    if form.is_valid():
        letters = letters.filter(died_at__lte=form.cleaned_data["counted_at"])
        try:
            asked = ask_redrive(letters, by=request.user.get_username(), rate_per_s=form.cleaned_data["rate_per_s"])
        except InvalidField as problem:
            form.refuse(problem)
        else:
            letters_admin.message_user(
                request, f"Asked for: {asked.total} dead letters are redriven.", messages.SUCCESS
            )
            return HttpResponseRedirect(reverse("admin:scheduling_redrive_change", args=[asked.pk]))
    explanation = (
        "Their fires run again, in this order, under the same idempotency keys, each with as many attempts more as its "
        "job allows; on paused jobs too, and however late it is."
    )
    return _page(
        letters_admin, request, letters, form, "redrive_letters", "Redrive dead letters", explanation, button="Redrive"
    )


@admin.action(description="Discard…", permissions=["discard"])
def discard_letters(
    letters_admin: LetterAdmin, request: HttpRequest, letters: QuerySet[DeadLetter]
) -> HttpResponse | None:
    form = DiscardForm(request.POST if is_confirmed(request) else None)
    if form.is_valid():
        letters = letters.filter(died_at__lte=form.cleaned_data["counted_at"])
        gone = discard(letters, by=request.user.get_username())
        done(letters_admin, request, f"Discarded: {gone} dead letters.")
        return None
    explanation = (
        "They are deleted for good, and cannot be redriven then. Those that are being redriven are passed over."
    )
    return _page(
        letters_admin, request, letters, form, "discard_letters", "Discard dead letters", explanation, button="Discard"
    )


def _page(
    letters_admin: LetterAdmin,
    request: HttpRequest,
    letters: QuerySet[DeadLetter],
    form: ActionForm,
    action: str,
    title: str,
    explanation: str,
    **more: Any,
) -> HttpResponse:
    found = survey(letters)
    form.fields["counted_at"].initial = found.counted_at.isoformat()
    remark = f"{found.ready} of them can be redriven. Not: {', '.join(found.against)}." if found.against else ""
    return action_page(
        letters_admin,
        request,
        form,
        action,
        title=title,
        explanation=explanation,
        count=found.count,
        beyond="" if found.is_whole else ", and more",
        remark=remark,
        shown=[_words(letter) for letter in letters.order_by("pk").select_related("tenant")[:ROWS_SHOWN]],
        **more,
    )


def _words(letter: DeadLetter) -> str:
    whose = letter.tenant.slug if letter.tenant is not None else letter.queue
    error = f": {letter.error}" if letter.error else ""
    return f"{letter.pk}, {whose}, {letter.task or 'no task'}, {letter.get_reason_display()}{error}"


ACTIONS = (redrive_letters, discard_letters)
