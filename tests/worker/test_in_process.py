"""Stop 1: fires run in the node's own threads, and what `acquired` means there."""

from __future__ import annotations

import sys
from datetime import date
from typing import Any

import pytest
from celery import Task
from celery.exceptions import Reject
from django.db import OperationalError

from scheduling.models import Fire, JobRun
from scheduling.store.ledger import PostgresLedger
from scheduling.worker.in_process import run_fire
from tests.fires import claimed, make_fire, make_job

pytestmark = pytest.mark.usefixtures("committed_db")


class Acquired:
    """Notes the state of the fire at the moment of the call."""

    def __init__(self) -> None:
        self.states: list[str] = []

    def __call__(self) -> None:
        self.states.append(Fire.objects.get().state)


def test_a_job_task_runs_and_is_acquired_before_its_body(define):
    acquired = Acquired()
    seen = []
    task = define(lambda value: seen.append((value, list(acquired.states))))
    fire = make_fire(make_job(task.name, args=[7]))

    run_fire(claimed(fire), acquired)

    assert acquired.states == ["running"]
    assert seen == [(7, ["running"])]
    assert Fire.objects.get().state == "succeeded"
    assert "in-process@" in JobRun.objects.get().worker


def test_a_refused_fire_does_not_run_and_is_acquired_all_the_same(define, fire_of):
    acquired = Acquired()
    fire = fire_of(define(lambda: pytest.fail("it ran")), state="skipped", reason="missed")

    run_fire(claimed(fire), acquired)

    assert acquired.states == ["skipped"]


def test_a_failing_task_is_recorded_and_not_raised(define, fire_of):
    acquired = Acquired()

    def task():
        raise ValueError

    run_fire(claimed(fire_of(define(task))), acquired)

    assert acquired.states == ["running"]
    assert Fire.objects.get().state == "retry_wait"


def test_a_plain_task_is_acquired_just_before_it_runs_and_stays_claimed(define, fire_of):
    acquired = Acquired()
    seen = []
    fire = fire_of(define(lambda: seen.append(len(acquired.states)), base=Task))

    run_fire(claimed(fire), acquired)

    assert (acquired.states, seen) == (["claimed"], [1])
    assert Fire.objects.get().state == "claimed"
    assert not JobRun.objects.exists()


def test_a_plain_task_that_exits_does_not_take_the_nodes_thread_with_it(define, fire_of, caplog):
    acquired = Acquired()

    run_fire(claimed(fire_of(define(lambda: sys.exit(1), base=Task))), acquired)

    assert acquired.states == ["claimed"]
    assert "its task exited" in caplog.text


def test_a_task_that_is_not_registered_makes_the_fire_dead_with_that_reason():
    acquired = Acquired()
    fire = make_fire(make_job("tests.nobody.knows.this"))

    run_fire(claimed(fire), acquired)

    row = Fire.objects.get()
    assert (row.state, row.reason, row.attempt) == ("dead", "unknown_task", 0)
    assert acquired.states == ["dead"]


def test_where_the_ledger_cannot_be_asked_nothing_is_acquired_and_the_reason_is_raised(
    define, fire_of, settings, monkeypatch
):
    settings.SCHEDULING = settings.SCHEDULING | {"FIRE_LEASE_S": 0.05}

    def down(*_):
        raise OperationalError("the database is down")

    monkeypatch.setattr(PostgresLedger, "acquire", down)
    acquired = Acquired()
    fire = fire_of(define(lambda: pytest.fail("it ran")))

    with pytest.raises(Reject, match="the database is down"):
        run_fire(claimed(fire), acquired)
    assert acquired.states == []


def test_arguments_are_read_as_a_worker_reads_them(define):
    seen = []
    task = define(lambda *args, **kwargs: seen.append((args, kwargs)))
    day = {"__type__": "date", "__value__": "2026-03-02"}
    run_fire(claimed(make_fire(make_job(task.name, args=[1, day], kwargs={"until": day}))), lambda: None)

    assert seen == [((1, date(2026, 3, 2)), {"until": date(2026, 3, 2)})]


def test_results_are_stored_as_by_a_worker(define, fire_of, settings, monkeypatch):
    from django_celery_results.backends import DatabaseBackend
    from django_celery_results.models import TaskResult

    from project.celery import app

    task = define(lambda: {"rows": 3})
    monkeypatch.setattr(type(task), "backend", DatabaseBackend(app=app))
    monkeypatch.setitem(app.conf.changes, "result_extended", True)
    fire = make_fire(make_job(task.name, name="nightly"))

    run_fire(claimed(fire), lambda: None)

    result: Any = TaskResult.objects.get(task_id=str(fire.id))
    assert (result.status, result.periodic_task_name, result.task_name) == ("SUCCESS", "nightly", task.name)
