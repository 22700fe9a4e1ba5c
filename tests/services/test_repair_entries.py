"""Jobs whose entry was lost, as by a partial restore: they fire again, nothing is doubled, and it is said."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError, connection

from scheduling.management.commands import repair_entries as command
from scheduling.models import Entry, Job
from scheduling.services.repair_entries import repair_entries
from scheduling.store.bucketed import BucketedStore
from scheduling.store.postgres import PostgresStore
from tests.processes import PATIENCE_S, eventually
from tests.store.owner import Owner, next_of, rows
from tests.store.sessions import InThread, OpenSession

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture(params=[PostgresStore, BucketedStore])
def owner(request: pytest.FixtureRequest, committed_db: None) -> Iterator[Owner]:
    """Of the store that goes on after the restore."""
    owner = Owner(NOON, make=BucketedStore)
    if request.param is not BucketedStore:
        owner.store.close()
        owner.start_again(request.param)
    yield owner
    owner.store.close()


@pytest.fixture
def bucketed(committed_db: None) -> Iterator[Owner]:
    owner = Owner(NOON, make=BucketedStore)
    yield owner
    owner.store.close()


def every_ten(name: str = "a", **options: Any) -> Job:
    return Job.objects.cron("tests.none", "*/10 * * * *", name=name, **options)


def loses_its_entry(owner: Owner, job: Job) -> None:
    """It was an entry, and the restore did not bring that."""
    if isinstance(owner.store, BucketedStore):
        owner.keeps(job)
        owner.look(NOON + 10 * MINUTE)
    else:
        owner.look(NOON + 10 * MINUTE)
        Job.objects.filter(pk=job.pk).update(in_bucket=True, next_scheduled_for=None, next_fire_at=None)
    Entry.objects.filter(job_id=job.pk).delete()


def test_a_job_that_lost_its_entry_goes_on_behind_its_last_fire_by_its_misfire_policy(
    owner: Owner, caplog: pytest.LogCaptureFixture
) -> None:
    job, jittery = every_ten(), every_ten("b", jitter=MINUTE)
    loses_its_entry(owner, job)
    loses_its_entry(owner, jittery)
    owner.look(NOON + 45 * MINUTE)
    assert rows(job) == ["12:10:00 claimed"]  # it does not fire, and nothing says so

    with caplog.at_level(logging.INFO):
        done = repair_entries()
    assert (done.jobs, done.put_aside) == (2, 0)
    (line,) = [record for record in caplog.records if record.name.endswith("repair_entries")]
    assert "2 jobs had no entry" in line.message
    assert "default/a" in line.message
    assert next_of(job) == "2026-03-02 12:20:00"
    assert not Job.objects.filter(in_bucket=True).exists()

    owner.look(NOON + 45 * MINUTE)
    expected = ["12:20:00 skipped coalesced", "12:30:00 skipped coalesced", "12:40:00 claimed"]
    assert rows(job) == ["12:10:00 claimed", *expected]
    assert rows(jittery)[-3:] == expected
    assert repair_entries().jobs == 0


def test_what_has_its_entry_was_edited_or_deleted_or_is_in_its_row_is_left_alone(bucketed: Owner) -> None:
    kept, edited, deleted, plain = (bucketed.keeps(every_ten(name)) for name in "abcd")
    Job.objects.filter(pk=edited.pk).update(cron="5 * * * *")
    Job.objects.filter(pk=deleted.pk).update(deleted_at=NOON)
    Entry.objects.exclude(job_id=kept.pk).delete()
    Job.objects.filter(pk=plain.pk).update(in_bucket=False, next_scheduled_for=NOON, next_fire_at=NOON)
    before = list(Job.objects.order_by("pk").values())
    assert repair_entries().jobs == 0
    assert list(Job.objects.order_by("pk").values()) == before


def test_an_entry_of_another_version_holds_nothing(bucketed: Owner) -> None:
    job = bucketed.keeps(every_ten())
    Entry.objects.update(schedule_version=7)
    assert repair_entries().jobs == 1
    bucketed.look(NOON + 10 * MINUTE)
    bucketed.promote()
    assert rows(job) == ["12:10:00 claimed"]
    assert list(Entry.objects.values_list("schedule_version", flat=True)) == [1]


def test_what_fired_longer_ago_than_the_history_goes_is_not_fired_again(bucketed: Owner) -> None:
    job = bucketed.keeps(Job.objects.cron("tests.none", "0 13 2 3 *", name="yearly"))
    Entry.objects.all().delete()
    bucketed.at(NOON + timedelta(days=job.tenant.history_days + 2))
    repair_entries()
    assert next_of(job) == "2027-03-02 13:00:00"


def test_a_schedule_that_cannot_be_read_any_more_is_put_aside_with_its_problem(bucketed: Owner) -> None:
    job = bucketed.keeps(every_ten())
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # as a restore does: no trigger
        cursor.execute("UPDATE scheduling_job SET cron = '61 * * * *'")
        cursor.execute("RESET session_replication_role")
    Entry.objects.all().delete()
    assert repair_entries().put_aside == 1
    job.refresh_from_db()
    assert (job.in_bucket, job.next_fire_at) == (False, None)
    assert job.problem.startswith("cron '61 * * * *'")


def test_a_job_that_was_taken_up_while_the_repair_waited_for_it_is_left_alone(
    bucketed: Owner, open_session: OpenSession, in_thread: InThread
) -> None:
    job = bucketed.keeps(every_ten())
    Entry.objects.all().delete()
    session = open_session("another-repair")
    with session.transaction():
        session.execute(
            "UPDATE scheduling_job SET in_bucket = false, next_scheduled_for = %(at)s, next_fire_at = %(at)s",
            {"at": NOON + 10 * MINUTE},
        )
        repair = in_thread(repair_entries)
        eventually(_waits)
    assert repair.result(timeout=PATIENCE_S).jobs == 0
    assert next_of(job) == "2026-03-02 12:10:00"


def _waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return bool(cursor.fetchone() == (1,))


def test_the_command_says_what_it_did_in_words_or_as_json(bucketed: Owner, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("repair_entries")
    assert capsys.readouterr().out == "every job of the buckets has its entry\n"
    bucketed.keeps(every_ten())
    Entry.objects.all().delete()
    call_command("repair_entries", "--json")
    assert json.loads(capsys.readouterr().out) == {"jobs": 1, "put_aside": 0, "examples": ["default/a"]}


def test_the_command_refuses_in_one_sentence_where_the_database_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails() -> None:
        raise OperationalError("connection refused\nIs the server running?")

    monkeypatch.setattr(command, "repair_entries", fails)
    with pytest.raises(CommandError, match=r"^the database does not answer: connection refused$"):
        call_command("repair_entries")
