"""Bring the jobs of a Celery app to what its ``beat_schedule`` says. Every beat does it at its start; so it is safe
side by side, and writes nothing where all is so already.

An entry makes a job of its name, of the default tenant, of origin ``code``. From then on two may change it::

    code said last time   the job has now   the code says now
    A                     A                 B                    brought to B
    A                     B                 A                    a person did that: stays
    A                     B                 C                    stays (policy keep), or is brought to C (overwrite)

by each part by itself (``PARTS``); what code cannot say, such as the overlap policy, is never touched. The job of an
entry that is gone, or is refused, is paused with the reason, once; when the entry comes back it is resumed, unless a
person has paused it. A job that a person deleted stays so under ``keep``. Of apps that share a database each looks at
its own entries alone; an entry whose name another job has is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from fairness.models import DEFAULT_TENANT, Tenant
from scheduling.conf import CodeJobs
from scheduling.core.definition import JobDefinition
from scheduling.core.errors import InvalidField
from scheduling.models import CodeEntry, Job
from scheduling.models.job import Origin
from scheduling.models.job_quota import fitting
from scheduling.services.pause import REASON_LIMIT, pause
from scheduling.services.resume import resume

LOCK = 0x0FA1_C0DE  # advisory: one sync at a time
PATIENCE = "SET LOCAL lock_timeout = '10s'"  # somebody may have a job open; who syncs tries again
PARTS = {
    "schedule": ("kind", "at", "every", "anchor", "cron", "rrule", "dtstart", "tz", "day_match"),
    "task": ("task",),
    "args": ("args",),
    "kwargs": ("kwargs",),
    "limits": ("soft_timeout_s", "hard_timeout_s"),
    "expiry": ("expires_after",),
    "misfire": ("misfire", "misfire_grace_s"),
}


class Change(StrEnum):
    NEW = "new"
    SAME = "same"
    CHANGED = "changed"
    GONE = "gone"
    DELETED = "deleted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class EntryVerdict:
    """What became of an entry; ``detail`` says what changed, what a person's change kept, or why it is refused."""

    name: str
    change: Change
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.name!r}: {self.change}{': ' if self.detail else ''}{self.detail}"


