"""A tenant goes only after its jobs, and whoever tries is told so without a look at each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import ProtectedError

from fairness.models import Limit, Tenant
from fairness.models.tenant_deletion import TenantInUse
from scheduling.models import Hold, Job, JobClock
from tests.ledger_rows import add_fire

pytestmark = pytest.mark.django_db

WAYS: dict[str, Callable[[Tenant], Any]] = {
    "row": lambda tenant: tenant.delete(),
    "query set": lambda tenant: Tenant.objects.filter(pk=tenant.pk).delete(),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_tenant_with_jobs_is_refused_in_a_sentence_that_says_what_to_do(way: str):
    acme = Tenant.objects.create(slug="acme")
    Job.objects.cron("t", "0 6 * * *", tenant=acme)
    with pytest.raises(TenantInUse) as refused:
        WAYS[way](acme)
    assert isinstance(refused.value, ProtectedError)
    assert str(refused.value) == (
        "tenant 'acme': it has 1 job; delete them first, and once more when their history is over: till then those that"
        " have fired stay, hidden. max_in_flight 0 and max_jobs 0 make it do nothing meanwhile"
    )


@pytest.mark.parametrize("way", WAYS)
def test_a_tenant_whose_jobs_are_gone_goes_with_its_limits_and_holds(way: str):
    acme = Tenant.objects.create(slug="acme")
    Limit.objects.create(tenant=acme, task="t", rate_per_s=5)
    Hold.objects.create(shard_id=1, tenant=acme, since=JobClock.objects.now())
    Job.objects.cron("t", "0 6 * * *", tenant=acme).delete()
    WAYS[way](acme)
    assert not Tenant.objects.filter(slug="acme").exists()
    assert not Limit.objects.exists()


def test_a_job_that_stays_for_its_history_keeps_its_tenant_until_that_is_over():
    acme = Tenant.objects.create(slug="acme")
    fire = add_fire(Job.objects.cron("t", "0 6 * * *", tenant=acme), state="succeeded")
    acme.jobs.all().delete()
    with pytest.raises(TenantInUse, match="it has 1 job"):
        acme.delete()
    fire.delete()  # as its partition does
    acme.jobs.all().delete()
    acme.delete()
    assert not Tenant.objects.filter(slug="acme").exists()
