"""Quotas of stored jobs: one job too many is refused, however it comes in, and whoever else is making some."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from fairness.models import Tenant
from scheduling.core.definition import JobDefinition
from scheduling.core.errors import InvalidField, QuotaExceeded
from scheduling.models import Job
from scheduling.models.job_quota import fitting
from tests.fires import make_fire

pytestmark = pytest.mark.django_db

COLUMNS = ", ".join(str(field.column) for field in Job._meta.concrete_fields if field.column != "id")


def tenant(max_jobs: int | None = 2, slug: str = "acme") -> Tenant:
    return Tenant.objects.create(slug=slug, max_jobs=max_jobs)


def definitions(count: int) -> list[JobDefinition]:
    return [JobDefinition.cron_job("t", "0 6 * * *") for _ in range(count)]


def make(owner: Tenant, count: int, **options: Any) -> list[Job]:
    return [Job.objects.cron("t", "0 6 * * *", tenant=owner, **options) for _ in range(count)]


def unsaved(owner: Tenant, count: int) -> list[Job]:
    return [Job(tenant=owner, task="t", cron="0 6 * * *") for _ in range(count)]


def save(owner: Tenant, count: int) -> None:
    for job in unsaved(owner, count):
        job.save()


def declare(owner: Tenant, count: int) -> None:
    for number in range(count):
        Job.objects.declare("t", name=f"job {number}", tenant=owner, cron="0 6 * * *")


WAYS: dict[str, Callable[[Tenant, int], Any]] = {
    "cron": make,
    "save": save,
    "declare": declare,
    "bulk_create": lambda owner, count: Job.objects.bulk_create(unsaved(owner, count)),
    "copy": lambda owner, count: Job.objects.copy(definitions(count), tenant=owner),
}


def refused(do: Callable[[], Any]) -> str:
    """What is said of it."""
    with pytest.raises(QuotaExceeded) as caught, transaction.atomic():
        do()
    return str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_one_more_than_the_quota_is_refused(way: str) -> None:
    owner = tenant(2)
    with transaction.atomic():
        WAYS[way](owner, 2)
    assert refused(lambda: WAYS[way](owner, 3)).startswith("tenant 'acme': may have 2 jobs (max_jobs), and has 2: ")
    assert Job.objects.filter(tenant=owner).count() == 2


def test_the_refusal_names_the_tenant_its_quota_what_it_has_and_what_is_too_much() -> None:
    owner = tenant(10)
    make(owner, 9)
    with pytest.raises(QuotaExceeded) as caught, transaction.atomic():
        Job.objects.copy(definitions(3), tenant=owner)
    assert str(caught.value) == "tenant 'acme': may have 10 jobs (max_jobs), and has 9: 3 more are too many"
    assert isinstance(caught.value, InvalidField)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_sql_that_makes_jobs_is_refused_too() -> None:
    owner = tenant(1)
    make(owner, 1)
    again = f"INSERT INTO scheduling_job (id, {COLUMNS}) SELECT gen_random_uuid(), {COLUMNS} FROM scheduling_job"
    said = r"tenant acme: may have 1 job \(max_jobs\), and has 1"
    with connection.cursor() as cursor, pytest.raises(DatabaseError, match=said), transaction.atomic():
        cursor.execute(again)


def test_what_is_moved_to_a_tenant_counts_as_one_more() -> None:
    owner = tenant(1)
    make(owner, 1)
    [other] = make(tenant(None, "other"), 1)
    assert "acme" in refused(lambda: Job.objects.filter(pk=other.pk).update(tenant=owner))
    other.tenant = owner
    assert "acme" in refused(other.save)


def test_a_deleted_job_makes_room_and_does_not_come_back_beyond_the_quota() -> None:
    owner = tenant(1)
    [job] = make(owner, 1)
    make_fire(job, state="succeeded")
    job.delete()
    assert Job.objects.get(pk=job.pk).deleted_at
    make(owner, 1)
    assert "acme" in refused(lambda: Job.objects.filter(pk=job.pk).update(deleted_at=None))


def test_jobs_that_have_ended_and_unnamed_ones_count() -> None:
    owner = tenant(3)
    make(owner, 2)
    Job.objects.filter(tenant=owner).update(next_fire_at=None, next_scheduled_for=None)
    make(owner, 1, name="named")
    assert "has 3" in refused(lambda: make(owner, 1))


def test_a_tenant_without_a_quota_may_have_any_number() -> None:
    make(tenant(None), 3)


def test_a_quota_of_nothing_lets_nothing_in() -> None:
    assert "may have 0 jobs" in refused(lambda: make(tenant(0), 1))


def test_a_quota_below_what_is_there_removes_nothing_and_refuses_more() -> None:
    owner = tenant(None)
    [job, *_] = make(owner, 3)
    owner.max_jobs = 1
    owner.save()
    job.description = "edited"
    job.save()
    assert Job.objects.filter(tenant=owner).count() == 3
    assert refused(lambda: make(owner, 1)).endswith("and has more: 1 more is too many")


def test_what_fits_of_many_is_told_beforehand() -> None:
    owner = tenant(5)
    make(owner, 3)
    assert fitting(owner, 2, using="default") == (2, None)
    count, said = fitting(owner, 4, using="default")
    assert (count, str(said)) == (2, "tenant 'acme': may have 5 jobs (max_jobs), and has 3: 4 more are too many")
    assert fitting(tenant(None, "other"), 4, using="default") == (4, None)
