"""A new tzdata: what moves, what is left alone, what is put aside, and that one process does it, once."""

from __future__ import annotations

import json
import logging
import shutil
import zoneinfo
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from scheduling.models import Calendar, Entry, Job, JobClock, ZoneData
from scheduling.services import replan_zones as service
from scheduling.services.replan_zones import LOCK, Replanned, replan_if_changed, replan_zones
from scheduling.services.zone_data_version import zone_data_version
from tests.conftest import Spawn
from tests.ledger_rows import add_fire
from tests.store.backends import put_in_bucket
from tests.store.sessions import InThread, OpenSession, until_someone_waits

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
RIGHT = NOW + 3 * HOUR  # 16:00 in Paris
REST = "shard_id, tenant_id, schedule_version, fired, bucket, job_id, scheduled_for, fire_at"
MOVE = f"INSERT INTO scheduling_entry (slot, {REST})"
WRONG = NOW + 4 * HOUR  # as another tzdata would have it


@pytest.fixture
def now(db: None) -> datetime:
    JobClock.objects.create(job_origin=NOW, real_origin=None)
    return NOW


def paris(name: str = "daily", **options: Any) -> Job:
    return Job.objects.cron("t", "0 16 * * *", tz="Europe/Paris", name=name, **options)


def as_planned_by_another_tzdata(job: Job, at: datetime | None = WRONG) -> None:
    Job.objects.filter(pk=job.pk).update(next_scheduled_for=at, next_fire_at=at)


def planned(job: Job) -> tuple[datetime | None, datetime | None, str]:
    job.refresh_from_db()
    return job.next_scheduled_for, job.next_fire_at, job.problem


def test_the_next_occurrence_is_computed_anew_and_it_is_said_what_moved(now: datetime) -> None:
    job, other = paris(), paris("same")
    as_planned_by_another_tzdata(job)
    done = replan_zones()
    assert planned(job) == (RIGHT, RIGHT, "")
    assert (done.looked, done.moved, done.put_aside) == (2, 1, 0)
    assert [str(move) for move in done.examples] == [
        "default/daily: 2026-03-02 16:00:00 UTC -> 2026-03-02 15:00:00 UTC"
    ]
    assert planned(other) == (RIGHT, RIGHT, "")
    assert job.schedule_version == 1
    assert replan_zones().moved == 0


def test_a_job_of_the_buckets_goes_back_to_its_row_where_it_moves_and_else_stays(now: datetime) -> None:
    job, other = paris(), paris("same")
    as_planned_by_another_tzdata(job)
    for one in (job, other):
        one.refresh_from_db()
        put_in_bucket(one)
    done = replan_zones()
    assert (done.looked, done.moved) == (2, 1)
    assert planned(job) == (RIGHT, RIGHT, "")
    assert planned(other) == (None, None, "")
    assert list(Entry.objects.values_list("job_id", "scheduled_for")) == [(other.pk, RIGHT)]
    assert Job.objects.get(in_bucket=True) == other


def test_jitter_is_spread_anew_from_the_new_time(now: datetime) -> None:
    job = paris(jitter=HOUR)
    before = planned(job)
    as_planned_by_another_tzdata(job)
    replan_zones()
    assert planned(job) == before


def test_what_is_due_already_or_planned_anew_and_intervals_and_deleted_jobs_are_left_alone(now: datetime) -> None:
    late, interval, gone = paris("late"), Job.objects.every("t", HOUR), paris("gone")
    as_planned_by_another_tzdata(late, NOW - HOUR)
    as_planned_by_another_tzdata(interval)
    as_planned_by_another_tzdata(gone)
    Job.objects.filter(pk=gone.pk).update(deleted_at=NOW)
    for name in ("late entry", "edited entry"):
        job = paris(name)
        as_planned_by_another_tzdata(job, NOW - HOUR)
        job.refresh_from_db()
        put_in_bucket(job)
    Job.objects.filter(name="edited entry").update(cron="0 17 * * *")
    assert (replan_zones().looked, planned(late)[0], planned(interval)[0]) == (0, NOW - HOUR, WRONG)


