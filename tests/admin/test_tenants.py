"""The pages of tenants: what each may have, beside what it gets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from fairness import standings
from fairness.core.standing import Grant, TenantStanding
from fairness.models import Budget, Limit, ServedShare, Standing, Tenant, TenantQueue, WorkerReport
from scheduling.models import Job, WorkerTask

pytestmark = pytest.mark.django_db
LIST = "/admin/fairness/tenant/"
NO_LIMITS = {"limits-TOTAL_FORMS": "0", "limits-INITIAL_FORMS": "0"}


def flood(slug: str, weight: float, served_s: float, **standing: Any) -> Tenant:
    """A tenant with something waiting for the last two minutes, that was served so much."""
    tenant = Tenant.objects.create(slug=slug, weight=weight)
    minute = timezone.now().replace(second=0, microsecond=0)
    for ago in range(2):
        ServedShare.objects.create(
            minute=minute - timedelta(minutes=ago), tenant=tenant, lane="bulk", weight=weight, served_s=served_s,
            starts=1200, throttled=7, backlogged_s=60,
        )  # fmt: skip
    connection.ensure_connection()
    values: dict[str, Any] = {"waiting": 40, "in_flight": 3, "oldest_s": 8.0}
    row = TenantStanding(tenant_id=tenant.pk, lane="bulk", weight=weight, **values | standing)
    standings.write(connection.connection, f"of-{slug}", [row])
    return tenant


def test_the_list_shows_shares_beside_what_weights_give(admin_client: Client):
    flood("acme", 3, 60)
    flood("zen", 1, 60, reason="rate", until_s=30.0)
    page = admin_client.get(LIST).content.decode()
    assert 'field-share">50.0% of 75.0%<' in page
    assert 'field-share">50.0% of 25.0%<' in page
    assert 'field-held_by">its turn<' in page
    assert 'field-held_by">rate until 2' in page
    assert page.count('field-waiting">40<') == 2


def test_the_list_takes_as_many_queries_for_many_tenants_as_for_one(admin_client: Client):
    counts = []
    for number in (1, 20):
        for n in range(number):
            flood(f"t{number}-{n}", 1, 60)
        with CaptureQueriesContext(connection) as captured:
            assert admin_client.get(LIST).status_code == 200
        counts.append(len(captured))
    assert counts[0] == counts[1] <= 9


def test_the_page_of_a_tenant_shows_what_it_gets_in_bounded_queries(
    admin_client: Client, django_assert_max_num_queries: Callable[..., Any]
):
    fire = uuid4()
    acme = flood("acme", 3, 60, grants=[Grant(fire_id=fire, ago_s=1.0)])
    Tenant.objects.filter(pk=acme.pk).update(daily_fires=1000)
    now = timezone.now()
    Budget.objects.create(tenant=acme, day=now.date(), taken=250)
    TenantQueue.objects.create(name="fairbeat.acme.bulk.v1", tenant=acme, lane="bulk", made_at=now, used_at=now)
    Limit.objects.create(tenant=acme, task="send", rate_per_s=5)
    with django_assert_max_num_queries(14):
        page = admin_client.get(f"{LIST}{acme.pk}/change/").content.decode()
    assert "bulk: 100.0% of 100.0% by weight 3; " in page
    assert "250 of 1,000 on" in page
    assert "fairbeat.acme.bulk.v1" in page
    assert str(fire) in page
    assert 'value="send"' in page


def test_when_one_in_flight_ends_nobody_says(admin_client: Client):
    flood("acme", 3, 60, reason="cap", until_s=1.0)
    assert 'field-held_by">cap<' in admin_client.get(LIST).content.decode()


def test_limits_of_a_part_are_edited_on_the_page_of_their_tenant(admin_client: Client):
    acme = Tenant.objects.create(slug="acme")
    values = {"weight": "2", "burst": "1", "transactional_weight": "", "rate_per_s": "", "max_in_flight": "8"}
    limit = {
        "limits-TOTAL_FORMS": "1", "limits-INITIAL_FORMS": "0", "limits-0-task": "send", "limits-0-rate_per_s": "5",
        "limits-0-burst": "3", "limits-0-tenant": str(acme.pk),
    }  # fmt: skip
    answer = admin_client.post(f"{LIST}{acme.pk}/change/", values | limit)
    assert answer.status_code == 302
    acme.refresh_from_db()
    assert (acme.weight, acme.max_in_flight) == (2.0, 8)
    assert [(row.task, row.rate_per_s, row.burst) for row in acme.limits.all()] == [("send", 5.0, 3)]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"weight": "0"}, {"weight": ["a number from 0.001 to 10000"]}),
        ({"weight": "nan"}, {"weight": ["Enter a number."]}),
        ({"transactional_weight": "1e9"}, {"transactional_weight": ["a number from 0.001 to 10000, or empty"]}),
        ({"rate_per_s": "1e300"}, {"rate_per_s": ["a number from 1e-9 to 1e9, or empty"]}),
        ({"burst": "0"}, {"burst": ["at least 1"]}),
        ({"max_in_flight": "-1"}, {"max_in_flight": ["Ensure this value is greater than or equal to 0."]}),
        ({"is_strict": "on"}, {"is_strict": ["needs a number of fires that may be in flight"]}),
        ({"stagger": "2 00:00:00"}, {"stagger": ["from 0 to a day, or empty"]}),
    ],
)
def test_what_a_tenant_cannot_have_is_said_once_and_at_its_field(
    values: dict[str, str], said: dict[str, list[str]], admin_client: Client
):
    acme = Tenant.objects.create(slug="acme")
    page = admin_client.post(f"{LIST}{acme.pk}/change/", {"weight": "2", "burst": "1"} | values | NO_LIMITS)
    assert page.context["adminform"].form.errors == said


@pytest.mark.parametrize(
    ("values", "at", "said"),
    [
        ({"task": "send", "lane": "bluk", "rate_per_s": "5"}, "lane", "bluk is not one of the available choices"),
        ({"task": "send"}, "rate_per_s", "rate, max in flight: give one of them, or delete the limit"),
        ({"rate_per_s": "5"}, "task", "lane, task: name one of them; a limit of the whole tenant is its own field"),
        ({"task": "send", "rate_per_s": "1e300"}, "rate_per_s", "a number from 1e-9 to 1e9, or empty"),
        ({"task": "send", "rate_per_s": "nan"}, "rate_per_s", "Enter a number."),
    ],
)
def test_what_a_limit_of_a_part_cannot_be_is_said_at_its_field(
    values: dict[str, str], at: str, said: str, admin_client: Client
):
    acme = Tenant.objects.create(slug="acme")
    limit = {"limits-TOTAL_FORMS": "1", "limits-INITIAL_FORMS": "0", "limits-0-tenant": str(acme.pk)}
    limit |= {f"limits-0-{name}": value for name, value in ({"burst": "2"} | values).items()}
    page = admin_client.post(f"{LIST}{acme.pk}/change/", {"weight": "2", "burst": "1"} | limit)
    [errors] = page.context["inline_admin_formsets"][0].formset.errors
    assert list(errors) == [at]
    assert said in errors[at][0]
    assert not acme.limits.exists()


def test_the_page_of_shares_shows_all_tenants_and_jains_index(
    admin_client: Client, django_assert_max_num_queries: Callable[..., Any]
):
    flood("acme", 3, 90)
    flood("zen", 1, 30)
    assert reverse("admin:fairness_tenant_shares") in admin_client.get(LIST).content.decode()
    with django_assert_max_num_queries(6):
        page = admin_client.get(reverse("admin:fairness_tenant_shares")).content.decode()
    assert "<td>75.0%</td><td>75.0%</td>" in page
    assert "Jain's index of the bulk lane, over those that had something waiting all the while: 1.0000." in page
    assert (
        "In the last 1 h." in admin_client.get(reverse("admin:fairness_tenant_shares") + "?window=1 h").content.decode()
    )
    assert admin_client.get(reverse("admin:fairness_tenant_shares") + "?window=x").status_code == 200


def test_who_may_not_see_tenants_does_not_see_their_shares(db: None):
    client = Client()
    client.force_login(User.objects.create(username="guest", is_staff=True))
    assert client.get(reverse("admin:fairness_tenant_shares")).status_code == 403


def test_workers_and_queues_are_shown_and_not_edited(admin_client: Client):
    now = timezone.now()
    report = {"started_at": now, "interval_s": 1.0, "slots": 8, "busy": 6, "waiting": 2, "ran": 40, "ran_s": 6.0}
    WorkerReport.objects.create(name="w1", seen_at=now, idle_s=2.0, **report)
    for name, is_leaving in (("w2", False), ("w3", True)):
        gone_at = now - timedelta(minutes=1)
        WorkerReport.objects.create(name=name, seen_at=gone_at, idle_s=0.0, is_leaving=is_leaving, **report)
    TenantQueue.objects.create(name="fairbeat-shared.0-of-16.bulk.v1", lane="bulk", made_at=now, used_at=now)
    workers = admin_client.get("/admin/fairness/workerreport/").content.decode()
    assert 'field-idle">25%<' in workers
    assert 'field-state">works<' in workers
    assert 'field-state">gone' in workers
    assert 'field-state">has ended' in workers
    assert 'field-whose">many<' in admin_client.get("/admin/fairness/tenantqueue/").content.decode()
    for model in ("workerreport", "tenantqueue"):
        assert admin_client.get(f"/admin/fairness/{model}/add/").status_code == 403
    assert Standing.objects.count() == 0


def test_a_tenant_with_jobs_is_not_deleted_and_its_page_says_what_to_do(
    admin_client: Client, django_assert_max_num_queries: Callable[..., Any]
):
    acme, free = Tenant.objects.create(slug="acme"), Tenant.objects.create(slug="free")
    Job.objects.bulk_create([Job(tenant=acme, task="t", cron="0 6 * * *") for _ in range(3)])
    with django_assert_max_num_queries(8):
        page = admin_client.get(f"{LIST}{acme.pk}/delete/").content.decode()
    assert "acme&#x27;: it has 3 jobs; delete them first" in page
    asked = {"action": "delete_selected", "_selected_action": [acme.pk, free.pk], "post": "yes"}
    assert "it has 3 jobs; delete them first" in admin_client.post(LIST, asked).content.decode()
    assert Tenant.objects.filter(slug__in=["acme", "free"]).count() == 2

    acme.jobs.all().delete()
    assert admin_client.post(f"{LIST}{acme.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not Tenant.objects.filter(slug="acme").exists()


@pytest.mark.parametrize(
    ("task", "is_known"),
    [("shop.tasks.mial", False), ("shop.tasks.mail", True), ("shop.tasks.export", True), ("celery.chord", True)],
)
def test_a_limit_of_a_task_that_nobody_knows_is_saved_and_said(task: str, is_known: bool, admin_client: Client):
    acme = Tenant.objects.create(slug="acme")
    WorkerTask.objects.create(name="shop.tasks.mail", is_guarded=True, seen_at=timezone.now())
    Job.objects.cron("shop.tasks.export", "0 6 * * *", tenant=acme)
    limit = {"limits-TOTAL_FORMS": "1", "limits-INITIAL_FORMS": "0", "limits-0-tenant": str(acme.pk)}
    limit |= {"limits-0-task": task, "limits-0-rate_per_s": "5", "limits-0-burst": "1"}
    values = {"weight": "1", "burst": "1"} | limit
    page = admin_client.post(f"{LIST}{acme.pk}/change/", values, follow=True)
    said = [str(message) for message in page.context["messages"] if message.level_tag == "warning"]
    assert said == ([] if is_known else [
        "task 'shop.tasks.mial': no worker has registered a task of this name, and no job of acme runs one; its limit"
        " limits nothing until then"
    ])  # fmt: skip
    assert acme.limits.get().task == task
