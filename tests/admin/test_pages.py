"""Every page of the admin: it answers, in a bounded number of queries, however many rows there are."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from fairness.models import Tenant
from scheduling.core.definition import JobDefinition
from scheduling.models import Fire, Job, JobRun, Node, Shard
from tests.ledger_rows import add_fire, add_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def filled() -> None:
    """Two tenants, jobs of each kind, fires in each state that has a page of its own, runs, and a living node."""
    for slug in ("acme", "zen"):
        tenant = Tenant.objects.create(slug=slug)
        cron = Job.objects.cron("t", "0 6 * * *", tz="Europe/Paris", name=f"{slug} report", tenant=tenant)
        Job.objects.every("t", timedelta(minutes=90), name=f"{slug} poll", tenant=tenant)
        Job.objects.once("t", timezone.now() + timedelta(hours=1), tenant=tenant)
        for minute, state in enumerate(["succeeded", "running", "skipped", "dead", "parked"]):
            fire = add_fire(cron, timezone.now() - timedelta(minutes=minute), state=state)
            add_run(fire)
    now = timezone.now()
    node = Node.objects.create(id="n1", started_at=now, lease_until=now + timedelta(minutes=1))
    Shard.objects.filter(id__lt=8).update(owner=node, epoch=3)


def changelist(model: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def change(row: Any) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])


@pytest.mark.parametrize("model", [Tenant, Job, Fire, JobRun, Node, Shard], ids=lambda model: model.__name__)
def test_lists_and_pages_answer_in_bounded_queries(
    model: Any, filled: None, admin_client: Client, django_assert_max_num_queries: Callable[..., Any]
):
    with django_assert_max_num_queries(12):
        page = admin_client.get(changelist(model))
    assert page.status_code == 200
    with django_assert_max_num_queries(18):
        page = admin_client.get(change(model.objects.all()[0]))
    assert page.status_code == 200


def test_jobs_that_do_not_fit_on_one_page_are_on_the_next(admin_client: Client):
    tenant = Tenant.objects.create(slug="acme")
    Job.objects.copy((JobDefinition.cron_job("t", "0 6 * * *", name=f"{n}") for n in range(101)), tenant=tenant)
    for page, shown in ((1, 100), (2, 1)):
        answer = admin_client.get(changelist(Job), {"p": page})
        assert answer.status_code == 200
        assert len(answer.context["cl"].result_list) == shown
    assert "06:00" in answer.content.decode()


@pytest.mark.parametrize("model", [Job, Fire, JobRun], ids=lambda model: model.__name__)
def test_a_list_takes_as_many_queries_for_many_rows_as_for_one(model: Any, admin_client: Client):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert admin_client.get(changelist(model)).status_code == 200
        return len(captured)

    counts = []
    for number in (1, 20):
        for n in range(number):
            job = Job.objects.cron("t", "0 6 * * *", name=f"{number} {n}")
            add_run(add_fire(job, timezone.now(), state="succeeded"))
        counts.append(queries())
    assert counts[0] == counts[1]


def test_the_add_pages_of_jobs_and_tenants_answer(admin_client: Client):
    for model in ("scheduling_job", "fairness_tenant"):
        assert admin_client.get(reverse(f"admin:{model}_add")).status_code == 200


def test_the_lists_of_the_fleet_say_who_lives_and_which_shard_is_behind(filled: None, admin_client: Client):
    Job.objects.filter(pk=Job.objects.earliest("id").pk).update(
        next_fire_at=timezone.now() - timedelta(seconds=20), shard_id=9
    )
    shards = admin_client.get(changelist(Shard)).content.decode()
    assert len(re.findall(r'field-lag">0\.0 s<', shards)) == 63
    assert len(re.findall(r'field-lag">2\d\.\d s<', shards)) == 1
    assert re.findall(r'field-lease_left">(5\d|60)\.\d s<', admin_client.get(changelist(Node)).content.decode())


def test_the_index_answers(admin_client: Client):
    assert admin_client.get("/admin/").status_code == 200
    assert admin_client.get("/").status_code == 302


@pytest.mark.parametrize("model", [Fire, JobRun, Node, Shard], ids=lambda model: model.__name__)
def test_what_the_machine_writes_cannot_be_added_changed_or_deleted(model: Any, filled: None, admin_client: Client):
    row = model.objects.all()[0]
    before = list(model.objects.values())
    base = f"admin:{row._meta.app_label}_{row._meta.model_name}"

    assert admin_client.get(reverse(f"{base}_add")).status_code == 403
    assert admin_client.post(reverse(f"{base}_add"), {"state": "succeeded"}).status_code == 403
    assert admin_client.post(change(row), {"state": "succeeded", "epoch": 99, "region": "x"}).status_code == 403
    assert admin_client.post(reverse(f"{base}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
    deletion = {"action": "delete_selected", "_selected_action": str(row.pk), "post": "yes"}
    admin_client.post(changelist(model), deletion)
    assert list(model.objects.values()) == before


def test_the_list_of_jobs_says_when_in_the_jobs_zone_and_in_utc(admin_client: Client):
    Job.objects.cron("t", "0 6 1 1 *", tz="America/New_York", name="new year")
    Job.objects.every("t", timedelta(minutes=90), name="poll")
    page = admin_client.get(changelist(Job)).content.decode()

    assert "At 06:00, on day 1 of the month, in January, America/New_York" in page
    assert "-01-01 06:00:00 EST<br>" in page
    assert "-01-01 11:00:00 UTC" in page
    assert "Every 1 hour 30 minutes, counted from " in page


def test_the_list_of_jobs_finds_names_by_their_beginning(filled: None, admin_client: Client):
    page = admin_client.get(changelist(Job), {"q": "acme rep"}).content.decode()

    assert "acme report" in page
    assert "acme poll" not in page
    assert "0 jobs" in admin_client.get(changelist(Job), {"q": "report"}).content.decode()


@pytest.mark.parametrize(
    ("query", "expected"),
    [({"tenant": "zen"}, 3), ({"kind__exact": "interval"}, 2), ({"lane__exact": "bulk"}, 6), ({"tenant": "nobody"}, 0)],
)
def test_the_list_of_jobs_filters(query: dict[str, str], expected: int, filled: None, admin_client: Client):
    assert admin_client.get(changelist(Job), query).context["cl"].result_count == expected


def test_jobs_of_the_code_are_told_from_those_made_by_hand(admin_client: Client):
    Job.objects.cron("t", "0 6 * * *", name="by hand")
    job = Job.objects.cron("t", "0 6 * * *", name="of the code")
    Job.objects.filter(pk=job.pk).update(origin="code")

    for origin, name in (("code", "of the code"), ("", "by hand")):
        found = admin_client.get(changelist(Job), {"origin__exact": origin}).context["cl"].result_list
        assert [job.name for job in found] == [name]
    assert "made by an entry of a Celery app" in admin_client.get(change(job)).content.decode()


@pytest.mark.parametrize(
    ("change_of", "word"),
    [
        ({"paused_at": timezone.now()}, "paused"),
        ({"problem": "cron '…' cannot be read"}, "broken"),
        ({"next_scheduled_for": None, "next_fire_at": None}, "finished"),
        ({}, "active"),
    ],
)
def test_the_list_of_jobs_says_their_state(change_of: dict[str, Any], word: str, admin_client: Client):
    Job.objects.cron("t", "0 6 * * *", name="report")
    if change_of:
        Job.objects.update(**change_of)

    assert f'<td class="field-state">{word}</td>' in admin_client.get(changelist(Job)).content.decode()


def test_a_deleted_job_is_hidden_and_its_fires_still_name_it(admin_client: Client):
    job = Job.objects.cron("t", "0 6 * * *", name="report")
    fire = add_fire(job, timezone.now(), state="succeeded")
    answer = admin_client.post(reverse("admin:scheduling_job_delete", args=[job.pk]), {"post": "yes"})

    assert answer.status_code == 302
    job.refresh_from_db()
    assert job.deleted_at is not None
    assert "0 jobs" in admin_client.get(changelist(Job)).content.decode()
    assert admin_client.get(change(job)).status_code == 302
    assert "report (deleted)" in admin_client.get(change(fire)).content.decode()


def test_job_fire_and_run_lead_to_each_other(admin_client: Client):
    job = Job.objects.cron("t", "0 6 * * *", name="report")
    fire = add_fire(job, timezone.now(), state="succeeded")
    run = add_run(fire)

    assert change(fire) in admin_client.get(change(job)).content.decode()
    of_fire = admin_client.get(change(fire)).content.decode()
    assert change(job) in of_fire
    assert change(run) in of_fire
    of_run = admin_client.get(change(run)).content.decode()
    assert change(job) in of_run
    assert change(fire) in of_run


def test_the_fires_of_a_job_can_be_listed_over_all_days(admin_client: Client):
    job, other = Job.objects.cron("t", "0 6 * * *", name="a"), Job.objects.cron("t", "0 6 * * *", name="b")
    add_fire(job, timezone.now(), state="succeeded")
    add_fire(job, timezone.now() - timedelta(days=3), state="succeeded")
    add_fire(other, timezone.now(), state="succeeded")

    def listed(**query: str) -> int:
        count: int = admin_client.get(changelist(Fire), query).context["cl"].result_count
        return count

    assert listed() == 2
    assert listed(when="week") == 3
    assert listed(when="all", job__id__exact=str(job.pk)) == 2
    assert listed(when="nonsense") == 2


def test_the_list_of_fires_reads_the_last_day_only(admin_client: Client):
    job = Job.objects.cron("t", "0 6 * * *", name="a")
    for day in range(5):
        add_fire(job, timezone.now() - timedelta(days=day), state="succeeded")
    with CaptureQueriesContext(connection) as captured:
        admin_client.get(changelist(Fire))

    reads = [query["sql"] for query in captured if 'FROM "scheduling_fire"' in query["sql"]]
    assert reads
    for read in reads:
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN " + read)
            plan = "\n".join(line for (line,) in cursor)
        assert plan.count("scheduling_fire_30_") <= 4, plan  # two days: their tables, by their indexes or not


@pytest.mark.parametrize("kind", [add_fire, lambda *a, **k: add_run(add_fire(*a, **k))], ids=["fire", "run"])
def test_one_row_of_history_is_read_from_one_partition(kind: Callable[..., Any], admin_client: Client):
    job = Job.objects.cron("t", "0 6 * * *", name="a")
    rows = [kind(job, timezone.now() - timedelta(days=day), state="succeeded") for day in range(3)]
    table = rows[0]._meta.db_table
    with CaptureQueriesContext(connection) as captured:
        assert admin_client.get(change(rows[1])).status_code == 200

    [read] = [q["sql"] for q in captured if f'FROM "{table}"' in q["sql"] and f'"{table}"."id" =' in q["sql"]]
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN (FORMAT JSON) " + read)
        plan = str(cursor.fetchone())
    assert {name for name in (f"{table}_30_{row.scheduled_for:%Y%m%d}" for row in rows) if name in plan} == {
        f"{table}_30_{rows[1].scheduled_for:%Y%m%d}"
    }


@pytest.mark.parametrize(
    "key", ["nonsense", "ffffffff-ffff-8fff-bfff-ffffffffffff", "00000000-0000-8000-8000-000000000000"]
)
@pytest.mark.parametrize("model", ["fire", "jobrun"])
def test_an_id_of_nothing_leads_back_to_the_index(model: str, key: str, admin_client: Client):
    answer = admin_client.get(reverse(f"admin:scheduling_{model}_change", args=[key]))

    assert (answer.status_code, answer["Location"]) == (302, "/admin/")


def test_a_list_beyond_the_exact_bound_is_estimated(monkeypatch: pytest.MonkeyPatch, admin_client: Client):
    monkeypatch.setattr("scheduling.admin.paging.EXACT_UP_TO", 5)
    for n in range(8):
        Job.objects.cron("t", "0 6 * * *", name=f"job {n}")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE scheduling_job")
    with CaptureQueriesContext(connection) as captured:
        page = admin_client.get(changelist(Job))

    assert page.context["cl"].result_count == 8
    assert all("LIMIT 6" in query["sql"] for query in captured if "COUNT(*)" in query["sql"])
