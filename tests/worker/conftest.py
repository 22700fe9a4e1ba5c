"""Tasks defined in a test, delivered as a Celery worker does it: through Celery's own trace, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from celery import Task, signals
from celery.app.trace import trace_task
from django.db import connection

from project.celery import app
from scheduling import JobTask
from scheduling.models import Fire
from scheduling.worker.process import own_process
from tests import committed
from tests.fires import headers_of, make_fire, make_job
from tests.worker.sample_tasks import EFFECTS

committed_db = committed.committed_db
test_database = committed.test_database

Define = Callable[..., Task[Any, Any]]


@dataclass(frozen=True)
class Told:
    """What Celery was told of one delivery."""

    state: str
    value: Any  # the task's value, or what it raised


Deliver = Callable[..., Told]


@pytest.fixture(autouse=True)
def _own_process() -> Iterator[None]:
    """Each test is a worker process of its own, as far as ledger and heartbeat go."""
    own_process.cache_clear()
    yield
    own_process.cache_clear()


@pytest.fixture
def define(unique: str) -> Iterator[Define]:
    """Make a task of a function: `define(function, **celery_options)`; a JobTask unless `base` says otherwise."""
    names: list[str] = []

    def make(function: Callable[..., Any], **options: Any) -> Task[Any, Any]:
        name = f"{unique}.{len(names)}"
        names.append(name)
        if function.__name__ == "<lambda>":
            function.__name__ = "task"  # Celery makes a signature of it
        make_task: Any = app.task
        return make_task(function, name=name, shared=False, **({"base": JobTask} | options))

    yield make
    for name in names:
        app.tasks.pop(name, None)


@pytest.fixture
def deliver() -> Deliver:
    """Deliver the fire's message once, and say what Celery was told; with other headers than it has, where given."""

    def once(fire: Fire, **headers: Any) -> Told:
        request = headers_of(fire) | {"is_eager": False, "hostname": "w1@test", "delivery_info": {}} | headers
        job = fire.job
        arguments = json.loads(json.dumps(job.args)), json.loads(json.dumps(job.kwargs))
        traced = trace_task(app.tasks[job.task], str(fire.id), *arguments, request, app=app)
        if traced.info:
            return Told(traced.info.state, traced.info.retval)
        return Told("SUCCESS", traced.retval)

    return once


@pytest.fixture
def fire_of() -> Callable[..., Fire]:
    """A claimed fire of a new job of this task; the columns are the fire's, `policy` the job's."""

    def make(task: Task[Any, Any], *, policy: dict[str, Any] | None = None, **columns: Any) -> Fire:
        return make_fire(make_job(str(task.name), **(policy or {})), **columns)

    return make


@pytest.fixture
def published() -> Iterator[list[str]]:
    """Names of the tasks that were published meanwhile."""
    names: list[str] = []

    def note(sender: str, **_: Any) -> None:
        names.append(sender)

    signals.before_task_publish.connect(note, weak=False)
    yield names
    signals.before_task_publish.disconnect(note)


@pytest.fixture
def effects(transactional_db: None) -> Callable[[], list[str]]:
    """The table that the sample tasks write to; gives what was written, in order."""
    with connection.cursor() as cursor:
        cursor.execute(EFFECTS)
        cursor.execute("TRUNCATE test_effect")

    def written() -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT what FROM test_effect ORDER BY at, what")
            return [what for (what,) in cursor.fetchall()]

    return written
