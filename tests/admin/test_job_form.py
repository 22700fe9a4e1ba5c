"""The form of a job: what it makes, what it refuses and where it says so, and what it leaves alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from fairness.models import Tenant
from scheduling.models import Job, JobClock

pytestmark = pytest.mark.django_db

ADD = "/admin/scheduling/job/add/"


def form(client: Client, url: str = ADD, **values: Any) -> Any:
    """Post what the page at ``url`` would post, with these values filled in."""
    bound = client.get(url).context["adminform"].form
    data: dict[str, Any] = {}
    for name, field in bound.fields.items():
        widget = getattr(field.widget, "widget", field.widget)
        value = field.prepare_value(bound.get_initial_for_field(field, name))
        shown = widget.get_context(name, value, {})["widget"]
        for part in shown.get("subwidgets", [shown]):
            value = part["value"]
            data[part["name"]] = "" if value is None else value[0] if isinstance(value, list) else value
    return client.post(url, data | values)


def new(client: Client, **values: Any) -> Any:
    tenant = Tenant.objects.get(slug="default").pk
    filled: dict[str, Any] = {"tenant": tenant, "name": "report", "task": "t", "cron": "0 6 * * *"}
    return form(client, **filled | values)


def errors(answer: Any) -> dict[str, list[str]]:
    assert answer.status_code == 200, "it was accepted"
    found: dict[str, list[str]] = answer.context["adminform"].form.errors
    return found


def test_a_cron_job_is_made_and_planned(admin_client: Client):
    assert new(admin_client, tz="Europe/Paris", kwargs='{"a": 1}').status_code == 302

    job = Job.objects.get()
    assert (job.cron, job.tz, job.args, job.kwargs) == ("0 6 * * *", "Europe/Paris", [], {"a": 1})
    assert job.next_scheduled_for is not None


@pytest.mark.parametrize(
    ("typed", "every"), [("1h30m", 5400), ("500ms", 0.5), ("00:00:20", 20), ("2 00:00:00", 172_800)]
)
def test_an_interval_is_typed_as_people_write_it_and_counts_from_now(typed: str, every: float, admin_client: Client):
    assert new(admin_client, kind="interval", every=typed, cron="").status_code == 302

    job = Job.objects.get()
    assert job.every == timedelta(seconds=every)
    assert job.anchor is not None
    assert JobClock.objects.now() - job.anchor < timedelta(minutes=1)


def test_a_single_instant_is_made(admin_client: Client):
    assert new(admin_client, kind="once", at_0="2030-01-02", at_1="03:04:05", cron="").status_code == 302

    assert Job.objects.get().at == datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"cron": "61 * * * *"}, "cron", "minute '61' at character 1: is not in 0-59"),
        ({"cron": "0 6/2 * * *"}, "cron", "write 6-23/2"),
        ({"cron": "0 0 30 2 *"}, "cron", "never fires"),
        ({"cron": ""}, "cron", "has 0 fields"),
        ({"tz": "Europe/Pari"}, "tz", "Europe/Paris"),
        ({"kind": "interval", "every": ""}, "every", "is needed"),
        ({"kind": "interval", "every": "1ms"}, "every", "shorter than 100 ms"),
        ({"kind": "interval", "every": "5x5s"}, "every", "unit 'x'"),
        ({"kind": "once"}, "at", "is needed"),
        ({"args": '{"a": 1}'}, "args", "is not a list"),
        ({"kwargs": "[1]"}, "kwargs", "is not an object"),
        ({"kwargs": "{oops"}, "kwargs", "valid JSON"),
        ({"args": '["' + "x" * 300_000 + '"]'}, "args", "more than 262144"),
        ({"task": ""}, "task", "required"),
        ({"jitter": "-00:00:01"}, "jitter", "negative"),
        ({"misfire_grace_s": "0"}, "misfire_grace_s", "is not above 0"),
        ({"hard_timeout_s": "1", "soft_timeout_s": "2"}, "soft_timeout_s", "is above hard_timeout_s"),
        ({"retry_base": "2h"}, "retry_cap", "is below"),
        ({"buffer_limit": "99999999999"}, "buffer_limit", "2147483647"),
        ({"overlap": "sometimes"}, "overlap", "not one of the available choices"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_a_refusal_stands_at_its_field(values: dict[str, str], field: str, words: str, admin_client: Client):
    found = errors(new(admin_client, **values))

    assert list(found) == [field]
    assert words in " ".join(found[field])
    assert not Job.objects.exists()


def test_a_name_that_the_tenant_has_already_is_refused_at_the_name(admin_client: Client):
    new(admin_client)

    assert errors(new(admin_client)) == {"name": ["This tenant has a job of this name already."]}
    assert new(admin_client, name="").status_code == 302


def test_an_edit_changes_what_was_changed(admin_client: Client):
    new(admin_client)
    job = Job.objects.get()
    form(admin_client, reverse("admin:scheduling_job_change", args=[job.pk]), cron="0 7 * * *")

    job.refresh_from_db()
    assert (job.cron, job.schedule_version) == ("0 7 * * *", 2)


def test_saving_without_a_change_edits_no_schedule_to_the_microsecond(admin_client: Client):
    anchor = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    job = Job.objects.every(
        "t", timedelta(microseconds=1_234_567), anchor=anchor, name="odd", kwargs={"b": 1, "a": [2.0]}
    )
    before: dict[str, Any] = dict(Job.objects.values().get())
    answer = form(admin_client, reverse("admin:scheduling_job_change", args=[job.pk]), description="new words")

    assert answer.status_code == 302
    after: dict[str, Any] = dict(Job.objects.values().get())
    assert {name for name in before if before[name] != after[name]} == {"description", "updated_at"}


def test_a_tenants_slug_and_class_of_history_are_fixed_once_it_is_made(admin_client: Client):
    rest = {"burst": "1", "limits-TOTAL_FORMS": "0", "limits-INITIAL_FORMS": "0"}
    given = {"slug": "acme", "weight": "2", "history_days": "7"}
    made = admin_client.post("/admin/fairness/tenant/add/", given | rest)
    tenant = Tenant.objects.get(slug="acme")
    assert (made.status_code, tenant.history_days) == (302, 7)
    edit = reverse("admin:fairness_tenant_change", args=[tenant.pk])
    admin_client.post(edit, {"slug": "other", "weight": "3", "history_days": "90"} | rest)

    tenant.refresh_from_db()
    assert (tenant.slug, tenant.weight, tenant.history_days) == ("acme", 3, 7)
