"""The actions on jobs: pause, resume, run now, cancel, backfill. Each asks on a page of its own, then calls a service.

They act on exactly the rows that were selected, or on all that the list's filter and search show; they are offered, and
taken, only where the person may change jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from scheduling.admin import wording
from scheduling.admin.action_forms import (
    ActionForm,
    BackfillForm,
    CancelForm,
    CountedBackfillForm,
    PauseForm,
    ResumeForm,
    RunNowForm,
)
from scheduling.admin.action_page import CONFIRMED, ROWS_SHOWN, action_page, done, is_confirmed
from scheduling.admin.paging import BoundedPaginator
from scheduling.core.errors import InvalidField
from scheduling.core.local_moments import read_end, read_shared, read_start
from scheduling.models import Job
from scheduling.services.backfill import BackfillPlan, backfill, plan_backfill
from scheduling.services.cancel import cancel_fires
from scheduling.services.pause import pause
from scheduling.services.resume import resume
from scheduling.services.run_now import run_now

if TYPE_CHECKING:
    JobModelAdmin = admin.ModelAdmin[Job]
else:
    JobModelAdmin = admin.ModelAdmin

SAMPLE = 3  # of a backfill, from each end
COUNT = "count"  # name of a button


@admin.action(description="Pause…", permissions=["change"])
def pause_jobs(jobs_admin: JobModelAdmin, request: HttpRequest, jobs: QuerySet[Job]) -> TemplateResponse | None:
    form = PauseForm(request.POST if is_confirmed(request) else None)
    if form.is_valid():
        values = form.cleaned_data
        try:
            zones = jobs.order_by().values_list("tz", flat=True).distinct()
            values["until"] = read_shared("until", values["until"], zones) if values["until"] else None
            outcome = pause(jobs, by=request.user.get_username(), **values)
        except InvalidField as problem:
            form.refuse(problem)
        else:
            words = f"Paused: {outcome.jobs} jobs. Fires that had not started, and are skipped: {outcome.skipped}."
            done(jobs_admin, request, words)
            return None
    explanation = (
        "No fire of their schedules starts any more. What runs goes on; what is asked for by hand runs all the same."
    )
    return _page(jobs_admin, request, jobs, form, "pause_jobs", "Pause jobs", explanation, button="Pause")


@admin.action(description="Resume…", permissions=["change"])
def resume_jobs(jobs_admin: JobModelAdmin, request: HttpRequest, jobs: QuerySet[Job]) -> TemplateResponse | None:
    form = ResumeForm(request.POST if is_confirmed(request) else None)
    if form.is_valid():
        outcome = resume(jobs, by=request.user.get_username(), **form.cleaned_data)
        words = f"Resumed: {outcome.jobs} jobs. Fires that come back: {outcome.fires}."
        if outcome.closing:
            words += f" For {outcome.closing} of the jobs a node first records what came due until now."
        done(jobs_admin, request, words)
        return None
    explanation = "Ends their pauses. Jobs that are not paused are left as they are."
    return _page(jobs_admin, request, jobs, form, "resume_jobs", "Resume jobs", explanation, button="Resume")


@admin.action(description="Run now…", permissions=["change"])
def run_jobs_now(jobs_admin: JobModelAdmin, request: HttpRequest, jobs: QuerySet[Job]) -> TemplateResponse | None:
    form = RunNowForm(request.POST if is_confirmed(request) else None)
    if form.is_valid():
        try:
            started = run_now(jobs, by=request.user.get_username(), **form.cleaned_data)
        except InvalidField as problem:
            form.refuse(problem)
        else:
            done(jobs_admin, request, f"Started: {len(started)} jobs, beside their schedules.")
            return None
    explanation = "Each runs once, now, beside its schedule, also while it is paused."
    return _page(jobs_admin, request, jobs, form, "run_jobs_now", "Run jobs now", explanation, button="Run now")


@admin.action(description="Cancel unfinished runs…", permissions=["change"])
def cancel_unfinished_runs(
    jobs_admin: JobModelAdmin, request: HttpRequest, jobs: QuerySet[Job]
) -> TemplateResponse | None:
    form = CancelForm(request.POST if is_confirmed(request) else None)
    if form.is_valid():
        outcome = cancel_fires(jobs=jobs, by=request.user.get_username(), **form.cleaned_data)
        done(jobs_admin, request, wording.cancelled(outcome))
        return None
    explanation = (
        "What has not started of them never does, and what runs is asked to stop. Their schedules go on: pause a job "
        "to hold what is still to come."
    )
    return _page(
        jobs_admin, request, jobs, form, "cancel_unfinished_runs", "Cancel unfinished runs", explanation,
        button="Cancel what is unfinished",
    )  # fmt: skip


@admin.action(description="Backfill…", permissions=["change"])
def backfill_job(jobs_admin: JobModelAdmin, request: HttpRequest, jobs: QuerySet[Job]) -> TemplateResponse | None:
    """Asks for a range, shows what is in it, and makes it once that is confirmed."""
    found = list(jobs[:2])
    if len(found) != 1:
        jobs_admin.message_user(request, "A backfill is of one job: select one.", messages.ERROR)
        return None
    [job] = found
    form: BackfillForm = BackfillForm(request.POST if {CONFIRMED, COUNT} & request.POST.keys() else None)
    plan = None
    if form.is_valid():
        try:
            plan = _planned(job, form.cleaned_data)
            if CONFIRMED in request.POST and request.POST.get("counted") == str(plan.count):
                values = form.cleaned_data | {"start": plan.start, "until": plan.until}
                made = backfill(job, by=request.user.get_username(), **values).made
                done(jobs_admin, request, f"Backfill of {job}: {made} fires were made.")
                return None
            form = _counted(form.cleaned_data, plan)
        except InvalidField as problem:
            plan = None
            form.refuse(problem)
    explanation = f"Runs it for occurrences of the past, by its schedule as it is now, in the zone {job.tz}."
    return _page(
        jobs_admin, request, jobs, form, "backfill_job", "Backfill a job", explanation,
        button="Count" if plan is None else f"Run these {plan.count}",
        step=COUNT if plan is None else CONFIRMED,
        plan=plan,
        sample=[] if plan is None else _sample(plan, job.tz),
    )  # fmt: skip


def _planned(job: Job, values: dict[str, Any]) -> BackfillPlan:
    start, until = read_start("start", values["start"], job.tz), read_end("until", values["until"], job.tz)
    return plan_backfill(job, start=start, until=until)


def _counted(values: dict[str, Any], plan: BackfillPlan) -> CountedBackfillForm:
    """What is confirmed is what was counted: the range no longer moves with the time."""
    moments = {"start": plan.start.isoformat(), "until": plan.until.isoformat()}
    return CountedBackfillForm(initial=values | moments | {"counted": plan.count})


def _sample(plan: BackfillPlan, tz: str) -> list[str]:
    lines = [at.astimezone(ZoneInfo(tz)).isoformat(" ") for at in plan.occurrences]
    return lines if len(lines) <= 2 * SAMPLE else [*lines[:SAMPLE], "…", *lines[-SAMPLE:]]


def _page(
    jobs_admin: JobModelAdmin,
    request: HttpRequest,
    jobs: QuerySet[Job],
    form: ActionForm,
    action: str,
    title: str,
    explanation: str,
    *,
    button: str,
    **more: Any,
) -> TemplateResponse:
    return action_page(
        jobs_admin,
        request,
        form,
        action,
        title=title,
        explanation=explanation,
        count=BoundedPaginator(jobs, 1).count,
        shown=[f"{job.tenant}/{job}" for job in jobs[:ROWS_SHOWN]],
        button=button,
        **more,
    )


ACTIONS = (pause_jobs, resume_jobs, run_jobs_now, backfill_job, cancel_unfinished_runs)