def sync_entries(
    app: str, definitions: Mapping[str, JobDefinition], refused: Mapping[str, str], *, policy: CodeJobs
) -> list[EntryVerdict]:
    """Bring the jobs of this app's entries to these definitions, in one transaction; a verdict for each entry.

    ``refused`` are entries that the code has and that cannot be jobs, with the reason. Raises django.db.Error, and
    then nothing was written.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(PATIENCE)
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        return _Sync(app, policy).run(definitions, refused)


class _Sync:
    """One run, under the lock. ``jobs`` are those of the known entries, locked, but for deleted ones."""

    def __init__(self, app: str, policy: CodeJobs) -> None:
        self._app, self._policy = app, policy
        self._entries = {entry.name: entry for entry in CodeEntry.objects.filter(app=app)}
        ids = [entry.job_id for entry in self._entries.values()]
        found = Job.objects.select_for_update(no_key=True).filter(pk__in=ids, deleted_at=None).order_by("pk")
        self._jobs: dict[UUID, Job] = {job.pk: job for job in found}

    def run(self, definitions: Mapping[str, JobDefinition], refused: Mapping[str, str]) -> list[EntryVerdict]:
        verdicts = [EntryVerdict(name, Change.REFUSED, reason) for name, reason in refused.items()]
        verdicts += [self._known(name, wanted) for name, wanted in definitions.items() if self._knows(name)]
        verdicts += self._make({name: wanted for name, wanted in definitions.items() if not self._knows(name)})
        gone = [entry for name, entry in self._entries.items() if name not in definitions]
        verdicts += filter(None, [self._gone(entry, refused.get(entry.name)) for entry in gone])
        return verdicts

    def _knows(self, name: str) -> bool:
        """Whether it was seen before; one whose job was deleted is made anew under the policy ``overwrite``."""
        entry = self._entries.get(name)
        return entry is not None and (entry.job_id in self._jobs or self._policy is CodeJobs.KEEP)

    def _make(self, wanted: Mapping[str, JobDefinition]) -> list[EntryVerdict]:
        if not wanted:
            return []
        tenant = Tenant.objects.get(slug=DEFAULT_TENANT)
        taken = set(Job.objects.filter(tenant=tenant, name__in=wanted, deleted_at=None).values_list("name", flat=True))
        jobs = {
            name: Job(tenant=tenant, origin=Origin.CODE, **definition.columns())
            for name, definition in wanted.items()
            if name not in taken
        }
        count, refused = fitting(tenant, len(jobs), using=connection.alias)
        beyond = list(jobs)[count:]
        for name in beyond:
            del jobs[name]
        Job.objects.bulk_create(jobs.values())
        entries = [CodeEntry(app=self._app, name=name, job=job, said=_parts(job)) for name, job in jobs.items()]
        CodeEntry.objects.bulk_create(
            entries, update_conflicts=True, unique_fields=["app", "name"], update_fields=["job", "said", "gone"]
        )
        reason = "there is a job of this name, which is not of this app's code"
        reasons = dict.fromkeys(taken, reason) | dict.fromkeys(beyond, str(refused))
        return [
            EntryVerdict(name, Change.REFUSED, reasons[name]) if name in reasons else EntryVerdict(name, Change.NEW)
            for name in wanted
        ]

    def _known(self, name: str, wanted: JobDefinition) -> EntryVerdict:
        entry = self._entries[name]
        job = self._jobs.get(entry.job_id)
        if job is None:
            return EntryVerdict(name, Change.DELETED, "a person has deleted its job, and it is not made again")
        try:
            changed, kept = self._bring(job, entry, wanted)
        except InvalidField as problem:  # with what a person has set
            return EntryVerdict(name, Change.REFUSED, f"cannot be saved with what was set by hand: {problem}")
        details = [", ".join(changed)] if changed else []
        if entry.gone:
            details += self._come_back(job, entry)
        change = Change.CHANGED if details else Change.SAME
        details += [f"{', '.join(kept)} stays as set by hand"] if kept else []
        return EntryVerdict(name, change, "; ".join(details))

    def _bring(self, job: Job, entry: CodeEntry, wanted: JobDefinition) -> tuple[list[str], list[str]]:
        """The parts that changed, and those that stay as a person set them."""
        columns, has = wanted.columns(), _parts(job)
        says = _parts(Job(**columns))
        different = [part for part in PARTS if has[part] != says[part]]
        kept = [part for part in different if self._policy is CodeJobs.KEEP and has[part] != entry.said.get(part)]
        changed = [part for part in different if part not in kept]
        for column in (column for part in changed for column in PARTS[part]):
            setattr(job, column, columns[column])
        if changed:
            job.save()
        if entry.said != says:
            entry.said = says
            entry.save(update_fields=["said"])
        return changed, kept

    def _come_back(self, job: Job, entry: CodeEntry) -> list[str]:
        entry.gone = False
        entry.save(update_fields=["gone"])
        if job.paused_by != self._by:
            return []
        resume([job], by=self._by)
        return ["resumed"]

    def _gone(self, entry: CodeEntry, refusal: str | None) -> EntryVerdict | None:
        """None: it was so before."""
        job = self._jobs.get(entry.job_id)
        if job is None:
            entry.delete()
            return None
        if entry.gone:
            return None
        entry.gone = True
        entry.save(update_fields=["gone"])
        if job.paused_at is not None and job.paused_until is None:
            return EntryVerdict(entry.name, Change.GONE, "its job is paused already")
        reason = f"refused: {refusal}" if refusal else "the code does not have it any more"
        pause([job], reason=reason[:REASON_LIMIT], by=self._by)
        return EntryVerdict(entry.name, Change.GONE, "its job is paused")

    @property
    def _by(self) -> str:
        return f"beat_schedule of {self._app}"


def _parts(job: Job) -> dict[str, list[Any]]:
    """A job by its parts, as JSON keeps them: what is no JSON (instants, lengths) as text, exactly."""
    values = {part: [getattr(job, column) for column in columns] for part, columns in PARTS.items()}
    parts: dict[str, list[Any]] = json.loads(json.dumps(values, default=str))
    return parts
