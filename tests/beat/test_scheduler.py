"""The scheduler class as Celery's beat treats it: made lazily, ticked, closed twice; and what ends it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from time import sleep
from typing import Any

import psycopg
import pytest
from celery import Celery
from celery.beat import Service
from celery.schedules import crontab
from django.db import connection
from django.test import override_settings
from kombu.utils.imports import symbol_by_name

from scheduling.beat.scheduler import CLEANUP, LOOK_S, CannotSchedule, FairbeatScheduler
from scheduling.models import Job
from scheduling.services import run_node, sync_entries
from tests import committed
from tests.beat.stub_node import StubNode
from tests.processes import PATIENCE_S

committed_db = committed.committed_db
test_database = committed.test_database

PATHS = ("scheduling.beat.scheduler:FairbeatScheduler", "scheduling.beat.scheduler.FairbeatScheduler")


@pytest.fixture
def beat(
    shop: Celery[Any], settings: Any, monkeypatch: pytest.MonkeyPatch, committed_db: None
) -> Iterator[FairbeatScheduler]:
    """One with an entry, whose node is a stub with nothing beside it."""
    settings.SCHEDULING = {"NODE": "tests.beat.stub_node.build"}
    monkeypatch.setattr(run_node, "replan_if_changed", lambda: None)
    shop.conf.beat_schedule = {"report": {"task": "shop.report", "schedule": 60}}
    scheduler = FairbeatScheduler(app=shop, max_interval=0.01)
    yield scheduler
    scheduler.close()


@contextmanager
def unable_to_lock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another session holds the lock of all syncs, and nobody has patience."""
    monkeypatch.setattr(sync_entries, "PATIENCE", "SET LOCAL lock_timeout = '10ms'")
    with psycopg.connect(**connection.get_connection_params()) as session:
        session.execute("SELECT pg_advisory_lock(%s)", [sync_entries.LOCK])
        yield


def look_again(beat: FairbeatScheduler) -> None:
    """Tick until it is time to look at the code's schedule."""
    sleep(beat.tick())
    beat.tick()


def test_celery_finds_it_by_its_alias_and_by_its_path() -> None:
    [alias] = entry_points(group="celery.beat_schedulers", name="fairbeat")
    assert {alias.load(), *map(symbol_by_name, PATHS)} == {FairbeatScheduler}


def test_a_lazy_one_tells_the_banner_what_it_is_and_touches_nothing(shop: Celery[Any]) -> None:
    """There is no database in this test, and no broker."""
    threads = threading.active_count()
    service = Service(shop, max_interval=7, scheduler_cls=PATHS[0])  # type: ignore[arg-type]
    lazy = service.get_scheduler(lazy=True)
    assert (lazy.max_interval, "Fairbeat" in lazy.info) == (7, True)
    lazy.close()
    assert threading.active_count() == threads


def test_the_interval_is_that_of_the_command_line_or_the_setting(shop: Celery[Any]) -> None:
    assert FairbeatScheduler(app=shop).max_interval == 5
    shop.conf.beat_max_loop_interval = 20
    assert FairbeatScheduler(app=shop).max_interval == 20
    assert FairbeatScheduler(app=shop, max_interval=3).max_interval == 3


def test_the_first_tick_makes_the_jobs_and_starts_the_node(beat: FairbeatScheduler) -> None:
    assert beat.tick() == 0.01
    assert StubNode.last.running.wait(PATIENCE_S)
    assert Job.objects.get().name == "report"


def test_it_never_sleeps_so_long_that_the_end_of_its_node_goes_unnoticed(shop: Celery[Any], beat: Any) -> None:
    beat.max_interval = 300
    assert beat.tick() == LOOK_S


def test_a_change_of_the_codes_schedule_is_noticed(shop: Celery[Any], beat: FairbeatScheduler) -> None:
    beat.tick()
    shop.conf.beat_schedule["report"]["schedule"] = crontab(minute=0)
    shop.add_periodic_task(30.0, shop.tasks["shop.plain"].s(), name="second")
    look_again(beat)
    assert set(Job.objects.values_list("name", "kind")) == {("report", "cron"), ("second", "interval")}