def test_what_was_claimed_ahead_is_not_planned_again(now: datetime) -> None:
    job = paris()
    as_planned_by_another_tzdata(job, RIGHT + timedelta(days=1))
    add_fire(job, RIGHT, state="claimed")
    assert replan_zones().moved == 0
    assert planned(job)[0] == RIGHT + timedelta(days=1)


def test_a_zone_that_is_gone_puts_its_job_aside_and_one_that_is_back_takes_it_up(now: datetime) -> None:
    job = paris()
    Job.objects.update(tz="Mars/Olympus")
    as_planned_by_another_tzdata(job, RIGHT)
    done = replan_zones()
    assert planned(job)[:2] == (None, None)
    assert job.problem.startswith("tz 'Mars/Olympus': the installed tzdata knows no such time zone")
    assert (done.moved, done.put_aside) == (1, 1)
    assert str(done.examples[0]).startswith("default/daily: 2026-03-02 15:00:00 UTC -> - (tz 'Mars/Olympus'")


def test_a_job_that_was_put_aside_is_taken_up_from_now_on_once_its_zone_is_known(now: datetime) -> None:
    job = paris()
    Job.objects.update(next_scheduled_for=None, next_fire_at=None, problem="tz 'Europe/Paris': is not known yet")
    done = replan_zones()
    assert (planned(job), done.moved, done.put_aside) == ((RIGHT, RIGHT, ""), 1, 0)


def test_a_calendar_whose_zone_is_gone_puts_its_jobs_aside(now: datetime) -> None:
    job = paris(calendar=Calendar.objects.create(name="c"))
    Calendar.objects.update(tz="Mars/Olympus")
    assert replan_zones().put_aside == 1
    assert planned(job)[1] is None


