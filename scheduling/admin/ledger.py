"""The pages of fires and runs: history to read, never to edit. Each page reads few partitions.

A fire or run is looked up by the millisecond in its id, in one partition. The lists show the last day of job time
unless another stretch is asked for; the fires of one job are read by an index over all days.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from scheduling.admin import wording
from scheduling.admin.fire_actions import ACTIONS
from scheduling.admin.read_only import ReadOnlyAdmin
from scheduling.core.fire import UNFINISHED
from scheduling.core.identity import idempotency_key, millisecond_of
from scheduling.models import DeadLetter, Fire, JobClock, JobRun, Step
from scheduling.services.explain import explain_fires

STEPS_SHOWN = 100


class WhenFilter(admin.SimpleListFilter):
    """By ``scheduled_for``, so that most partitions are left out."""

    title = "time"
    parameter_name = "when"
    stretches = {None: timedelta(days=1), "week": timedelta(days=7)}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("week", "Last 7 days"), ("all", "All")]

    def choices(self, changelist: Any) -> Any:
        for choice in super().choices(changelist):
            yield choice | {"display": "Last day"} if choice["query_string"].find("when=") < 0 else choice

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "all":
            return queryset
        stretch = self.stretches.get(self.value(), self.stretches[None])
        return queryset.filter(scheduled_for__gte=JobClock.objects.now() - stretch)


class LedgerAdmin(ReadOnlyAdmin):
    list_select_related = ("job", "tenant")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Without the jobs' arguments, which may be a quarter of a megabyte each."""
        return super().get_queryset(request).defer("job__args", "job__kwargs", "job__superseded")

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """From its own partition: the id carries the millisecond. None for what is no id of ours."""
        try:
            key = UUID(object_id)
            start = millisecond_of(key)
            end = start + timedelta(milliseconds=1)
        except (ValueError, OverflowError):
            return None
        found = self.get_queryset(request).select_related("job", "tenant")
        return found.filter(pk=key, scheduled_for__gte=start, scheduled_for__lt=end).first()

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return list(self.readonly_fields)

    @admin.display(description="job")
    def of_job(self, row: Fire | JobRun) -> str | SafeString:
        return wording.job_link(row.job)


@admin.register(Fire)
class FireAdmin(LedgerAdmin):
    actions = ACTIONS
    list_display = ("scheduled_for", "of_job", "tenant", "state", "why", "attempt", "started_at", "finished_at")
    list_filter = (WhenFilter, "state")
    readonly_fields = (
        "id", "key", "of_job", "tenant", "scheduled_for", "fire_at", "origin", "state", "why", "waits", "attempt",
        "max_attempts", "runs", "dead_letter", "steps", "args", "kwargs", "claimed_at", "sent_again_at", "wake_at",
        "started_at", "lease_until", "holder", "finished_at", "fence", "cancel_reason", "covers", "covers_to",
        "nominal", "schedule_version", "shard_id", "seq_epoch", "seq",
    )  # fmt: skip

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("scheduling.change_fire"))

    @admin.display(description="idempotency key")
    def key(self, fire: Fire) -> str:
        return idempotency_key(fire.job_id, fire.scheduled_for, fire.origin)

    @admin.display(description="reason")
    def why(self, fire: Fire) -> str:
        return wording.reason(fire)

    @admin.display(description="why is it waiting")
    def waits(self, fire: Fire) -> str | SafeString:
        if fire.state not in UNFINISHED:
            return "-"
        found = explain_fires([fire.pk]).get(fire.pk)
        return "-" if found is None else wording.explained(found.explained)

    @admin.display(description="args (of its job, as they are now)")
    def args(self, fire: Fire) -> str | SafeString:
        return wording.arguments(fire.job.args)

    @admin.display(description="kwargs (of its job, as they are now)")
    def kwargs(self, fire: Fire) -> str | SafeString:
        return wording.arguments(fire.job.kwargs)

    @admin.display(description="dead letter")
    def dead_letter(self, fire: Fire) -> str | SafeString:
        letter = DeadLetter.objects.filter(fire_id=fire.pk).first()
        return "-" if letter is None else wording.letter_link(letter, letter.get_reason_display())

    @admin.display(description="steps")
    def steps(self, fire: Fire) -> str | SafeString:
        found = Step.objects.filter(fire_id=fire.pk)[:STEPS_SHOWN]
        rows = format_html_join(
            "",
            "<li>{}: {}, {}</li>",
            ((step.name, wording.instant(step.begun_at), wording.step(step)) for step in found),
        )
        return format_html("<ul>{}</ul>", rows) if rows else "-"

    @admin.display(description="runs")
    def runs(self, fire: Fire) -> str | SafeString:
        runs = JobRun.objects.filter(
            scheduled_for=fire.scheduled_for, history_days=fire.history_days, fire_id=fire.pk
        ).order_by("attempt", "fence")
        rows = format_html_join("", "<li>{}: {} after {}, {} {}</li>", (self._run_words(run) for run in runs))
        return format_html("<ul>{}</ul>", rows) if rows else "none yet"

    def _run_words(self, run: JobRun) -> tuple[str, ...]:
        took = wording.duration(run.finished_at - run.started_at)
        error = run.error.partition("\n")[0]
        return wording.run_link(run, f"attempt {run.attempt}"), wording.run_state(run), took, run.worker, error


@admin.register(JobRun)
class JobRunAdmin(LedgerAdmin):
    list_display = ("started_at", "of_fire", "of_job", "tenant", "attempt", "ended", "took", "worker", "first_line")
    list_filter = (WhenFilter, "state")
    readonly_fields = (
        "id", "of_fire", "of_job", "tenant", "attempt", "fence", "ended", "started_at", "finished_at", "took", "worker",
        "holder", "result", "error", "where",
    )  # fmt: skip

    @admin.display(description="state")
    def ended(self, run: JobRun) -> str:
        return wording.run_state(run)

    @admin.display(description="error")
    def first_line(self, run: JobRun) -> str:
        return run.error.partition("\n")[0]

    @admin.display(description="traceback")
    def where(self, run: JobRun) -> str | SafeString:
        return format_html("<pre>{}</pre>", run.traceback) if run.traceback else "-"

    @admin.display(description="fire")
    def of_fire(self, run: JobRun) -> SafeString:
        return wording.fire_link(Fire(pk=run.fire_id, scheduled_for=run.scheduled_for))

    @admin.display(description="took")
    def took(self, run: JobRun) -> str:
        return wording.duration(run.finished_at - run.started_at)
