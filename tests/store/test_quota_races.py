"""Quotas of jobs while several sessions make some at once."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from fairness.models import Tenant
from scheduling.core.definition import JobDefinition
from scheduling.core.errors import QuotaExceeded
from scheduling.models import Job
from tests.processes import PATIENCE_S
from tests.store.sessions import InThread, until_someone_waits


def tenant(max_jobs: int, slug: str = "acme") -> Tenant:
    return Tenant.objects.create(slug=slug, max_jobs=max_jobs)


def jobs(*owners: Tenant) -> list[Job]:
    return [Job(tenant=owner, task="t", cron="0 6 * * *") for owner in owners]


def test_of_two_at_once_one_waits_and_is_refused_what_the_other_has_taken(committed_db, in_thread: InThread) -> None:
    owner = tenant(3)
    with transaction.atomic():
        Job.objects.bulk_create(jobs(owner, owner))
        second: Future[Any] = in_thread(Job.objects.bulk_create, jobs(owner, owner))
        until_someone_waits()
    with pytest.raises(QuotaExceeded):
        second.result()
    assert Job.objects.count() == 2


def test_what_is_rolled_back_has_taken_nothing(committed_db, in_thread: InThread) -> None:
    owner = tenant(2)
    with transaction.atomic():
        Job.objects.bulk_create(jobs(owner, owner))
        second: Future[Any] = in_thread(Job.objects.bulk_create, jobs(owner, owner))
        until_someone_waits()
        transaction.set_rollback(True)
    assert len(second.result()) == 2


def test_many_sessions_make_exactly_as_many_as_there_may_be(committed_db, in_thread: InThread) -> None:
    one, other = tenant(25), tenant(30, "other")
    definition = JobDefinition.cron_job("t", "0 6 * * *")

    def make(number: int) -> None:
        for turn in range(10):
            try:
                if turn % 3:
                    owners = (one, other) if number % 2 else (other, one)
                    Job.objects.bulk_create(jobs(*owners))
                else:
                    Job.objects.copy([definition], tenant=(one, other)[number % 2])
            except QuotaExceeded:
                pass

    for done in [in_thread(make, number) for number in range(6)]:
        done.result()
    found = {owner.slug: Job.objects.filter(tenant=owner).count() for owner in (one, other)}
    assert found["acme"] <= 25
    assert found["other"] <= 30
    assert 25 in found.values()


def test_under_another_isolation_a_quota_is_not_guessed_at(committed_db) -> None:
    made = jobs(tenant(5))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        with pytest.raises(DatabaseError, match="READ COMMITTED only"), transaction.atomic():
            Job.objects.bulk_create(made)


def test_an_ordinary_change_of_the_tenant_is_no_obstacle_to_jobs_without_a_quota(committed_db, in_thread) -> None:
    owner = Tenant.objects.create(slug="free")
    with transaction.atomic():
        Tenant.objects.filter(pk=owner.pk).update(weight=2.0)
        assert len(in_thread(Job.objects.bulk_create, jobs(owner)).result(timeout=PATIENCE_S)) == 1
