"""The action on fires: cancel. It asks on a page of its own, and then calls its service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from scheduling.admin import wording
from scheduling.admin.action_forms import CancelForm
from scheduling.admin.action_page import ROWS_SHOWN, action_page, done, is_confirmed
from scheduling.admin.paging import BoundedPaginator
from scheduling.core.errors import InvalidField
from scheduling.core.fire import UNFINISHED
from scheduling.models import Fire
from scheduling.services.cancel import MOST, cancel_fires

if TYPE_CHECKING:
    FireModelAdmin = admin.ModelAdmin[Fire]
else:
    FireModelAdmin = admin.ModelAdmin


@admin.action(description="Cancel…", permissions=["cancel"])
def cancel_selected_fires(
    fires_admin: FireModelAdmin, request: HttpRequest, fires: QuerySet[Fire]
) -> HttpResponse | None:
    unfinished = fires.filter(state__in=[state.value for state in UNFINISHED])
    form = CancelForm(request.POST if is_confirmed(request) else None)
    if form.is_valid():
        ids = unfinished.order_by().values_list("pk", flat=True)[: MOST + 1]
        try:
            outcome = cancel_fires(fires=ids, by=request.user.get_username(), **form.cleaned_data)
        except InvalidField as problem:
            form.refuse(problem)
        else:
            done(fires_admin, request, wording.cancelled(outcome))
            return None
    return action_page(
        fires_admin,
        request,
        form,
        "cancel_selected_fires",
        title="Cancel fires",
        explanation="Those that have not started never do, and those that run are asked to stop; others have ended.",
        count=BoundedPaginator(unfinished, 1).count,
        shown=[f"{fire.job}, {wording.instant(fire.scheduled_for)}, {fire.state}" for fire in unfinished[:ROWS_SHOWN]],
        button="Cancel them",
    )


ACTIONS = (cancel_selected_fires,)