def test_what_changes_while_it_is_computed_is_looked_at_again(now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    edited, claimed = paris("edited"), paris("claimed")
    for job in (edited, claimed):
        as_planned_by_another_tzdata(job)
    write = service._write
    done_once: list[bool] = []

    def meanwhile(*arguments: Any) -> set[UUID]:
        if not done_once:
            done_once.append(True)
            Job.objects.filter(pk=edited.pk).update(cron="0 17 * * *")
            as_planned_by_another_tzdata(claimed, WRONG + timedelta(days=1))
        return write(*arguments)

    monkeypatch.setattr(service, "_write", meanwhile)
    done = replan_zones()
    assert (done.looked, done.moved) == (2, 1)
    assert (planned(edited)[0], planned(claimed)[0]) == (None, RIGHT)


def test_an_entry_that_is_just_being_promoted_is_planned_anew_where_it_went(
    committed_db: None, open_session: OpenSession, in_thread: InThread
) -> None:
    JobClock.objects.create(job_origin=NOW, real_origin=None)
    job = paris()
    as_planned_by_another_tzdata(job)
    job.refresh_from_db()
    put_in_bucket(job)
    promoter = open_session("a promoter")
    promoter.execute("BEGIN")
    promoter.execute(
        f"WITH gone AS (DELETE FROM scheduling_entry RETURNING *) {MOVE} SELECT 7, {REST} FROM gone".encode()
    )
    replanning = in_thread(replan_zones)
    until_someone_waits()
    promoter.execute("COMMIT")
    assert replanning.result().moved == 1
    assert planned(job) == (RIGHT, RIGHT, "")
    assert not Entry.objects.exists()


def test_many_jobs_are_read_in_chunks(now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "CHUNK", 2)
    monkeypatch.setattr(service, "EXAMPLES", 3)
    for n in range(5):
        as_planned_by_another_tzdata(paris(f"job {n}"))
    done = replan_zones()
    assert (done.looked, done.moved, len(done.examples)) == (5, 5, 3)


# -- once -----------------------------------------------------------------------------------------------------------


def test_a_start_with_another_tzdata_than_the_recorded_one_replans_once(
    now: datetime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    as_planned_by_another_tzdata(paris())
    assert replan_if_changed() is None  # the first start ever: nothing is known of an older one
    assert ZoneData.objects.get().version == zone_data_version()
    ZoneData.objects.update(version="1970a")
    done = replan_if_changed()
    assert isinstance(done, Replanned)
    assert done.moved == 1
    assert "and was 1970a" in caplog.text
    assert "moved: default/daily: 2026-03-02 16:00:00 UTC -> 2026-03-02 15:00:00 UTC" in caplog.text
    assert replan_if_changed() is None


def test_one_process_at_a_time(now: datetime) -> None:
    parameters = connection.get_connection_params()
    with psycopg.connect(**{key: parameters[key] for key in ("dbname", "host", "port", "user") if parameters.get(key)},
                         autocommit=True) as other:  # fmt: skip
        other.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        ZoneData.objects.create(version="1970a", replanned_at=NOW)
        assert replan_if_changed() is None
        assert ZoneData.objects.get().version == "1970a"
        with pytest.raises(CommandError, match="another process"):
            call_command("replan_zones")


def test_the_command_says_what_moved(
    now: datetime, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "EXAMPLES", 1)
    for name in "ab":
        as_planned_by_another_tzdata(paris(name))
    call_command("replan_zones")
    assert capsys.readouterr().out.splitlines() == [
        f"tzdata {zone_data_version()}: of 2 jobs 2 moved, 0 of them put aside",
        "  default/a: 2026-03-02 16:00:00 UTC -> 2026-03-02 15:00:00 UTC",
        "  and 1 more",
    ]
    call_command("replan_zones", "--json")
    assert json.loads(capsys.readouterr().out)["moved"] == 0


@pytest.mark.django_db(transaction=True)
def test_a_process_with_another_tzdata_plans_by_it(spawn: Spawn, tmp_path: Path) -> None:
    JobClock.objects.create(job_origin=NOW, real_origin=None)
    job = paris()
    (tmp_path / "Europe").mkdir()
    (tmp_path / "+VERSION").write_text("2099z\n")
    shutil.copy(zone_file("Asia/Kolkata"), tmp_path / "Europe/Paris")
    process = spawn("manage.py", "replan_zones", PYTHONTZPATH=str(tmp_path))
    assert process.wait() == 0
    assert "tzdata 2099z" in process.output
    assert planned(job)[0] == datetime(2026, 3, 3, 10, 30, tzinfo=UTC)  # 16:00 at +05:30 has passed today


@pytest.mark.django_db(transaction=True)
def test_a_node_that_starts_with_another_tzdata_replans_beside_its_work(spawn: Spawn) -> None:
    JobClock.objects.create(job_origin=NOW, real_origin=None)
    ZoneData.objects.create(version="1970a", replanned_at=NOW)
    job = paris()
    as_planned_by_another_tzdata(job)
    nowhere = {"AMQP_URL": "", "CELERY_BROKER_URL": "amqp://127.0.0.1:1//", "FAIRBEAT_STOP": "1"}
    spawn("manage.py", "scheduler", "--node-id", "lone", ready="moved: default/daily", **nowhere)
    assert planned(job)[0] == RIGHT
    assert ZoneData.objects.get().version == zone_data_version()


def zone_file(name: str) -> Path:
    return next(file for directory in zoneinfo.TZPATH if (file := Path(directory) / name).is_file())


# -- which tzdata ---------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(zoneinfo, "TZPATH", (str(tmp_path / "missing"), str(tmp_path)))
    return tmp_path


def test_the_version_is_that_of_each_place_where_zones_are_looked_for(path: Path) -> None:
    (path / "tzdata.zi").write_text("# version 2026a\nR ...\n")
    assert zone_data_version().startswith("2026a, package 20")
    (path / "+VERSION").write_text("2026b\n")
    assert zone_data_version().startswith("2026b, package 20")


def test_a_place_that_does_not_tell_its_version_is_told_by_its_zones(path: Path) -> None:
    assert zone_data_version().startswith("package ")
    (path / "readme").write_text("no zone")
    assert zone_data_version().startswith("package ")
    (path / "Europe").mkdir()
    (path / "Europe/Paris").write_bytes(b"TZif2 one")
    before = zone_data_version()
    assert before.startswith("1 zones ")
    (path / "Europe/Paris").write_bytes(b"TZif2 two")
    assert zone_data_version() != before
