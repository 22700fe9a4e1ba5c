"""Bring the jobs of a file in: each line is new, same, changed or refused, and a refused one stops no other.

A job is found again by (tenant, name), so that a file can be imported as often as one likes: what is already so is
not touched. The file decides what its format can say (``DECIDED``); what it cannot say, such as a description or the
misfire policy, stays as a person set it. A job that is not in the file is left alone. Everything that is written is
one transaction; a dry run writes nothing and comes to the same verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from django.db import IntegrityError, connection, transaction
from psycopg.errors import UniqueViolation

from fairness.models import Tenant
from scheduling.core.definition import JobDefinition
from scheduling.core.errors import FairbeatError, InvalidField
from scheduling.core.recurrence import Caution, lint
from scheduling.models import Job, JobClock
from scheduling.models.job_quota import fitting
from scheduling.services.import_line import ImportLine, read_line

DECIDED = (
    "task", "args", "kwargs", "lane", "kind", "at", "every", "anchor", "cron", "tz", "overlap", "hard_timeout_s",
)  # fmt: skip


class Change(StrEnum):
    NEW = "new"
    SAME = "same"
    CHANGED = "changed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a line, or would become of it. ``detail``: why it is refused, what changed, how it was read.

    A dry run has ``cautions`` too: what is allowed and probably not meant.
    """

    line: int
    change: Change
    tenant: str = ""
    name: str = ""
    detail: str = ""
    cautions: tuple[str, ...] = ()

    def __str__(self) -> str:
        job = f" {self.tenant}/{self.name}" if self.tenant else ""
        return f"line {self.line}: {self.change}{job}{': ' if self.detail else ''}{self.detail}"


class ImportConflict(FairbeatError):
    """Another process made one of the file's jobs while the file was imported."""


@dataclass(slots=True)
class _Import:
    """The verdicts so far, and what remains to be written."""

    verdicts: dict[int, Verdict] = field(default_factory=dict)
    lines: dict[tuple[str, str], tuple[int, ImportLine]] = field(default_factory=dict)
    new: dict[str, list[JobDefinition]] = field(default_factory=dict)
    changed: list[Job] = field(default_factory=list)

    def read(self, number: int, text: bytes, default_task: str) -> None:
        try:
            line = read_line(text, default_task=default_task)
        except InvalidField as problem:
            self.verdicts[number] = Verdict(number, Change.REFUSED, detail=str(problem))
            return
        key = (line.tenant, line.definition.name)
        if key in self.lines:
            reason = f"name {line.definition.name!r}: line {self.lines[key][0]} has this job already"
            self.verdicts[number] = Verdict(number, Change.REFUSED, *key, reason)
        else:
            self.lines[key] = (number, line)

    def compare(
        self, found: dict[tuple[str, str], Job], tenants: dict[str, Tenant], *, lint_at: datetime | None
    ) -> None:
        for key, (number, line) in self.lines.items():
            change, detail = self._compared(found.get(key), line)
            detail = "; ".join(filter(None, [detail, line.note]))
            cautions: Sequence[Caution] = ()
            if lint_at is not None:
                rate = tenants[line.tenant].rate_per_s if line.tenant in tenants else None
                cautions = lint(line.definition.schedule.build(), now=lint_at, rate_per_s=rate)
            self.verdicts[number] = Verdict(number, change, *key, detail, tuple(caution.reason for caution in cautions))

    def _compared(self, job: Job | None, line: ImportLine) -> tuple[Change, str]:
        if job is None:
            self.new.setdefault(line.tenant, []).append(line.definition)
            return Change.NEW, ""
        wanted = line.definition.columns()
        names = [name for name in DECIDED if getattr(job, name) != wanted[name]]
        if not names:
            return Change.SAME, ""
        for name in names:
            setattr(job, name, wanted[name])
        try:
            job.definition()
        except InvalidField as problem:  # with what the file cannot say, such as the soft timeout
            return Change.REFUSED, str(problem)
        self.changed.append(job)
        return Change.CHANGED, ", ".join(names)

    def keep_quotas(self, tenants: dict[str, Tenant], *, counted: bool) -> None:
        """Of the new jobs of a tenant with a quota the first ones are made, as many as it may have, and the others
        refused.
        """
        for slug, definitions in self.new.items():
            if slug not in tenants:
                continue  # it would be made, and has no quota
            count, refused = fitting(tenants[slug], len(definitions), using=connection.alias, counted=counted)
            for definition in definitions[count:]:
                number, _ = self.lines[slug, definition.name]
                said = self.verdicts[number]
                self.verdicts[number] = replace(said, change=Change.REFUSED, detail=str(refused), cautions=())
            del definitions[count:]

    def write(self, tenants: dict[str, Tenant]) -> None:
        for slug, definitions in self.new.items():
            if definitions:
                Job.objects.copy(definitions, tenant=tenants[slug])
        for job in self.changed:
            job.save()


def import_jobs(lines: Iterable[bytes], *, default_task: str = "", dry_run: bool = False) -> list[Verdict]:
    """Import the lines of a file (see ``import_line``), blank ones left out; a verdict for each, in order.

    Tenants that are missing are made. Raises ImportConflict.
    """
    work = _Import()
    for number, text in enumerate(lines, start=1):
        if text.strip():
            work.read(number, text, default_task)
    names: dict[str, list[str]] = {}
    for tenant, name in work.lines:
        names.setdefault(tenant, []).append(name)
    try:
        with transaction.atomic():
            tenants = _tenants(list(names), make=not dry_run)
            work.compare(_jobs(names, tenants), tenants, lint_at=JobClock.objects.now() if dry_run else None)
            work.keep_quotas(tenants, counted=not dry_run)
            if not dry_run:
                work.write(tenants)
    except IntegrityError as problem:
        if not isinstance(problem.__cause__, UniqueViolation):
            raise
        raise ImportConflict(f"nothing was imported, another process made one of these jobs: {problem}") from problem
    return [work.verdicts[number] for number in sorted(work.verdicts)]


def _tenants(slugs: list[str], *, make: bool) -> dict[str, Tenant]:
    """The tenants by slug, locked: a second import of the same tenants waits for this one, and then finds its jobs."""
    if make:
        Tenant.objects.bulk_create([Tenant(slug=slug) for slug in slugs], ignore_conflicts=True)
    found = Tenant.objects.filter(slug__in=slugs).order_by("pk").select_for_update(no_key=True)
    return {tenant.slug: tenant for tenant in found}


def _jobs(names: dict[str, list[str]], tenants: dict[str, Tenant]) -> dict[tuple[str, str], Job]:
    return {
        (slug, job.name): job
        for slug, tenant in tenants.items()
        for job in Job.objects.filter(tenant=tenant, name__in=names[slug], deleted_at=None)
    }
