"""Workers tell the nodes which tasks they have, and which of them acquire their fires."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from django.db import OperationalError

from project.celery import app
from scheduling.models import WorkerTask
from scheduling.worker import registration
from tests.processes import eventually

pytestmark = pytest.mark.usefixtures("committed_db")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "_told", frozenset())


def known() -> dict[str, bool]:
    return dict(WorkerTask.objects.values_list("name", "is_guarded"))


def start() -> None:
    """What Celery's `worker_init` calls."""
    registration._at_start(SimpleNamespace(app=app))


def test_a_worker_tells_them_before_it_consumes(define):
    guarded, plain = define(lambda: None), define(lambda: None, base=app.Task)

    start()

    assert known()[guarded.name] is True
    assert known()[plain.name] is False
    assert not [name for name in known() if name.startswith("celery.")]


def test_a_task_that_is_made_anew_is_told_anew(define):
    task = define(lambda: None)
    WorkerTask.objects.create(name=task.name, is_guarded=False, seen_at="2026-01-01T00:00Z")

    start()
    assert known()[task.name] is True
    assert WorkerTask.objects.get(name=task.name).seen_at.year > 2000


def test_one_that_comes_later_is_told_when_it_first_runs(define, deliver, fire_of, monkeypatch):
    start()
    task = define(lambda: None)
    assert task.name not in known()

    deliver(fire_of(task))
    assert known()[task.name] is True

    WorkerTask.objects.all().delete()
    deliver(fire_of(task))
    assert known() == {}, "once"


def test_a_database_that_is_away_delays_the_news_and_not_the_worker(define, monkeypatch):
    task = define(lambda: None)
    manager, tell = type(WorkerTask.objects), WorkerTask.objects.bulk_create
    is_back = threading.Event()

    def sometimes(self, *args, **options):
        if not is_back.is_set():
            raise OperationalError("down")
        return tell(*args, **options)

    monkeypatch.setattr(manager, "bulk_create", sometimes)
    monkeypatch.setattr(registration, "PATIENCE_S", 0.05)
    monkeypatch.setattr(registration, "PAUSE_MIN_S", 0.01)

    start()
    assert known() == {}
    is_back.set()
    eventually(lambda: task.name in known())
