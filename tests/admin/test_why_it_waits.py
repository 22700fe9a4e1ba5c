"""Why is it waiting: the pages of jobs and of fires say the same as the command."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from scheduling.models import Job, Node, Shard
from tests.fires import make_fire

pytestmark = pytest.mark.django_db


@pytest.fixture
def job() -> Job:
    """Its node lives."""
    now = timezone.now()
    node = Node.objects.create(id="n1", started_at=now, lease_until=now + timedelta(minutes=5))
    Shard.objects.update(owner=node)
    return Job.objects.cron("t", "0 6 * * *", name="report")


def test_the_page_of_a_fire_says_why_it_waits_in_the_words_of_the_command(
    job: Job, admin_client: Client, capsys: pytest.CaptureFixture[str]
):
    now = timezone.now()
    wake_at = now + timedelta(seconds=30)
    fire = make_fire(job, now - timedelta(minutes=1), state="parked", reason="share", wake_at=wake_at)
    page = admin_client.get(f"/admin/scheduling/fire/{fire.pk}/change/").content.decode()
    assert "<strong>share</strong>: waits for default&#x27;s share of the workers in the bulk lane" in page
    call_command("explain", "--fire", str(fire.pk))
    assert "waits for default's share of the workers in the bulk lane" in capsys.readouterr().out


def test_the_page_of_a_fire_that_is_over_has_nothing_to_explain(job: Job, admin_client: Client):
    now = timezone.now()
    fire = make_fire(job, now, state="succeeded", attempt=1, started_at=now, finished_at=now)
    page = admin_client.get(f"/admin/scheduling/fire/{fire.pk}/change/").content.decode()
    assert "why is it waiting" in page.lower()
    assert "<strong>over" not in page


def test_the_page_of_a_job_says_what_is_next_and_why_its_fires_wait(job: Job, admin_client: Client):
    now = timezone.now()
    make_fire(job, now - timedelta(minutes=1), state="parked", reason="turn", wake_at=now + timedelta(seconds=5))
    page = admin_client.get(f"/admin/scheduling/job/{job.pk}/change/").content.decode()
    assert "<strong>not due</strong>: due at " in page
    assert "<strong>turn</strong>: the broker has refused" in page


def test_the_page_of_a_paused_job_says_by_whom_and_why(job: Job, admin_client: Client):
    call_command("pause", "default/report", "--reason", "audit", "--by", "ada")
    page = admin_client.get(f"/admin/scheduling/job/{job.pk}/change/").content.decode()
    assert "<strong>paused</strong>: paused by ada until someone resumes it: audit" in page
