"""Of many jobs that come at once, those within the tenant's quota are made, and the others refused and counted."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Sum

from fairness.models import ServedShare, Tenant
from scheduling.conf import CodeJobs
from scheduling.core.definition import JobDefinition
from scheduling.models import Job
from scheduling.services.import_jobs import Change, import_jobs
from scheduling.services.sync_entries import sync_entries

pytestmark = pytest.mark.django_db

TOO_MANY = "tenant 'acme': may have 2 jobs (max_jobs), and has 0: 3 more are too many"


def lines(*names: str, tenant: str = "acme", cron: str = "0 6 * * *") -> list[bytes]:
    return [json.dumps({"tenant": tenant, "name": name, "cron": cron, "task": "t"}).encode() for name in names]


def refused(tenant: Tenant) -> Any:
    return ServedShare.objects.filter(tenant=tenant).aggregate(Sum("refused"))["refused__sum"]


@pytest.mark.parametrize("dry_run", [False, True])
def test_the_lines_beyond_the_quota_are_refused_and_the_others_imported(dry_run: bool) -> None:
    acme = Tenant.objects.create(slug="acme", max_jobs=2)
    verdicts = import_jobs([*lines("a", "b", "c"), *lines("d", tenant="other")], dry_run=dry_run)

    assert [(v.change, v.detail) for v in verdicts] == [
        (Change.NEW, ""), (Change.NEW, ""), (Change.REFUSED, TOO_MANY), (Change.NEW, "")
    ]  # fmt: skip
    assert set(Job.objects.values_list("name", flat=True)) == (set() if dry_run else {"a", "b", "d"})
    assert refused(acme) == (None if dry_run else 1)


def test_a_line_that_changes_a_job_is_none_more() -> None:
    acme = Tenant.objects.create(slug="acme", max_jobs=1)
    Job.objects.cron("t", "0 6 * * *", tenant=acme, name="a")
    [changed, new] = import_jobs(lines("a", "b", cron="0 7 * * *"))
    assert (changed.change, new.change) == (Change.CHANGED, Change.REFUSED)


def test_the_jobs_of_a_file_take_the_stagger_and_keep_what_they_have() -> None:
    acme = Tenant.objects.create(slug="acme", stagger=timedelta(minutes=5))
    import_jobs(lines("a"))
    acme.stagger = None
    acme.save()
    import_jobs(lines("a", cron="0 7 * * *"))
    assert Job.objects.get().jitter == timedelta(minutes=5)


def test_the_entries_of_code_beyond_the_quota_are_refused() -> None:
    default = Tenant.objects.get(slug="default")
    default.max_jobs, default.stagger = 1, timedelta(minutes=5)
    default.save()
    wanted = {name: JobDefinition.cron_job("t", "0 6 * * *", name=name) for name in "ab"}

    first, second = sync_entries("shop", wanted, {}, policy=CodeJobs.KEEP)
    assert (first.change, second.change) == ("new", "refused")
    assert second.detail == "tenant 'default': may have 1 job (max_jobs), and has 0: 2 more are too many"
    assert Job.objects.get().jitter == timedelta(minutes=5)
    assert refused(default) == 1

    default.max_jobs = 2
    default.save()
    assert [v.change for v in sync_entries("shop", wanted, {}, policy=CodeJobs.KEEP)] == ["same", "new"]
