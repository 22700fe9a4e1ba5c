"""How jobs are made: one at a time in the caller's transaction, or many by COPY.

Every way checks through ``JobDefinition``, plans the first occurrence, and, where that is due soon, hints the shard's
owner with a NOTIFY in the same transaction. The hint only saves the time to the owner's next poll.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, connections, models, transaction
from django.db.models import Q

from fairness.models import DEFAULT_TENANT, Tenant
from scheduling.core.definition import JobDefinition, Unsaid
from scheduling.core.errors import InvalidField
from scheduling.models.calendar import Calendar
from scheduling.models.hints import hint_due
from scheduling.models.job_clock import JobClock
from scheduling.models.job_copy import COPY_JOBS, JobRows
from scheduling.models.job_deletion import delete_jobs
from scheduling.models.job_planning import first_occurrence, shard_count
from scheduling.models.job_quota import quota_kept

if TYPE_CHECKING:
    from scheduling.models.job import Job


class JobQuerySet(models.QuerySet["Job"]):
    def delete(self) -> tuple[int, dict[str, int]]:
        """As Django's, in its answer too; a job that has fired is kept, hidden, for as long as its history."""
        if self.query.is_sliced:
            raise TypeError("Cannot use 'limit' or 'offset' with delete().")
        count = delete_jobs(list(self.order_by().values_list("pk", flat=True)), using=self.db)
        return count, {self.model._meta.label: count}

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]

    def update(self, **values: Any) -> int:
        """As Django's. Raises QuotaExceeded where they are to be a tenant's that may not have so many."""
        with quota_kept():
            return super().update(**values)

    update.alters_data = True  # type: ignore[attr-defined]


