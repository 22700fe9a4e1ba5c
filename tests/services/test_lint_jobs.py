"""Doubts about schedules: over all jobs, and where jobs are imported."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import call_command

from fairness.models import Tenant
from scheduling.models import Job
from scheduling.services.import_jobs import import_jobs
from scheduling.services.lint_jobs import lint_jobs

pytestmark = pytest.mark.django_db


def test_every_doubt_about_every_job_is_found_with_its_reason() -> None:
    acme = Tenant.objects.create(slug="acme")
    Job.objects.cron("t", "*/7 * 31 * *", name="odd", tenant=acme)
    Job.objects.cron("t", "0 9 * * *", name="fine", tenant=acme)
    Job.objects.every("t", timedelta(minutes=5))
    nameless = Job.objects.cron("t", "0 9 13 * fri")
    assert [(finding.tenant, finding.name, finding.doubt) for finding in lint_jobs()] == [
        ("acme", "odd", "uneven_step"),
        ("acme", "odd", "short_months"),
        ("default", "", "both_days"),
    ]
    assert str(list(lint_jobs())[2]).startswith(f"default/{nameless.pk}: both_days: ")


def test_a_job_that_cannot_be_scheduled_is_found_as_broken() -> None:
    Job.objects.cron("t", "0 9 * * *", name="sql")
    Job.objects.filter(name="sql").update(tz="Mars/Olympus")
    Job.objects.cron("t", "0 10 * * *", name="aside")
    Job.objects.filter(name="aside").update(problem="calendar 'x': is gone")
    found = {finding.name: (finding.doubt, finding.reason) for finding in lint_jobs()}
    assert found["sql"][0] == "broken"
    assert found["sql"][1].startswith("tz 'Mars/Olympus'")
    assert found["aside"] == ("broken", "calendar 'x': is gone")


def test_the_command_prints_lines_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("lint_jobs", "--json")
    assert json.loads(capsys.readouterr().out) == []
    jobs = [Job.objects.cron("t", "*/7 * * * *", name=name) for name in "ab"]
    call_command("lint_jobs", "--json")
    assert [finding["job"] for finding in json.loads(capsys.readouterr().out)] == [str(job.pk) for job in jobs]
    call_command("lint_jobs")
    assert capsys.readouterr().out.splitlines() == [
        f"default/{name}: uneven_step: minute */7 is uneven: from 56 to the next 0 it is 4, not 7" for name in "ab"
    ]


def test_a_dry_run_of_an_import_warns_and_an_import_does_not() -> None:
    lines = [
        json.dumps({"tenant": "acme", "name": name, "cron": cron, "task": "t"}).encode()
        for name, cron in (("odd", "*/7 * * * *"), ("fine", "0 9 * * *"), ("broken", "61 * * * *"))
    ]
    assert [len(verdict.cautions) for verdict in import_jobs(lines, dry_run=True)] == [1, 0, 0]
    assert [len(verdict.cautions) for verdict in import_jobs(lines)] == [0, 0, 0]


def test_a_schedule_denser_than_its_tenants_rate_is_told() -> None:
    slow = Tenant.objects.create(slug="slow", rate_per_s=0.001)
    Job.objects.cron("shop.charge", "* * * * *", name="dense", tenant=slow)
    Job.objects.cron("shop.charge", "0 9 * * *", name="sparse", tenant=slow)
    Job.objects.cron("shop.charge", "* * * * *", name="elsewhere")
    assert [(finding.name, finding.doubt) for finding in lint_jobs()] == [("dense", "dense")]
