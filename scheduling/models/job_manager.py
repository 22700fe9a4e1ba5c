"""How jobs are made: one at a time in the caller's transaction, or many by COPY.

Every way checks through ``JobDefinition``, plans the first occurrence, and, where that is due soon, hints the shard's
owner with a NOTIFY in the same transaction. The hint only saves the time to the owner's next poll.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, connections, models, transaction

from fairness.models import DEFAULT_TENANT, Tenant
from scheduling.core.definition import JobDefinition, Kind, ScheduleFields
from scheduling.core.errors import InvalidField
from scheduling.models.hints import hint_due
from scheduling.models.job_clock import JobClock
from scheduling.models.job_copy import COPY_JOBS, write_lines
from scheduling.models.job_deletion import delete_jobs
from scheduling.models.job_planning import first_occurrence, shard_count

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


class JobManager(models.Manager["Job"]):
    def get_queryset(self) -> JobQuerySet:
        return JobQuerySet(self.model, using=self._db)

    def cron(
        self, task: str, expression: str, *, tz: str = "UTC", tenant: str | Tenant = DEFAULT_TENANT, **policy: Any
    ) -> Job:
        """A job on a cron expression of five fields (six with seconds first), read in the zone ``tz``.

        Raises InvalidField, which names the field.
        """
        return self.define(JobDefinition.cron_job(task, expression, tz=tz, **policy), tenant=tenant)

    def every(
        self,
        task: str,
        every: timedelta,
        *,
        anchor: datetime | None = None,
        tenant: str | Tenant = DEFAULT_TENANT,
        **policy: Any,
    ) -> Job:
        """A job at ``anchor + k × every`` in real time; without an anchor the first is one interval from now."""
        anchor = JobClock.objects.now() if anchor is None else anchor
        return self.define(JobDefinition.interval_job(task, every, anchor=anchor, **policy), tenant=tenant)

    def once(self, task: str, at: datetime, *, tenant: str | Tenant = DEFAULT_TENANT, **policy: Any) -> Job:
        """A job at one instant; an instant that has passed is due now."""
        return self.define(JobDefinition.once_job(task, at, **policy), tenant=tenant)

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
        tz: str = "UTC",
        every: timedelta | None = None,
        anchor: datetime | None = None,
        at: datetime | None = None,
        **policy: Any,
    ) -> Job:
        """The job (tenant, name), made or brought to what is said here; what is already so is not touched.

        An interval keeps its anchor unless one is given.

        Raises InvalidField.
        """
        if not name:
            raise InvalidField("name", name, "declare() finds its job by tenant and name")
        given = [kind for kind, value in ((Kind.CRON, cron), (Kind.INTERVAL, every), (Kind.ONCE, at)) if value]
        if len(given) != 1:
            raise InvalidField(
                "schedule", {"cron": cron, "every": every, "at": at}, "give exactly one of cron, every, at"
            )
        owner = _tenant(tenant)
        with transaction.atomic(using=self.db):
            found = self._named(owner, name)
            if given[0] is Kind.INTERVAL and anchor is None:
                anchor = found.anchor if found and found.anchor else JobClock.objects.now()
            schedule = ScheduleFields(kind=given[0], cron=cron, tz=tz, every=every, anchor=anchor, at=at)
            definition = JobDefinition(task=task, name=name, schedule=schedule, **policy)
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

        Raises IntegrityError where a name exists already.
        """
        owner, now = _tenant(tenant), JobClock.objects.now()
        due: dict[int, datetime] = {}
        with connections[self.db].cursor() as cursor, cursor.copy(COPY_JOBS) as copy:
            count = write_lines(definitions, copy.write, tenant_id=owner.pk, now=now, due=due)
        for shard, fire_at in due.items():
            hint_due(shard, fire_at, now=now, using=self.db)
        return count

    def bulk_create(self, objs: Iterable[Job], *args: Any, **kwargs: Any) -> list[Job]:
        """Django's, with each job checked and planned as ``save()`` does; ``copy()`` is several times faster."""
        jobs = list(objs)
        for job in jobs:
            job.definition()
            self.plan(job)
        return super().bulk_create(jobs, *args, **kwargs)

    def plan(self, job: Job) -> None:
        """Give a job that is not yet a row its shard and its first occurrence after now."""
        now = JobClock.objects.now()
        first = first_occurrence(job.schedule, job.id, job.jitter, now=now, shards=shard_count())
        job.shard_id, job.next_scheduled_for, job.next_fire_at = first.shard, first.scheduled_for, first.fire_at
        job.schedule_changed_at = now
        if first.fire_at is not None:
            hint_due(first.shard, first.fire_at, now=now, using=self.db)

    def _named(self, tenant: Tenant, name: str) -> Job | None:
        return self.select_for_update().filter(tenant=tenant, name=name, deleted_at=None).first()


def _tenant(tenant: str | Tenant) -> Tenant:
    if isinstance(tenant, Tenant):
        return tenant
    found = Tenant.objects.filter(slug=tenant).first()
    if found is None:
        raise InvalidField("tenant", tenant, "there is no such tenant; make it with Tenant.objects.create(slug=…)")
    return found


def _brought_to(job: Job, definition: JobDefinition) -> Job:
    wanted = definition.columns()
    changed = [name for name, value in wanted.items() if getattr(job, name) != value]
    for name in changed:
        setattr(job, name, wanted[name])
    if changed:
        job.save()
        job.refresh_from_db()
    return job