class JobManager(models.Manager["Job"]):
    def get_queryset(self) -> JobQuerySet:
        return JobQuerySet(self.model, using=self._db)

    def cron(self, task: str, expression: str, *, tenant: str | Tenant = DEFAULT_TENANT, **options: Any) -> Job:
        """A job on a cron expression of five fields (six with seconds first), read in the zone ``tz``.

        Raises InvalidField, which names the field; QuotaExceeded, which is one, where the tenant may have no more.
        """
        return self._define(tenant, options, lambda: JobDefinition.cron_job(task, expression, **options))

    def rrule(self, task: str, text: str, *, tenant: str | Tenant = DEFAULT_TENANT, **options: Any) -> Job:
        """A job on an RFC 5545 rule, such as ``FREQ=MONTHLY;BYDAY=-1FR``, that counts from ``dtstart``."""
        return self._define(tenant, options, lambda: JobDefinition.rrule_job(task, text, **options))

    def every(
        self,
        task: str,
        every: timedelta,
        *,
        anchor: datetime | None = None,
        tenant: str | Tenant = DEFAULT_TENANT,
        **options: Any,
    ) -> Job:
        """A job at ``anchor + k × every`` in real time; without an anchor the first is one interval from now."""
        anchor = JobClock.objects.now() if anchor is None else anchor
        return self._define(tenant, options, lambda: JobDefinition.interval_job(task, every, anchor=anchor, **options))

    def once(self, task: str, at: datetime, *, tenant: str | Tenant = DEFAULT_TENANT, **options: Any) -> Job:
        """A job at one instant; an instant that has passed is due now."""
        return self._define(tenant, options, lambda: JobDefinition.once_job(task, at, **options))

    def define(self, definition: JobDefinition, *, tenant: str | Tenant = DEFAULT_TENANT) -> Job:
        job: Job = self.model(tenant=_tenant(tenant), **definition.columns())
        job.save(using=self.db)
        return job

    def declare(
        self,
        task: str,
        *,
        name: str,
        tenant: str | Tenant = DEFAULT_TENANT,
        cron: str = "",
        rrule: str = "",
        every: timedelta | None = None,
        anchor: datetime | None = None,
        at: datetime | None = None,
        **options: Any,
    ) -> Job:
        """The job (tenant, name), made or brought to what is said here; what is already so is not touched.

        An interval keeps its anchor unless one is given.

        Raises InvalidField.
        """
        if not name:
            raise InvalidField("name", name, "declare() finds its job by tenant and name")
        given = {"cron": cron, "rrule": rrule, "every": every, "at": at}
        if sum(1 for value in given.values() if value) != 1:
            raise InvalidField("schedule", given, "give exactly one of cron, rrule, every, at")
        owner = _tenant(tenant)
        _with_calendar(owner, options)
        options["name"] = name
        with transaction.atomic(using=self.db):
            found = self._named(owner, name)
            if cron:
                definition = JobDefinition.cron_job(task, cron, **options)
            elif rrule:
                definition = JobDefinition.rrule_job(task, rrule, **options)
            elif at:
                definition = JobDefinition.once_job(task, at, **options)
            else:
                anchor = anchor or (found and found.anchor) or JobClock.objects.now()
                definition = JobDefinition.interval_job(task, every or timedelta(0), anchor=anchor, **options)
            if found is None:
                try:
                    with transaction.atomic(using=self.db):
                        return self.define(definition, tenant=owner)
                except IntegrityError:  # another process declared it in this moment
                    found = self._named(owner, name)
                    if found is None:
                        raise
            return _brought_to(found, definition)

    def copy(self, definitions: Iterable[JobDefinition], *, tenant: str | Tenant = DEFAULT_TENANT) -> int:
        """Make many jobs of one tenant by COPY, in the caller's transaction; returns how many.

        Raises IntegrityError where a name exists already, and QuotaExceeded.
        """
        owner, now = _tenant(tenant), JobClock.objects.now()
        rows = JobRows(self.model, tenant_id=owner.pk, now=now, stagger=owner.stagger)
        database = connections[self.db]
        with quota_kept(), database.wrap_database_errors, database.cursor() as cursor, cursor.copy(COPY_JOBS) as copy:
            count = rows.write(definitions, copy.write)
        for shard, fire_at in rows.due.items():
            hint_due(shard, fire_at, now=now, using=self.db)
        return count

    def bulk_create(self, objs: Iterable[Job], *args: Any, **kwargs: Any) -> list[Job]:
        """Django's, with each job checked and planned as ``save()`` does; ``copy()`` is several times faster."""
        jobs, now = list(objs), JobClock.objects.now()
        for job in jobs:
            job.definition()
            job.check_calendar()
            job.take_stagger()
            self.plan(job, now=now)
        with quota_kept():
            created = super().bulk_create(jobs, *args, **kwargs)
        for job in jobs:
            self.hint(job)
        return created

    def plan(self, job: Job, *, now: datetime | None = None) -> None:
        """Give a job that is not yet a row its shard and its first occurrence after now (job time)."""
        now = JobClock.objects.now() if now is None else now
        first = first_occurrence(job.schedule, job.id, job.jitter, now=now, shards=shard_count())
        job.shard_id, job.next_scheduled_for, job.next_fire_at = first.shard, first.scheduled_for, first.fire_at
        job.schedule_changed_at = now

    def hint(self, job: Job) -> None:
        """Tell the owner of a new job that is due soon. Behind the insert: outside a transaction it is sent at once."""
        if job.next_fire_at is not None and job.schedule_changed_at is not None:
            hint_due(job.shard_id, job.next_fire_at, now=job.schedule_changed_at, using=self.db)

    def _define(self, tenant: str | Tenant, options: dict[str, Any], definition: Callable[[], JobDefinition]) -> Job:
        """``options`` is completed before ``definition`` reads it."""
        owner = _tenant(tenant)
        _with_calendar(owner, options)
        return self.define(definition(), tenant=owner)

    def _named(self, tenant: Tenant, name: str) -> Job | None:
        return self.select_for_update().filter(tenant=tenant, name=name, deleted_at=None).first()


def _tenant(tenant: str | Tenant) -> Tenant:
    if isinstance(tenant, Tenant):
        return tenant
    found = Tenant.objects.filter(slug=tenant).first()
    if found is None:
        raise InvalidField("tenant", tenant, "there is no such tenant; make it with Tenant.objects.create(slug=…)")
    return found


def _with_calendar(tenant: Tenant, options: dict[str, Any]) -> None:
    """Turn ``calendar``, a calendar or the name of one that this tenant may use, into its id."""
    if "calendar" not in options:
        return
    calendar = options.pop("calendar")
    if isinstance(calendar, str):
        found = Calendar.objects.filter(Q(tenant=tenant) | Q(tenant=None), name=calendar).order_by("tenant").first()
        if found is None:
            raise InvalidField("calendar", calendar, f"tenant {tenant} has no such calendar")
        calendar = found
    if calendar is not None and (not isinstance(calendar, Calendar) or calendar.pk is None):
        raise InvalidField("calendar", calendar, "is neither a saved calendar nor the name of one")
    options["calendar_id"] = None if calendar is None else calendar.pk


def _brought_to(job: Job, definition: JobDefinition) -> Job:
    wanted = definition.columns()
    if isinstance(definition.jitter, Unsaid) and job.tenant.stagger:
        del wanted["jitter"]  # it has its tenant's, as that was when it was made
    changed = [name for name, value in wanted.items() if getattr(job, name) != value]
    for name in changed:
        setattr(job, name, wanted[name])
    if changed:
        job.save()
        job.refresh_from_db()
    return job
