"""The code's entries and their jobs: what a second sync does, whose change wins, and what becomes of what is gone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from celery.schedules import crontab
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.conf import CodeJobs
from scheduling.models import CodeEntry, Fire, Job
from scheduling.services.pause import pause
from scheduling.services.read_entry import read_schedule
from scheduling.services.resume import resume
from scheduling.services.sync_entries import Change, sync_entries
from tests.ledger_rows import DAY, add_fire

pytestmark = pytest.mark.django_db

Sync = Callable[..., dict[str, list[str]]]


@pytest.fixture
def sync(shop: Any) -> Sync:
    """Sync these entries (name → schedule, or a whole entry); what became of each, and why."""

    def done(app: str = "shop", policy: CodeJobs = CodeJobs.KEEP, **said: Any) -> dict[str, list[str]]:
        entries = {
            name: entry if isinstance(entry, dict) else {"task": "shop.report", "schedule": entry}
            for name, entry in said.items()
        }
        read = read_schedule(shop, entries)
        definitions = {name: entry.definition for name, entry in read.entries.items()}
        verdicts: dict[str, list[str]] = {}
        for verdict in sync_entries(app, definitions, read.refused, policy=policy):
            verdicts.setdefault(verdict.name, []).append(f"{verdict.change} {verdict.detail}".strip())
        return verdicts

    return done


def the_job(name: str = "report") -> Job:
    return Job.objects.get(name=name)


def is_paused(job: Job) -> bool:
    """Without an end: the end of a pause that was resumed is written by the owner of the shard."""
    return job.paused_at is not None and job.paused_until is None


def test_an_entry_becomes_a_planned_job_of_the_default_tenant_and_of_origin_code(sync: Sync) -> None:
    assert sync(report=crontab(minute=0, hour=9)) == {"report": ["new"]}
    job = the_job()
    assert (job.tenant.slug, job.origin, job.task, job.cron, job.tz) == (
        "default", "code", "shop.report", "0 9 * * *", "Europe/Paris",
    )  # fmt: skip
    assert job.next_scheduled_for is not None
    assert Job.objects.cron("t", "* * * * *", name="by hand").origin == ""


def test_a_second_sync_writes_nothing(sync: Sync) -> None:
    said = {"report": crontab(minute="*/5"), "poll": {"task": "t", "schedule": 0.5, "args": (1, (2, 3.5))}}
    sync(**said)
    with CaptureQueriesContext(connection) as queries:
        assert sync(**said) == {"report": ["same"], "poll": ["same"]}
    assert [q["sql"] for q in queries if q["sql"].startswith(("INSERT", "UPDATE", "DELETE"))] == []


def test_a_change_of_the_code_reaches_the_job(sync: Sync) -> None:
    sync(report=60)
    assert sync(report={"task": "shop.plain", "schedule": crontab(minute=0)}) == {
        "report": ["changed schedule, task, limits"]
    }
    job = the_job()
    assert (job.kind, job.every, job.anchor, job.cron, job.task) == ("cron", None, None, "0 * * * *", "shop.plain")


def test_what_a_person_changed_stays_and_the_rest_follows_the_code(sync: Sync) -> None:
    sync(report=60)
    Job.objects.update(every=timedelta(hours=1), overlap="skip")
    [verdict] = sync(report={"task": "shop.report", "schedule": 30, "args": [1]})["report"]

    assert verdict == "changed args; schedule stays as set by hand"
    job = the_job()
    assert (job.every, job.args, job.overlap) == (timedelta(hours=1), [1], "skip")
    assert sync(report={"task": "shop.report", "schedule": 30, "args": [1]}) == {
        "report": ["same schedule stays as set by hand"]
    }


def test_a_person_who_goes_back_to_what_the_code_says_follows_it_again(sync: Sync) -> None:
    sync(report=60)
    Job.objects.update(every=timedelta(hours=1))
    sync(report=30)
    Job.objects.update(every=timedelta(seconds=30))
    sync(report=10)
    assert the_job().every == timedelta(seconds=10)


def test_the_policy_overwrite_brings_everything_that_code_says_back(sync: Sync) -> None:
    sync(report=60)
    Job.objects.update(every=timedelta(hours=1), overlap="skip")
    assert sync(policy=CodeJobs.OVERWRITE, report=60) == {"report": ["changed schedule"]}
    job = the_job()
    assert (job.every, job.overlap) == (timedelta(minutes=1), "skip")


def test_an_entry_that_is_gone_pauses_its_job_once_and_resumes_it_when_it_is_back(sync: Sync) -> None:
    sync(report=60)
    assert sync() == {"report": ["gone its job is paused"]}
    job = the_job()
    assert (job.paused_by, job.pause_reason) == ("beat_schedule of shop", "the code does not have it any more")
    assert sync() == {}

    assert sync(report=30) == {"report": ["changed schedule; resumed"]}
    assert (is_paused(the_job()), the_job().every) == (False, timedelta(seconds=30))
    assert sync() == {"report": ["gone its job is paused"]}
    assert is_paused(the_job())


def test_a_person_may_resume_what_the_code_does_not_have_any_more(sync: Sync) -> None:
    sync(report=60)
    sync()
    resume([the_job()], by="anna")
    assert sync() == {}


def test_a_pause_of_a_person_is_left_alone(sync: Sync) -> None:
    sync(report=60)
    pause([the_job()], reason="a release", by="anna")
    assert sync() == {"report": ["gone its job is paused already"]}
    sync(report=60)
    assert the_job().paused_by == "anna"


def test_an_entry_that_cannot_be_a_job_any_more_pauses_it_and_says_why(sync: Sync) -> None:
    sync(report=60)
    said = sync(report="at dawn")["report"]
    assert [verdict.split()[0] for verdict in said] == ["refused", "gone"]
    assert the_job().pause_reason.startswith("refused: schedule 'at dawn': is none of")


@pytest.mark.parametrize("with_history", [False, True])
def test_a_job_that_a_person_deleted_stays_so_unless_the_policy_or_a_new_entry_says_otherwise(
    sync: Sync, with_history: bool
) -> None:
    sync(report=60)
    if with_history:
        add_fire(the_job(), state="succeeded", attempt=1)
    the_job().delete()
    assert sync(report=60)["report"][0].startswith("deleted a person has deleted its job")
    assert not Job.objects.filter(deleted_at=None).exists()

    assert sync(policy=CodeJobs.OVERWRITE, report=60) == {"report": ["new"]}
    Job.objects.get(deleted_at=None).delete()
    sync()
    assert sync(report=60) == {"report": ["new"]}


def test_a_name_that_another_job_has_is_refused_and_that_job_left_alone(sync: Sync) -> None:
    Job.objects.cron("t", "* * * * *", name="report")
    [verdict] = sync(report=60)["report"]
    assert verdict == "refused there is a job of this name, which is not of this app's code"
    assert (the_job().task, the_job().origin) == ("t", "")


def test_an_app_looks_at_its_own_entries_alone(sync: Sync) -> None:
    sync("shop", report=60)
    assert sync("bank", audit=60) == {"audit": ["new"]}
    assert sync("shop", report=60) == {"report": ["same"]}
    assert not Job.objects.exclude(paused_at=None).exists()


def test_a_job_that_only_sql_could_break_refuses_its_entry_and_stops_no_other(sync: Sync) -> None:
    sync(report=crontab())
    Job.objects.update(cron="nonsense")
    said = sync(report={"task": "shop.report", "schedule": crontab(), "args": [1]}, other=60)
    assert said["report"][0].startswith("refused cannot be saved with what was set by hand: cron 'nonsense'")
    assert said["other"] == ["new"]


def test_the_claimed_fires_of_an_entry_that_is_gone_do_not_run(sync: Sync) -> None:
    sync(report=60)
    fire = add_fire(the_job(), state="claimed", scheduled_for=DAY)
    sync()
    assert Fire.objects.get(pk=fire.pk).reason == "paused"


def test_changes_are_the_words_that_the_log_uses() -> None:
    assert {str(change) for change in Change} == {"new", "same", "changed", "gone", "deleted", "refused"}
    assert str(CodeEntry(app="shop", name="report")) == "shop: report"
