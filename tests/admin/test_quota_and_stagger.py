"""The form of a job says what its tenant may not have, and takes the tenant's stagger where no jitter is given."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Sum
from django.test import Client
from django.urls import reverse

from fairness.models import ServedShare, Tenant
from scheduling.models import Job
from tests.admin.test_job_form import ADD, errors, form, new

pytestmark = pytest.mark.django_db


def default(**columns: Any) -> Tenant:
    Tenant.objects.filter(slug="default").update(**columns)
    return Tenant.objects.get(slug="default")


def test_a_job_beyond_the_quota_is_refused_at_the_tenant_and_counted(admin_client: Client):
    tenant = default(max_jobs=1)
    new(admin_client)
    assert errors(new(admin_client, name="other"))["tenant"] == [
        "It may have 1 job (max_jobs), and has 1: 1 more is too many."
    ]
    assert Job.objects.count() == 1
    assert ServedShare.objects.filter(tenant=tenant).aggregate(Sum("refused"))["refused__sum"] == 1


def test_a_job_of_a_tenant_at_its_quota_can_be_edited_and_moved_away_but_none_moved_to_it(admin_client: Client):
    default(max_jobs=1)
    full, free = Tenant.objects.create(slug="full", max_jobs=0), Tenant.objects.create(slug="free")
    new(admin_client)
    page = reverse("admin:scheduling_job_change", args=[Job.objects.get().pk])
    assert form(admin_client, page, description="edited").status_code == 302
    assert "tenant" in errors(form(admin_client, page, tenant=full.pk))
    assert form(admin_client, page, tenant=free.pk).status_code == 302


@pytest.mark.parametrize(("typed", "jitter"), [("", 300), ("0", 0)])
def test_an_empty_jitter_of_a_new_job_is_its_tenants_stagger(typed: str, jitter: int, admin_client: Client):
    default(stagger=timedelta(minutes=5))
    assert "Empty: over its tenant's stagger" in admin_client.get(ADD).content.decode().replace("&#x27;", "'")
    assert new(admin_client, jitter=typed).status_code == 302
    assert Job.objects.get().jitter == timedelta(seconds=jitter)


def test_a_job_that_is_there_keeps_to_name_its_jitter(admin_client: Client):
    default(stagger=timedelta(minutes=5))
    new(admin_client, jitter="0")
    page = reverse("admin:scheduling_job_change", args=[Job.objects.get().pk])
    assert "jitter" in errors(form(admin_client, page, jitter=""))
