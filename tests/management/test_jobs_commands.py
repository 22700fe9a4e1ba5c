"""The commands pause, resume, run_now and backfill: what they print, and how they refuse."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError

from fairness.models import Tenant
from scheduling.models import Fire, Job, JobClock
from tests.ledger_rows import add_fire

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.fixture
def job() -> Job:
    JobClock.objects.create(job_origin=NOON)
    acme = Tenant.objects.create(slug="acme")
    return Job.objects.cron("t", "0 * * * *", name="a/report", tenant=acme, tz="America/New_York")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> str:
        call_command(*words)
        return capsys.readouterr().out

    return run


def test_pause_and_resume_by_name_and_by_id(job: Job, call: Any) -> None:
    add_fire(job, NOON - timedelta(minutes=1))
    out = call("pause", "acme/a/report", "--reason", "a release", "--by", "anna")
    assert out == "paused: jobs 1, fires that had not started and are skipped 1\n"
    job.refresh_from_db()
    assert (job.paused_by, job.pause_reason, job.paused_until) == ("anna", "a release", None)

    out = call("resume", str(job.pk), "--catch-up", "latest")
    assert out == "resumed: jobs 1, fires that come back 1\n"


def test_pause_until_a_time_in_the_jobs_zone_and_by_the_user_of_the_session(job: Job, call: Any) -> None:
    out = call("pause", "acme/a/report", "--reason", "x", "--until", "2026-03-11T09:00", "--catch-up", "all", "--json")
    assert json.loads(out) == {"jobs": 1, "skipped": 0}
    job.refresh_from_db()
    assert (job.paused_until, job.catch_up) == (datetime(2026, 3, 11, 13, tzinfo=UTC), "all")
    assert job.paused_by


def test_resume_says_what_is_left_to_a_node(job: Job, call: Any) -> None:
    call("pause", "acme/a/report", "--reason", "x")
    Job.objects.update(next_fire_at=NOON - timedelta(hours=1))
    assert "for 1 of the jobs a node first records" in call("resume", "acme/a/report")


def test_run_now_prints_the_fire_of_each_job_and_runs_one_request_once(job: Job, call: Any) -> None:
    Job.objects.cron("t", "0 * * * *", name="b", tenant="acme")
    out = call("run_now", "acme/a/report", "acme/b", "--request", "r1", "--json")
    assert {one["fire_id"] for one in json.loads(out)} == {str(pk) for pk in Fire.objects.values_list("pk", flat=True)}
    again = call("run_now", "acme/a/report", "--request", "r1")
    assert again.startswith("acme/a/report: fire ")
    assert again.endswith(" (this request was made before)\n")
    assert Fire.objects.count() == 2


def test_backfill_counts_first_and_makes_then(job: Job, call: Any) -> None:
    days = ("backfill", "acme/a/report", "--from", "2026-03-08", "--until", "2026-03-08")
    out = call(*days, "--dry-run")
    assert out == (
        "23 occurrences, from 2026-03-08 00:00:00-05:00 to 2026-03-08 23:00:00-04:00 (dry run: nothing was made)\n"
    )
    told = json.loads(call(*days, "--dry-run", "--json"))
    assert (told["count"], told["excluded"], told["first"]) == (23, 0, "2026-03-08T05:00:00+00:00")
    assert not Fire.objects.exists()

    out = call(*days, "--request", "r1", "--rate", "2", "--overlap", "allow")
    assert out.endswith("; made 23 fires, origin backfill:r1\n")
    assert Fire.objects.filter(origin="backfill:r1", exclusive=False).count() == 23
    assert json.loads(call(*days, "--request", "r1", "--json"))["made"] == 0


def test_a_backfill_of_nothing_says_so(job: Job, call: Any) -> None:
    assert call("backfill", "acme/a/report", "--from", "2026-03-08T00:01", "--until", "2026-03-08T00:02").startswith(
        "no occurrences; made 0 fires"
    )


REASON = ["--reason", "x"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["pause", "acme/none", *REASON], "job 'acme/none': there is no such job"),
        (["pause", "nonsense", *REASON], "job 'nonsense': is neither TENANT/NAME nor an id"),
        (["pause", "acme/a/report"], "--reason"),
        (["pause", "acme/a/report", "--reason", ""], "reason '': is needed"),
        (["pause", "acme/a/report", *REASON, "--until", "soon"], "until 'soon': is not a day such as"),
        (["pause", "acme/a/report", *REASON, "--until", "2026-03-10T07:59"], "is not in the future"),
        (["pause", "acme/a/report", *REASON, "--catch-up", "some"], "catch_up 'some': is not one of none, latest, all"),
        (["resume", "acme/a/report", "--catch-up", "some"], "catch_up 'some'"),
        (["resume", "acme/a/report", "--by", " "], "by ' ': is needed"),
        (["run_now", "acme/a/report", "--request", ""], "request '': is needed"),
        (["backfill", "acme/a/report", "--from", "x", "--until", "2026-03-08"], "from 'x': is not a day"),
        (["backfill", "acme/a/report", "--from", "2026-03-09", "--until", "2026-03-08"], "until .*is before the start"),
        (["backfill", "acme/a/report", "--from", "2020-01-01", "--until", "2026-03-08"], "more than 366 days"),
        (["backfill", "acme/a/report", "--from", "2026-03-09", "--until", "2026-03-09", "--rate", "x"], "rate 'x'"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_errors_are_one_sentence_and_change_nothing(job: Job, words: list[str], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        call_command(*words)
    job.refresh_from_db()
    assert (job.paused_at, Fire.objects.exists()) == (None, False)


def test_jobs_of_several_zones_need_an_offset_and_one_bad_name_pauses_none(job: Job, call: Any) -> None:
    Job.objects.cron("t", "0 * * * *", name="b", tenant="acme")
    both = ["pause", "acme/a/report", "acme/b", "--reason", "x"]
    with pytest.raises(CommandError, match="these jobs have several; give its offset"):
        call_command(*both, "--until", "2026-03-11")
    with pytest.raises(CommandError, match="there is no such job"):
        call_command("pause", "acme/a/report", "acme/c", "--reason", "x")
    assert not Job.objects.exclude(paused_at=None).exists()
    assert call(*both, "--until", "2026-03-11T00:00Z").startswith("paused: jobs 2")


def test_a_database_that_refuses_is_named_in_a_sentence(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OperationalError("deadlock detected\nDETAIL: Process 1 waits")

    monkeypatch.setattr("scheduling.management.commands.resume.resume", refuse)
    with pytest.raises(CommandError, match="^nothing was done, the database refused: deadlock detected$"):
        call_command("resume", "acme/a/report")