def test_a_sync_that_fails_is_said_and_tried_again_while_the_node_runs(
    beat: FairbeatScheduler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with unable_to_lock(monkeypatch):
        beat.tick()
    assert "was not brought to its jobs, trying again: canceling statement" in caplog.text
    look_again(beat)
    assert Job.objects.get().name == "report"


def test_what_it_cannot_schedule_is_in_the_log_once_and_the_rest_goes_on(
    shop: Celery[Any], beat: FairbeatScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)  # Celery's own test worker leaves the root logger at ERROR
    shop.conf.beat_schedule |= {
        "odd": {"task": "shop.report", "schedule": "at dawn"},
        "routed": {"task": "shop.report", "schedule": 60, "options": {"queue": "reports", "priority": 3}},
    }
    beat.tick()
    look_again(beat)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    [error] = [line for line in said if "'odd'" in line]
    [warning] = [line for line in said if "'routed'" in line]
    assert error.startswith("beat_schedule entry 'odd': refused: schedule 'at dawn'")
    assert "queue 'reports'" in warning
    assert "priority 3" in warning
    assert set(Job.objects.values_list("name", flat=True)) == {"report", "routed"}


def test_the_end_of_the_node_ends_beat_with_its_reason(beat: FairbeatScheduler) -> None:
    beat.tick()
    StubNode.last.fail("another process has taken over")
    assert beat._running is not None
    beat._running._thread.join(PATIENCE_S)
    with pytest.raises(CannotSchedule, match="another process has taken over"):
        beat.tick()


def test_closing_drains_the_node_and_closing_again_does_nothing(beat: FairbeatScheduler) -> None:
    beat.tick()
    beat.close()
    beat.close()
    assert StubNode.last.stops == 1
    assert "fairbeat node" not in {thread.name for thread in threading.enumerate()}


def test_wrong_settings_end_it_with_all_that_is_wrong_in_a_line(shop: Celery[Any]) -> None:
    with override_settings(SCHEDULING={"STOP": 9, "SHARDS": 0}), pytest.raises(CannotSchedule) as ended:
        FairbeatScheduler(app=shop).tick()
    assert str(ended.value) == (
        "SCHEDULING['STOP'] 9: is not one of 1, 2, 3, 4; SCHEDULING['SHARDS'] 0: is not a whole number above 0"
    )


def test_inside_a_worker_it_says_why_not_and_ends_as_beats_loop_expects(
    beat: FairbeatScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    ended = []

    def embedded() -> None:
        try:
            beat.tick()
        except SystemExit as end:
            ended.append(end.code)

    thread = threading.Thread(target=embedded)  # where there is no multiprocessing, -B is a thread
    thread.start()
    thread.join(PATIENCE_S)
    assert ended == [None]
    assert "worker -B is refused" in caplog.text
    assert not Job.objects.exists()


def test_its_schedule_is_the_codes_to_be_looked_at(shop: Celery[Any], beat: FairbeatScheduler) -> None:
    assert {name: entry.task for name, entry in beat.schedule.items()} == {"report": "shop.report"}
    with pytest.raises(TypeError):
        beat.add(name="x", task="t", schedule=60)


@pytest.mark.parametrize(
    ("backend", "has_it"),
    [("disabled://", False), ("cache+memory://", False), ("file:///tmp", True)],
)
def test_results_are_cleaned_up_daily_where_their_backend_keeps_them_for_ever(
    shop: Celery[Any], backend: str, has_it: bool
) -> None:
    shop.conf.update(result_backend=backend)
    assert (CLEANUP in FairbeatScheduler(app=shop).schedule) == has_it
    shop.conf.result_expires = None
    assert CLEANUP not in FairbeatScheduler(app=shop).schedule
