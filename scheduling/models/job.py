"""Jobs: what is to be run, when, for whom, under which policies.

Two kinds of columns live in a row. What a person decides is written by ``save()``. The bookkeeping of the schedule
(what is not ``editable``) is written by the owner of the shard, and by services; ``save()`` leaves it out, so that a
form that was open for an hour cannot turn the schedule back. A change of the schedule by whatever way (``save()``,
``update()``, SQL) is noticed by a trigger: it raises ``schedule_version``, empties ``next_scheduled_for``, keeps the
old schedule where it still has occurrences without a row, and makes the job due; its owner plans it anew within a poll.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db import models, router
from django.db.models.lookups import Exact

from fairness.models import Tenant
from scheduling.core.definition import (
    NAME_LIMIT,
    OWN_FIELDS,
    TASK_LIMIT,
    UNSAID,
    JobDefinition,
    Kind,
    ScheduleFields,
    Unsaid,
)
from scheduling.core.errors import InvalidField
from scheduling.core.fire import CatchUp, Lane, MisfirePolicy, OverlapPolicy
from scheduling.core.identity import uuid7
from scheduling.core.recurrence import DayMatch, Fold, Gap, Preview, Schedule
from scheduling.models.job_deletion import delete_jobs
from scheduling.models.job_manager import JobManager
from scheduling.models.job_preview import preview_job
from scheduling.models.job_quota import quota_kept

SCHEDULE_COLUMNS = tuple(f.name for f in fields(ScheduleFields))


class Origin(StrEnum):
    """Who made a job, and goes on to change it."""

    HAND = ""  # a person, or a program
    CODE = "code"  # an entry in the beat_schedule of a Celery app; see ``CodeEntry``


def _choices(enum: Any) -> list[tuple[str, str]]:
    return [(member.value, member.value.replace("_", " ")) for member in enum]


def _values(enum: Any) -> list[str]:
    return [member.value for member in enum]


def _json_is(column: str, kind: str) -> Any:
    return Exact(models.Func(column, function="jsonb_typeof", output_field=models.TextField()), models.Value(kind))


class Job(models.Model):
    """A definition. Make one with ``Job.objects.cron()``, ``.every()``, ``.once()`` or ``.declare()``."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # No index of its own, which each claim would write: that of the names begins with the tenant.
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    name = models.CharField(max_length=NAME_LIMIT, blank=True, help_text="Unique within the tenant, where it is given.")
    description = models.TextField(blank=True, default="")
    task = models.CharField(max_length=TASK_LIMIT, help_text="Name of the Celery task.")
    args = models.JSONField(default=list, blank=True)
    kwargs = models.JSONField(default=dict, blank=True)
    lane = models.CharField(max_length=20, choices=_choices(Lane), default=Lane.BULK.value)

    kind = models.CharField(max_length=10, choices=_choices(Kind), default=Kind.CRON.value)
    at = models.DateTimeField(null=True, blank=True, help_text="Once: the instant.")
    every = models.DurationField(null=True, blank=True, help_text="Interval: from 100 ms.")
    anchor = models.DateTimeField(null=True, blank=True, help_text="Interval: it fires at anchor + k × every.")
    cron = models.CharField(max_length=255, blank=True, default="", help_text="Cron: five fields, or six with seconds.")
    rrule = models.TextField("RRULE", blank=True, default="", help_text="RFC 5545, as FREQ=WEEKLY;BYDAY=MO,WE; EXDATE.")
    dtstart = models.DateTimeField("DTSTART", null=True, blank=True, help_text="RRULE: it counts from here.")
    tz = models.CharField("time zone", max_length=64, default="UTC", help_text="IANA name, as Europe/Paris.")
    day_match = models.CharField(
        max_length=3, choices=_choices(DayMatch), default=DayMatch.OR.value, help_text="Both day fields of a cron set."
    )
    gap = models.CharField(
        max_length=12,
        choices=_choices(Gap),
        default=Gap.FIRST_VALID.value,
        help_text="A local time that does not exist.",
    )
    fold = models.CharField(
        max_length=6, choices=_choices(Fold), default=Fold.FIRST.value, help_text="A local time that comes twice."
    )
    start_at = models.DateTimeField(null=True, blank=True, help_text="Nothing before this.")
    end_at = models.DateTimeField(null=True, blank=True, help_text="Nothing after this.")
    max_runs = models.IntegerField(null=True, blank=True, help_text="Fires, after which the job is finished.")
    calendar = models.ForeignKey(
        "scheduling.Calendar",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        db_index=False,
        help_text="Closed days and hours.",
    )
    jitter = models.DurationField(default=UNSAID, help_text="Spreads the fires over this long behind their time.")

    misfire = models.CharField(max_length=10, choices=_choices(MisfirePolicy), default=MisfirePolicy.LATEST.value)
    misfire_grace_s = models.FloatField(default=30.0, help_text="Real seconds.")
    catch_up_limit = models.IntegerField(default=100)
    catch_up_window = models.DurationField(default=timedelta(hours=1))
    overlap = models.CharField(max_length=20, choices=_choices(OverlapPolicy), default=OverlapPolicy.ALLOW.value)
    buffer_limit = models.IntegerField(default=100, help_text="Overlap buffer_all: how many fires may wait.")
    max_attempts = models.IntegerField(default=3)
    retry_base = models.DurationField(default=timedelta(seconds=10))
    retry_cap = models.DurationField(default=timedelta(hours=1))
    soft_timeout_s = models.FloatField(null=True, blank=True, help_text="Real seconds.")
    hard_timeout_s = models.FloatField(default=3600.0, help_text="Real seconds.")
    expires_after = models.DurationField(null=True, blank=True, help_text="Not started by then: it does not run.")

    problem = models.TextField(
        default="", db_default="", editable=False, help_text="Why it cannot be scheduled; empty: nothing is wrong."
    )
    paused_at = models.DateTimeField(null=True, blank=True, editable=False, help_text="Job time.")
    paused_until = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Job time; empty: until resumed."
    )
    paused_by = models.CharField(max_length=200, blank=True, default="", db_default="", editable=False)
    pause_reason = models.CharField(max_length=500, blank=True, default="", db_default="", editable=False)
    catch_up = models.CharField(
        max_length=6,
        choices=_choices(CatchUp),
        default=CatchUp.NONE.value,
        db_default=CatchUp.NONE.value,
        editable=False,
        help_text="What to do about the missed occurrences when the pause ends by itself.",
    )
    origin = models.CharField(
        max_length=10,
        choices=[(Origin.HAND.value, "by hand"), (Origin.CODE.value, "code")],
        blank=True,
        default=Origin.HAND.value,
        db_default=Origin.HAND.value,
        editable=False,
        help_text="Code: made by an entry of a Celery app's beat_schedule, which changes what nobody has changed here.",
    )
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    shard_id = models.SmallIntegerField(editable=False)
    schedule_version = models.IntegerField(default=1, editable=False)
    schedule_changed_at = models.DateTimeField(null=True, editable=False, help_text="Job time.")
    next_scheduled_for = models.DateTimeField(null=True, editable=False)
    next_fire_at = models.DateTimeField(null=True, editable=False)
    in_bucket = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="Its next occurrence is an entry of the bucketed store.",
    )
    fired = models.IntegerField(default=0, db_default=0, editable=False, help_text="Fires so far, for max_runs.")
    superseded = models.JSONField(
        default=list, db_default=[], editable=False, help_text="Old schedules with occurrences that have no row yet."
    )

    objects = JobManager()

    class Meta:
        ordering = ["tenant", "name", "id"]
        indexes = [
            models.Index(
                "shard_id", "next_fire_at", name="job_due", condition=models.Q(next_fire_at__isnull=False)
            ),
            models.Index(
                "shard_id", "tenant", "next_fire_at", name="job_due_by_tenant",
                condition=models.Q(next_fire_at__isnull=False),
            ),
            models.Index(
                "shard_id", "paused_until", name="job_pause_ends",
                condition=models.Q(paused_until__isnull=False, deleted_at__isnull=True),
            ),
            # With job_due_by_tenant it counts a tenant's jobs; the claims of recurring ones need not write it.
            models.Index(
                "tenant", name="job_planned_elsewhere",
                condition=models.Q(next_fire_at__isnull=True, deleted_at__isnull=True),
            ),
        ]  # fmt: skip
        constraints = [
            models.UniqueConstraint(
                "tenant", "name", name="job_name_is_unique_in_tenant",
                condition=~models.Q(name="") & models.Q(deleted_at__isnull=True),
                violation_error_message="name: this tenant has a job of this name already",
            ),
            models.CheckConstraint(name="job_has_task", condition=~models.Q(task="")),
            models.CheckConstraint(name="job_args_is_array", condition=_json_is("args", "array")),
            models.CheckConstraint(name="job_kwargs_is_object", condition=_json_is("kwargs", "object")),
            models.CheckConstraint(name="job_lane_is_known", condition=models.Q(lane__in=_values(Lane))),
            models.CheckConstraint(
                name="job_schedule_fits_kind",
                condition=models.Q(kind="once", at__isnull=False)
                | models.Q(kind="interval", every__isnull=False, anchor__isnull=False)
                | models.Q(kind="cron") & ~models.Q(cron="")
                | models.Q(kind="rrule") & ~models.Q(rrule=""),
                violation_error_message="once needs 'at', interval 'every' and 'anchor', cron 'cron', rrule 'rrule'",
            ),
            models.CheckConstraint(
                name="job_every_at_least_100_ms",
                condition=models.Q(every__isnull=True) | models.Q(every__gte=timedelta(milliseconds=100)),
            ),
            models.CheckConstraint(
                name="job_max_runs_is_positive",
                condition=models.Q(max_runs__isnull=True) | models.Q(max_runs__gt=0),
            ),
            models.CheckConstraint(
                name="job_ends_after_it_starts",
                condition=models.Q(start_at__isnull=True)
                | models.Q(end_at__isnull=True)
                | models.Q(end_at__gte=models.F("start_at")),
            ),
            models.CheckConstraint(name="job_day_match_is_known", condition=models.Q(day_match__in=_values(DayMatch))),
            models.CheckConstraint(name="job_gap_is_known", condition=models.Q(gap__in=_values(Gap))),
            models.CheckConstraint(name="job_fold_is_known", condition=models.Q(fold__in=_values(Fold))),
            models.CheckConstraint(name="job_catch_up_is_known", condition=models.Q(catch_up__in=_values(CatchUp))),
            models.CheckConstraint(
                name="job_until_needs_pause",
                condition=models.Q(paused_until__isnull=True) | models.Q(paused_at__isnull=False),
            ),
            models.CheckConstraint(name="job_jitter_not_negative", condition=models.Q(jitter__gte=timedelta(0))),
            models.CheckConstraint(name="job_misfire_is_known", condition=models.Q(misfire__in=_values(MisfirePolicy))),
            models.CheckConstraint(name="job_overlap_is_known", condition=models.Q(overlap__in=_values(OverlapPolicy))),
            models.CheckConstraint(
                name="job_limits_are_positive",
                condition=models.Q(
                    misfire_grace_s__gt=0, catch_up_limit__gt=0, buffer_limit__gt=0, max_attempts__gt=0,
                    hard_timeout_s__gt=0, catch_up_window__gte=timedelta(0), retry_base__gte=timedelta(0),
                    retry_cap__gte=models.F("retry_base"),
                ),
            ),
            models.CheckConstraint(
                name="job_soft_timeout_below_hard",
                condition=models.Q(soft_timeout_s__isnull=True)
                | models.Q(soft_timeout_s__gt=0, soft_timeout_s__lte=models.F("hard_timeout_s")),
            ),
            models.CheckConstraint(
                name="job_next_has_fire_time",
                condition=models.Q(next_scheduled_for__isnull=True) | models.Q(next_fire_at__isnull=False),
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        return self.name or f"{self.task} {self.id}"

    @property
    def schedule_fields(self) -> ScheduleFields:
        values = {name: getattr(self, name) for name in SCHEDULE_COLUMNS}
        return ScheduleFields(**values | {"kind": Kind(self.kind)})

    @property
    def schedule(self) -> Schedule:
        return self.schedule_fields.build(self.id)

    def preview(self, n: int, *, after: datetime | None = None) -> list[Preview]:
        """The next ``n`` occurrences after an aware moment (now, in job time): each in UTC and in the job's zone, with
        its marks and its fire time; fewer where the schedule ends.

        Raises InvalidField: ``count`` not in 1-1000, a naive ``after``, a row that says something impossible.
        """
        return preview_job(self, n, after=after)

    def definition(self) -> JobDefinition:
        """This row as a checked definition.

        Raises InvalidField for a row that says something impossible.
        """
        policy = {name: getattr(self, name) for name in OWN_FIELDS}
        return JobDefinition(schedule=self.schedule_fields, **policy)

    def check_calendar(self) -> None:
        """Raises InvalidField (``calendar``) for another tenant's."""
        if self.calendar is not None and not self.calendar.is_open_to(self.tenant_id):
            raise InvalidField("calendar", self.calendar.name, "belongs to another tenant")

    def take_stagger(self) -> None:
        """Before it is a row: where it names no jitter, and its tenant has a stagger, that is its jitter."""
        if isinstance(self.jitter, Unsaid) and self.tenant.stagger:
            self.jitter = self.tenant.stagger

    def save(self, *args: Any, update_fields: Iterable[str] | None = None, **kwargs: Any) -> None:
        """Check, then write what a person decides; an update leaves the schedule's bookkeeping to the shard's owner.

        Raises InvalidField; QuotaExceeded, which is one, where its tenant may have no more jobs.
        """
        self.definition()
        self.check_calendar()
        is_new = self._state.adding
        if is_new:
            self.take_stagger()
            Job.objects.plan(self)
        elif update_fields is None:
            update_fields = ["updated_at", *[f.name for f in self._meta.concrete_fields if f.editable]]
        with quota_kept():
            super().save(*args, update_fields=update_fields, **kwargs)
        if is_new:
            Job.objects.hint(self)

    def delete(self, using: str | None = None, keep_parents: bool = False) -> tuple[int, dict[str, int]]:  # noqa: ARG002
        """As Django's, in its answer too; a job that has fired is kept, hidden, for as long as its history."""
        count = delete_jobs([self.pk], using=using or router.db_for_write(Job, instance=self))
        return count, {self._meta.label: count}
