"""Stagger: jobs that name no jitter take their tenant's, when they are made."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command

from fairness.models import Tenant
from scheduling.core.definition import JobDefinition
from scheduling.models import Job

pytestmark = pytest.mark.django_db

TEN = timedelta(minutes=10)
ZERO = timedelta(0)
HOURLY = "0 * * * *"


@pytest.fixture
def acme() -> Tenant:
    return Tenant.objects.create(slug="acme", stagger=TEN)


def copy(tenant: Tenant, **said: Any) -> None:
    Job.objects.copy([JobDefinition.cron_job("t", HOURLY, **said)], tenant=tenant)


WAYS: dict[str, Callable[..., Any]] = {
    "cron": lambda tenant, **said: Job.objects.cron("t", HOURLY, tenant=tenant, **said),
    "declare": lambda tenant, **said: Job.objects.declare("t", name="n", tenant=tenant, cron=HOURLY, **said),
    "save": lambda tenant, **said: Job(tenant=tenant, task="t", cron=HOURLY, **said).save(),
    "bulk_create": lambda tenant, **said: Job.objects.bulk_create([Job(tenant=tenant, task="t", cron=HOURLY, **said)]),
    "copy": copy,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_job_that_names_no_jitter_takes_its_tenants_stagger(way: str, acme: Tenant) -> None:
    WAYS[way](acme)
    job = Job.objects.get()
    assert job.jitter == TEN
    assert isinstance(job.next_fire_at, datetime)
    assert isinstance(job.next_scheduled_for, datetime)
    assert job.next_scheduled_for <= job.next_fire_at < job.next_scheduled_for + TEN


@pytest.mark.parametrize("said", [ZERO, timedelta(seconds=7)])
@pytest.mark.parametrize("way", WAYS)
def test_a_jitter_that_is_named_stays_also_where_it_is_none(way: str, said: timedelta, acme: Tenant) -> None:
    WAYS[way](acme, jitter=said)
    assert Job.objects.get().jitter == said


@pytest.mark.parametrize("way", WAYS)
def test_without_a_stagger_there_is_no_jitter(way: str) -> None:
    WAYS[way](Tenant.objects.create(slug="plain"))
    assert Job.objects.get().jitter == ZERO


def test_named_and_unnamed_jitters_may_be_copied_together(acme: Tenant) -> None:
    said: list[dict[str, Any]] = [{}, {"jitter": ZERO}, {}, {"jitter": TEN / 2}]
    Job.objects.copy(
        [JobDefinition.cron_job("t", HOURLY, name=str(n), **each) for n, each in enumerate(said)], tenant=acme
    )
    assert list(Job.objects.order_by("name").values_list("jitter", flat=True)) == [TEN, ZERO, TEN, TEN / 2]


def test_a_later_stagger_changes_no_job_that_is_there(acme: Tenant) -> None:
    Job.objects.declare("t", name="n", tenant=acme, cron=HOURLY)
    acme.stagger = TEN * 2
    acme.save()
    job = Job.objects.declare("t", name="n", tenant=acme, cron="30 * * * *")
    assert (job.cron, job.jitter) == ("30 * * * *", TEN)


def test_a_job_that_is_not_saved_yet_is_shown_with_the_stagger_it_will_have(acme: Tenant) -> None:
    job = Job(tenant=acme, task="t", cron=HOURLY)
    assert [entry.fire_at for entry in job.preview(3)] != [entry.utc for entry in job.preview(3)]


def test_preview_says_over_how_long_a_jobs_fires_are_spread(acme: Tenant, capsys: pytest.CaptureFixture[str]) -> None:
    Job.objects.cron("t", HOURLY, tenant=acme, name="n")
    call_command("preview", "--job", "acme/n")
    assert "spread over 0:10:00, as its tenant staggers its jobs" in capsys.readouterr().out
    Job.objects.update(jitter=TEN / 2)
    call_command("preview", "--job", "acme/n")
    assert "spread over 0:05:00\n" in capsys.readouterr().out
