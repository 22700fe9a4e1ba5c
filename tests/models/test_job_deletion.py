"""Deleting jobs: what becomes of the row, of its fires, and of a claim that is in flight."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection, connections, transaction

from scheduling.models import Fire, Job
from scheduling.services.pause import pause
from scheduling.store.rows import fire_of
from scheduling.store.statements import statements
from scheduling.store.waiting import read_waiting
from tests.ledger_rows import DAY, add_fire
from tests.processes import eventually


def make_job(name: str = "report") -> Job:
    return Job.objects.cron("acme.report", "0 6 * * *", name=name)


@pytest.mark.django_db
def test_a_job_that_never_fired_is_really_deleted():
    job = make_job()

    assert job.delete() == (1, {"scheduling.Job": 1})
    assert not Job.objects.exists()


@pytest.mark.django_db
def test_a_job_with_fires_is_kept_hidden_and_is_never_due_again():
    job = make_job()
    add_fire(job, state="succeeded")

    assert job.delete() == (1, {"scheduling.Job": 1})
    job.refresh_from_db()
    assert job.deleted_at is not None
    assert (job.next_scheduled_for, job.next_fire_at) == (None, None)


@pytest.mark.django_db
def test_a_query_set_deletes_each_in_the_way_it_needs():
    fired, fresh, kept = make_job("fired"), make_job("fresh"), make_job("kept")
    add_fire(fired, state="succeeded")

    assert Job.objects.exclude(name="kept").delete() == (2, {"scheduling.Job": 2})
    assert {job.name: job.deleted_at is None for job in Job.objects.all()} == {"fired": False, "kept": True}
    assert not Job.objects.filter(pk=fresh.pk).exists()
    assert kept.tenant.jobs.all().delete()[0] == 1
    assert [job.name for job in Job.objects.all()] == ["fired"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("state", "attempt", "becomes"),
    [
        ("claimed", 0, ("skipped", "cancelled")),
        ("parked", 0, ("skipped", "cancelled")),
        ("retry_wait", 0, ("skipped", "cancelled")),
        ("retry_wait", 1, ("dead", "cancelled")),
        ("parked", 1, ("dead", "cancelled")),
        ("claimed", 2, ("dead", "cancelled")),
        ("running", 1, ("running", "")),
        ("succeeded", 1, ("succeeded", "")),
        ("skipped", 0, ("skipped", "missed")),
        ("dead", 3, ("dead", "missed")),
    ],
)
def test_what_waits_is_cancelled_and_what_runs_or_ended_is_left(state: str, attempt: int, becomes: tuple[str, str]):
    job = make_job()
    fire = add_fire(job, state=state, attempt=attempt)
    job.delete()

    fire.refresh_from_db()
    assert (fire.state, fire.reason) == becomes
    assert (fire.finished_at is None) == (state == "running")
    assert fire.wake_at is None


@pytest.mark.django_db
def test_a_run_that_fails_after_its_paused_job_was_deleted_does_not_wait_for_the_end_of_the_pause():
    job = make_job()
    fire = add_fire(job, state="running")
    pause([job], reason="because", by="anna")
    job.delete()
    Fire.objects.update(state="retry_wait", reason="failed", fence=2, holder=None, lease_until=None, wake_at=DAY)

    sql = statements("schedule")
    rows, _ = read_waiting(connection.connection, sql, [job.shard_id], now=DAY, limit=10)
    assert [fire_of(row, 0.0).id for row in rows] == [fire.id], "its owner has it published, and its worker buries it"


@pytest.mark.django_db
def test_what_a_plain_celery_task_was_sent_stays_sent():
    job = make_job()
    sent = add_fire(job, confirmed=True)
    job.delete()
    sent.refresh_from_db()
    assert (sent.state, sent.reason) == ("claimed", "")


@pytest.mark.django_db
def test_what_is_published_for_a_task_that_acquires_is_cancelled():
    job = make_job()
    published = add_fire(job, confirmed=True)
    add_fire(job, DAY + timedelta(days=1), state="succeeded")
    job.delete()
    published.refresh_from_db()
    assert (published.state, published.reason) == ("skipped", "cancelled")


@pytest.mark.django_db
def test_the_fires_of_other_jobs_are_left():
    other = add_fire(make_job("other"))
    job = make_job()
    add_fire(job)
    job.delete()

    other.refresh_from_db()
    assert other.state == "claimed"


@pytest.mark.django_db
def test_the_name_of_a_deleted_job_is_free_again():
    job = make_job()
    add_fire(job)
    job.delete()

    assert make_job().pk != job.pk


@pytest.mark.django_db
def test_a_job_deleted_softly_keeps_its_time_when_deleted_again_and_goes_once_its_history_has_gone():
    job = make_job()
    add_fire(job)
    job.delete()
    job.refresh_from_db()
    deleted_at = job.deleted_at

    assert job.delete()[0] == 0
    job.refresh_from_db()
    assert job.deleted_at == deleted_at
    Fire.objects.all().delete()
    assert job.delete()[0] == 1
    assert not Job.objects.exists()


@pytest.mark.django_db
def test_an_old_form_does_not_bring_a_deleted_job_back():
    job = make_job()
    add_fire(job)
    form = Job.objects.get(pk=job.pk)
    job.delete()
    form.description = "new words"
    form.save()

    job.refresh_from_db()
    assert job.deleted_at is not None


@pytest.mark.django_db
def test_a_slice_is_refused():
    make_job()
    with pytest.raises(TypeError, match="limit"):
        Job.objects.all()[:1].delete()


def _waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
        return cursor.fetchone() is not None


@pytest.mark.django_db(transaction=True)
def test_a_claim_in_flight_does_not_slip_through():
    job = make_job()
    add_fire(job, state="succeeded")

    def delete() -> None:
        job.delete()
        connections.close_all()

    deleting = threading.Thread(target=delete)
    with transaction.atomic():
        Job.objects.filter(pk=job.pk).update(next_fire_at=DAY + timedelta(days=2))
        claimed = add_fire(job, DAY + timedelta(hours=1))
        deleting.start()
        eventually(_waits_for_a_lock)
    deleting.join()

    claimed.refresh_from_db()
    assert (claimed.state, claimed.reason) == ("skipped", "cancelled")
