"""Calendars: who may use which, by the manager, by save() and by SQL."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError

from fairness.models import Tenant
from scheduling.core.definition import JobDefinition
from scheduling.core.errors import InvalidField
from scheduling.models import Calendar, Job

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> Tenant:
    return Tenant.objects.create(slug="acme")


@pytest.fixture
def zen() -> Tenant:
    return Tenant.objects.create(slug="zen")


def test_a_calendar_is_named_or_given_and_a_tenants_own_comes_before_the_shared_one(acme: Tenant, zen: Tenant) -> None:
    shared, own = Calendar.objects.create(name="holidays"), Calendar.objects.create(name="holidays", tenant=acme)
    assert Job.objects.cron("t", "@daily", tenant=acme, calendar="holidays").calendar == own
    assert Job.objects.cron("t", "@daily", tenant=zen, calendar="holidays").calendar == shared
    assert Job.objects.cron("t", "@daily", tenant=acme, calendar=shared).calendar == shared
    assert Job.objects.declare("t", name="n", cron="@daily", calendar="holidays").calendar == shared
    assert Job.objects.declare("t", name="n", cron="@daily", calendar=None).calendar is None


def test_another_tenants_calendar_is_refused_however_it_is_given(acme: Tenant, zen: Tenant) -> None:
    foreign = Calendar.objects.create(name="holidays", tenant=acme)
    with pytest.raises(InvalidField, match="calendar 'holidays': tenant zen has no such calendar"):
        Job.objects.cron("t", "@daily", tenant=zen, calendar="holidays")
    with pytest.raises(InvalidField, match="calendar 'holidays': belongs to another tenant"):
        Job.objects.cron("t", "@daily", tenant=zen, calendar=foreign)
    with pytest.raises(InvalidField, match="belongs to another tenant"):
        Job.objects.cron("t", "@daily", tenant=zen, calendar_id=foreign.pk)
    with pytest.raises(InvalidField, match="belongs to another tenant"):
        Job.objects.bulk_create([Job(tenant=zen, task="t", cron="@daily", calendar=foreign)])
    job = Job.objects.cron("t", "@daily", tenant=zen)
    job.calendar = foreign
    with pytest.raises(InvalidField, match="belongs to another tenant"):
        job.save()


@pytest.mark.parametrize("calendar", [3, Calendar(name="unsaved")])
def test_what_is_no_saved_calendar_is_refused(calendar: object) -> None:
    with pytest.raises(InvalidField, match="is neither a saved calendar nor the name of one"):
        Job.objects.cron("t", "@daily", calendar=calendar)


def test_the_database_refuses_it_too(acme: Tenant, zen: Tenant) -> None:
    foreign = Calendar.objects.create(name="holidays", tenant=acme)
    job = Job.objects.cron("t", "@daily", tenant=zen)

    def refused(sql: str, *values: Any) -> None:
        with (
            pytest.raises(IntegrityError, match="may not use the calendar of another tenant"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(sql, values)

    refused("UPDATE scheduling_job SET calendar_id = %s WHERE id = %s", foreign.pk, job.pk)
    own = Calendar.objects.create(name="own", tenant=zen)
    Job.objects.update(calendar=own)
    refused("UPDATE scheduling_job SET tenant_id = %s", acme.pk)
    refused("UPDATE scheduling_calendar SET tenant_id = %s WHERE id = %s", acme.pk, own.pk)
    Calendar.objects.filter(pk=own.pk).update(tenant=None)
    Job.objects.update(tenant=acme)


def test_jobs_that_are_copied_in_are_looked_at_as_well(acme: Tenant, zen: Tenant) -> None:
    foreign = Calendar.objects.create(name="holidays", tenant=acme)
    definition = JobDefinition.cron_job("t", "@daily", calendar_id=foreign.pk)
    with pytest.raises(Exception, match="may not use the calendar of another tenant"), transaction.atomic():
        Job.objects.copy([definition], tenant=zen)
    assert Job.objects.copy([definition], tenant=acme) == 1


def test_a_calendar_in_use_cannot_be_deleted() -> None:
    calendar = Calendar.objects.create(name="holidays", days=[date(2026, 12, 25)])
    Job.objects.cron("t", "@daily", calendar=calendar)
    with pytest.raises(ProtectedError):
        calendar.delete()


def test_times_that_cannot_be_read_are_refused_when_they_are_saved() -> None:
    with pytest.raises(InvalidField, match="hours"):
        Calendar.objects.create(name="x", hours=[{"begins": "25:00", "ends": "06:00"}])
    with pytest.raises(InvalidField, match="tz 'Mars'"):
        Calendar.objects.create(name="x", tz="Mars")
