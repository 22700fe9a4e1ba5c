"""Schedules in words, what comes next, doubts, and calendars: as the admin shows and takes them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from fairness.models import Tenant
from scheduling.models import Calendar, Job, JobClock
from tests.admin.test_job_form import errors, form, new
from tests.store.backends import put_in_bucket

pytestmark = pytest.mark.django_db

ADD = "/admin/scheduling/calendar/add/"


def page_of(client: Client, row: Any) -> str:
    url = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
    return re.sub(r"\s+", " ", client.get(url).content.decode())


def test_the_page_of_a_job_shows_its_schedule_in_words_and_the_next_fires_with_marks(admin_client: Client) -> None:
    JobClock.objects.create(job_origin=datetime(2026, 3, 7, 12, tzinfo=UTC), real_origin=None)
    calendar = Calendar.objects.create(name="holidays", days=[date(2026, 3, 9)])
    job = Job.objects.cron("t", "30 2 * * *", tz="America/New_York", calendar=calendar)
    page = page_of(admin_client, job)
    assert "At 02:30, every day, America/New_York" in page
    assert "<li>Sun 2026-03-08 03:00:00 EDT, 2026-03-08 07:00:00 UTC: gap, stands for 2026-03-08 02:30:00</li>" in page
    assert "<li>Mon 2026-03-09 02:30:00 EDT, 2026-03-09 06:30:00 UTC: excluded</li>" in page
    assert page.count(" EDT, 2026-") == 6


def test_a_job_of_the_buckets_is_active_and_shows_its_next_run(admin_client: Client) -> None:
    JobClock.objects.create(job_origin=datetime(2026, 3, 7, 12, tzinfo=UTC), real_origin=None)
    job = Job.objects.cron("t", "30 9 * * *", tz="Europe/Paris")
    put_in_bucket(Job.objects.get(pk=job.pk))
    for page in (page_of(admin_client, job), admin_client.get("/admin/scheduling/job/").content.decode()):
        assert "Sun 2026-03-08 09:30:00 CET<br>2026-03-08 08:30:00 UTC" in page
        assert "active" in page


def test_the_list_shows_the_next_run_of_each_job_wherever_it_is_kept(admin_client: Client) -> None:
    JobClock.objects.create(job_origin=datetime(2026, 3, 7, 12, tzinfo=UTC), real_origin=None)
    for name, minute in (("row", 1), ("entry", 2), ("edited entry", 3)):
        Job.objects.cron("t", f"{minute} 9 * * *", name=name)
    for job in Job.objects.filter(name__endswith="entry"):
        put_in_bucket(job)
    Job.objects.filter(name="edited entry").update(cron="0 6 * * *")
    Job.objects.cron("t", "0 6 * * *", name="over", end_at=datetime(2026, 3, 7, 13, tzinfo=UTC))

    html = admin_client.get("/admin/scheduling/job/").content.decode()
    names, runs = (re.findall(rf'class="field-{field}">(?:<a [^>]*>)?([^<]*)', html) for field in ("named", "next_run"))
    assert dict(zip(names, runs, strict=True)) == {
        "row": "2026-03-08 09:01:00 UTC",
        "entry": "2026-03-08 09:02:00 UTC",
        "edited entry": "is being planned",
        "over": "-",
    }


def test_a_schedule_that_cannot_be_read_is_shown_as_it_is_stored(admin_client: Client) -> None:
    job = Job.objects.cron("t", "0 9 * * *", tz="Europe/Paris")
    Job.objects.update(cron="61 9 <b>* * *", tz="Mars/Olympus")
    page = page_of(admin_client, job)
    assert "cron 61 9 &lt;b&gt;* * * (Mars/Olympus)" in page
    assert "cannot be scheduled: " in page
    assert "cron 61 9 &lt;b&gt;* * * (Mars/Olympus)" in admin_client.get("/admin/scheduling/job/").content.decode()


def test_a_doubtful_schedule_is_saved_with_a_warning(admin_client: Client) -> None:
    def warnings(answer: Any) -> list[str]:
        return [str(message) for message in get_messages(answer.wsgi_request) if message.level_tag == "warning"]

    assert warnings(new(admin_client)) == []
    answer = new(admin_client, name="odd", cron="*/7 * * * *")
    assert warnings(answer) == ["minute */7 is uneven: from 56 to the next 0 it is 4, not 7"]
    assert Job.objects.count() == 2


def test_a_rule_with_bounds_is_typed_on_the_page(admin_client: Client) -> None:
    answer = new(
        admin_client, kind="rrule", cron="", rrule="FREQ=WEEKLY;BYDAY=MO", dtstart_0="2026-01-01", dtstart_1="09:00:00",
        start_at_0="2030-01-01", start_at_1="00:00:00", max_runs="3", gap="skip", fold="both",
    )  # fmt: skip
    assert answer.status_code == 302
    job = Job.objects.get()
    assert (job.max_runs, job.gap, job.fold) == (3, "skip", "both")
    assert job.next_scheduled_for == datetime(2030, 1, 7, 9, tzinfo=UTC)
    found = errors(new(admin_client, name="x", kind="rrule", cron="", rrule="FREQ=SECONDLY"))
    assert list(found) == ["rrule"]


def test_another_tenants_calendar_is_refused_at_its_field(admin_client: Client) -> None:
    foreign = Calendar.objects.create(name="theirs", tenant=Tenant.objects.create(slug="acme"))
    assert errors(new(admin_client, calendar=foreign.pk)) == {"calendar": ["This calendar belongs to another tenant."]}
    assert new(admin_client, calendar=Calendar.objects.create(name="shared").pk).status_code == 302


# -- calendars ------------------------------------------------------------------------------------------------------


def test_a_calendar_is_typed_in_and_listed(admin_client: Client) -> None:
    hours = '[{"begins": "22:00", "ends": "06:00", "weekdays": [5, 6]}]'
    answer = form(admin_client, ADD, name="quiet", tz="Europe/Paris", days="2026-12-25, 2026-12-26", hours=hours)
    assert answer.status_code == 302
    calendar = Calendar.objects.get()
    assert calendar.days == [date(2026, 12, 25), date(2026, 12, 26)]
    assert "22:00 to 06:00" in admin_client.get("/admin/scheduling/calendar/").content.decode()
    assert "2026-12-25" in page_of(admin_client, calendar)
    assert form(admin_client, ADD, name="empty", hours="").status_code == 302
    assert Calendar.objects.get(name="empty").hours == []


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"name": ""}, "name", "required"),
        ({"tz": "Europe/Pari"}, "tz", "Europe/Paris"),
        ({"days": "25 December"}, "days", "valid date"),
        ({"hours": "{oops"}, "hours", "valid JSON"),
        ({"hours": '{"begins": "1"}'}, "hours", "is not a list"),
        ({"hours": '[{"begins": "25:00", "ends": "06:00"}]'}, "hours", "is not a time such as 22:00"),
        ({"hours": '[{"begins": "22:00", "ends": "06:00", "weekdays": [0]}]'}, "hours", "weekdays [0]"),
        ({"hours": '[{"begins": "22:00", "ends": "06:00", "wekdays": [1]}]'}, "hours", "is not like"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_a_refusal_stands_at_its_field(values: dict[str, str], field: str, words: str, admin_client: Client) -> None:
    found = errors(form(admin_client, ADD, **{"name": "quiet", **values}))
    assert list(found) == [field]
    assert words in " ".join(found[field])


def test_a_calendar_cannot_be_taken_from_the_jobs_of_others(admin_client: Client) -> None:
    calendar = Calendar.objects.create(name="shared")
    Job.objects.every("t", timedelta(hours=1), name="poll", calendar=calendar)
    acme = Tenant.objects.create(slug="acme")
    url = reverse("admin:scheduling_calendar_change", args=[calendar.pk])
    assert errors(form(admin_client, url, tenant=acme.pk)) == {
        "tenant": ["The job poll of another tenant uses this calendar."]
    }
    assert form(admin_client, url, tenant=Tenant.objects.get(slug="default").pk).status_code == 302
