"""The actions on the list of jobs: what they ask, which rows they act on, who may, and that they need no script."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from fairness.models import Tenant
from scheduling.models import Calendar, Fire, Job, JobClock
from scheduling.services.pause import pause
from tests.admin.action_pages import confirm, said
from tests.ledger_rows import add_fire

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
LIST = "/admin/scheduling/job/"
ACTIONS = ["pause_jobs", "resume_jobs", "run_jobs_now", "backfill_job", "cancel_unfinished_runs"]


@pytest.fixture
def jobs() -> list[Job]:
    JobClock.objects.create(job_origin=NOON)
    acme = Tenant.objects.create(slug="acme")
    made = [Job.objects.cron("t", "0 * * * *", name=f"a{n}", tenant=acme, tz="America/New_York") for n in range(3)]
    return [*made, Job.objects.cron("t", "0 * * * *", name="b0")]


def select(client: Client, action: str, *jobs: Job, query: str = "", across: bool = False, **values: Any) -> Any:
    """What the list posts when an action is chosen and Go is clicked."""
    chosen = {"action": action, "index": "0", "select_across": str(int(across))}
    return client.post(LIST + query, {**chosen, "_selected_action": [str(job.pk) for job in jobs], **values})


def paused() -> set[str]:
    return set(Job.objects.exclude(paused_at=None).values_list("name", flat=True))


# -- pause and resume ------------------------------------------------------------------------------------------------


def test_pausing_asks_for_a_reason_and_acts_on_exactly_what_was_selected(jobs: list[Job], admin_client: Client) -> None:
    add_fire(jobs[0], NOON)
    page = select(admin_client, "pause_jobs", jobs[0], jobs[2])
    assert paused() == set()
    for words in ("acme/a0", "acme/a2", "2 jobs", 'name="reason"'):
        assert words in page.content.decode()
    assert "acme/a1" not in page.content.decode()

    again = confirm(admin_client, page)
    assert again.context["form"].errors == {"reason": ["This field is required."]}
    done = confirm(admin_client, again, reason="a release", until="2026-03-11T09:00", catch_up="latest")
    assert said(done) == ["Paused: 2 jobs. Fires that had not started, and are skipped: 1."]
    assert done["Location"] == LIST
    assert paused() == {"a0", "a2"}
    job = Job.objects.get(name="a0")
    assert (job.paused_by, job.pause_reason, job.catch_up) == ("admin", "a release", "latest")
    assert job.paused_until == datetime(2026, 3, 11, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"until": "soon"}, "until", "is not a day such as"),
        ({"until": "2026-03-10"}, "until", "is not in the future"),
        ({"reason": " "}, "reason", "required"),
        ({"reason": "x" * 501}, "reason", "at most 500"),
        ({"catch_up": "some"}, "catch_up", "not one of the available choices"),
    ],
)
def test_a_refusal_stands_at_its_field_and_pauses_nothing(
    jobs: list[Job], admin_client: Client, values: dict[str, str], field: str, words: str
) -> None:
    page = select(admin_client, "pause_jobs", jobs[0])
    answer = confirm(admin_client, page, **{"reason": "x", **values})
    assert list(answer.context["form"].errors) == [field]
    assert words in answer.content.decode()
    assert paused() == set()


def test_a_local_time_for_jobs_of_several_zones_is_refused(jobs: list[Job], admin_client: Client) -> None:
    page = select(admin_client, "pause_jobs", jobs[0], jobs[3])
    answer = confirm(admin_client, page, reason="x", until="2026-03-11")
    assert "these jobs have several; give its offset" in answer.content.decode()
    assert said(confirm(admin_client, answer, reason="x", until="2026-03-11T00:00Z"))[0].startswith("Paused: 2 jobs")


def test_all_that_the_filter_shows_are_acted_on_and_no_others(jobs: list[Job], admin_client: Client) -> None:
    page = select(admin_client, "pause_jobs", jobs[0], query="?tenant=acme&q=a", across=True)
    html = page.content.decode()
    assert "3 jobs" in html
    assert html.count('name="_selected_action"') == 1
    done = confirm(admin_client, page, reason="x")
    assert done["Location"] == f"{LIST}?tenant=acme&q=a"
    assert paused() == {"a0", "a1", "a2"}


def test_a_row_beyond_the_filter_is_not_acted_on_though_its_id_is_sent(jobs: list[Job], admin_client: Client) -> None:
    page = select(admin_client, "pause_jobs", *jobs, query="?tenant=acme")
    confirm(admin_client, page, reason="x")
    assert paused() == {"a0", "a1", "a2"}


@pytest.mark.parametrize(("catch_up", "fires"), [("none", 0), ("latest", 1), ("all", 2)])
def test_resuming_asks_what_to_bring_back(jobs: list[Job], admin_client: Client, catch_up: str, fires: int) -> None:
    for minute in (1, 2):
        add_fire(jobs[0], NOON - timedelta(minutes=minute))
    pause(jobs[:2], reason="x", by="y")
    page = select(admin_client, "resume_jobs", jobs[0])
    assert said(confirm(admin_client, page, catch_up=catch_up)) == [f"Resumed: 1 jobs. Fires that come back: {fires}."]
    assert paused() == {"a1"}


# -- run now and backfill --------------------------------------------------------------------------------------------


def test_running_now_is_confirmed_and_a_second_click_runs_nothing_twice(jobs: list[Job], admin_client: Client) -> None:
    page = select(admin_client, "run_jobs_now", *jobs[:2])
    assert not Fire.objects.exists()
    assert said(confirm(admin_client, page)) == ["Started: 2 jobs, beside their schedules."]
    confirm(admin_client, page)
    assert Fire.objects.filter(origin__startswith="manual:").count() == 2


def test_a_backfill_shows_its_count_first_and_then_makes_it(jobs: list[Job], admin_client: Client) -> None:
    jobs[0].calendar = Calendar.objects.create(name="closed", tz="America/New_York", days=[date(2026, 3, 9)])
    jobs[0].save()
    form = select(admin_client, "backfill_job", jobs[0])
    counted = confirm(admin_client, form, "count", start="2026-03-08", until="2026-03-09", overlap="allow")
    html = counted.content.decode()
    for words in ("23 occurrences", "2026-03-08 00:00:00-05:00", "2026-03-08 23:00:00-04:00", "24 that the calendar"):
        assert words in html
    assert "Run these 23" in html
    assert not Fire.objects.exists()

    done = confirm(admin_client, counted)
    assert said(done) == ["Backfill of a0: 23 fires were made."]
    assert Fire.objects.filter(origin__startswith="backfill:", exclusive=False).count() == 23
    confirm(admin_client, counted)
    assert Fire.objects.count() == 23


def test_a_backfill_whose_count_has_changed_is_shown_again(jobs: list[Job], admin_client: Client) -> None:
    form = select(admin_client, "backfill_job", jobs[0])
    counted = confirm(admin_client, form, "count", start="2026-03-08", until="2026-03-08")
    Job.objects.update(cron="30 * * * *", tz="UTC")
    Job.objects.filter(name="a0").update(cron="*/30 * * * *")
    again = confirm(admin_client, counted)
    assert "Run these 46" in again.content.decode()
    assert not Fire.objects.exists()
    assert said(confirm(admin_client, again)) == ["Backfill of a0: 46 fires were made."]


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"start": "x"}, "start", "is not a day"),
        ({"until": "2026-03-01"}, "until", "is before the start"),
        ({"start": "2020-01-01"}, "until", "more than 366 days"),
        ({"rate_per_s": "fast"}, "rate_per_s", "Enter a number"),
    ],
)
def test_a_backfill_that_cannot_be_is_refused_at_its_field(
    jobs: list[Job], admin_client: Client, values: dict[str, str], field: str, words: str
) -> None:
    form = select(admin_client, "backfill_job", jobs[0])
    answer = confirm(admin_client, form, "count", **{"start": "2026-03-08", "until": "2026-03-08", **values})
    assert list(answer.context["form"].errors) == [field]
    assert words in answer.content.decode()


def test_what_only_the_making_of_a_backfill_refuses_is_shown_too(jobs: list[Job], admin_client: Client) -> None:
    Job.objects.update(overlap="skip")
    form = select(admin_client, "backfill_job", jobs[0])
    counted = confirm(admin_client, form, "count", start="2026-03-08", until="2026-03-08", overlap="allow")
    refused = confirm(admin_client, counted)
    assert "runs of this job may not overlap" in refused.content.decode()
    assert not Fire.objects.exists()


def test_a_backfill_is_of_one_job(jobs: list[Job], admin_client: Client) -> None:
    assert said(select(admin_client, "backfill_job", *jobs[:2])) == ["A backfill is of one job: select one."]


# -- who may, and how ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ACTIONS)
def test_a_viewer_is_offered_none_and_taken_at_none(jobs: list[Job], action: str) -> None:
    viewer = User.objects.create(username="viewer", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_job"))
    client = Client()
    client.force_login(viewer)
    assert action not in client.get(LIST).content.decode()

    values = {"confirmed": "1", "reason": "x", "catch_up": "none", "request": "00000000-0000-4000-8000-000000000000"}
    backfill = {"start": "2026-03-08", "until": "2026-03-08", "overlap": "allow", "rate_per_s": "1", "counted": "24"}
    for index in ({}, {"index": "0"}):
        data = {"action": action, "_selected_action": str(jobs[0].pk), "select_across": "0", **index}
        client.post(LIST, data | values | backfill)
    assert (paused(), Fire.objects.exists()) == (set(), False)


@pytest.mark.parametrize("action", ACTIONS)
def test_the_pages_hold_under_a_strict_content_security_policy(
    jobs: list[Job], admin_client: Client, action: str
) -> None:
    html = select(admin_client, action, jobs[0]).content.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style", html)


def test_a_name_is_never_markup(jobs: list[Job], admin_client: Client) -> None:
    Job.objects.filter(name="a0").update(name="<b>x</b>", pause_reason="<i>y</i>", paused_at=NOON)
    for page in (select(admin_client, "pause_jobs", jobs[0]), admin_client.get(LIST)):
        assert "&lt;b&gt;x" in page.content.decode()
        assert "<b>x" not in page.content.decode()
        assert "<i>y" not in page.content.decode()


def test_a_paused_job_says_so_in_the_list_and_on_its_page(jobs: list[Job], admin_client: Client) -> None:
    pause(jobs[:1], reason="a release", by="anna", until=NOON + timedelta(hours=1), catch_up="all")
    pause(jobs[1:2], reason="an outage", by="ben")
    page = reverse("admin:scheduling_job_change", args=[jobs[0].pk])
    for html in (admin_client.get(LIST).content.decode(), admin_client.get(page).content.decode()):
        assert "since 2026-03-10 12:00:00 UTC by anna<br>a release<br>" in html
        assert (
            "until Tue 2026-03-10 09:00:00 EDT, 2026-03-10 13:00:00 UTC; then what was missed comes back: all" in html
        )
    assert "by ben<br>an outage<br>until someone resumes it" in admin_client.get(LIST).content.decode()
