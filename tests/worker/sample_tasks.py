"""Tasks for workers under test (`-I tests.worker.sample_tasks`). They write to the table `test_effect`."""

from __future__ import annotations

import os
import signal
import sys
import time

from celery import shared_task
from django.db import connection

from scheduling import JobTask, Snooze, current_job, job

EFFECTS = (
    "CREATE TABLE IF NOT EXISTS test_effect"
    " (what text NOT NULL, fire text, attempt int, fence int, at timestamptz DEFAULT clock_timestamp())"
)


def effect(what: str) -> None:
    """A row that the task wrote, with what it knew of its fire."""
    fire = current_job(None)
    known = [str(fire.fire_id), fire.attempt, fire.fence] if fire else [None, None, None]
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO test_effect (what, fire, attempt, fence) VALUES (%s, %s, %s, %s)", [what, *known])


def noted(what: str) -> str:
    effect(what)
    return what


@job(name="tests.worker.write")
def write(what: str) -> str:
    with current_job().commit():
        effect(what)
    return what


@shared_task(base=JobTask, name="tests.worker.write_in_job_task")
def write_in_job_task(what: str) -> str:
    effect(what)
    return what


@shared_task(name="tests.worker.plain")
def plain(what: str) -> str:
    effect(what)
    return what


@job(name="tests.worker.fail")
def fail(what: str) -> None:
    effect(what)
    raise ValueError(what)


@job(name="tests.worker.leave")
def leave() -> None:
    sys.exit("enough")


@job(name="tests.worker.hang_once")
def hang_once(what: str) -> None:
    if current_job().attempt == 1:
        time.sleep(60)
    effect(what)


@job(name="tests.worker.die_once")
def die_once(what: str) -> None:
    if current_job().attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with current_job().commit():
        effect(what)


@job(name="tests.worker.poison")
def poison(what: str) -> None:
    effect(what)
    os.kill(os.getpid(), signal.SIGKILL)


@job(name="tests.worker.die_between_steps")
def die_between_steps(what: str) -> str:
    first: str = current_job().step("first", lambda: noted(f"{what} 1"))
    if current_job().attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    second: str = current_job().step("second", lambda: noted(f"{what} 2"))
    return f"{first}, {second}"


@job(name="tests.worker.snooze_once")
def snooze_once(what: str) -> None:
    if current_job().attempt == 1:
        raise Snooze(0)
    effect(what)


@job(name="tests.worker.stop_when_asked")
def stop_when_asked(what: str) -> None:
    effect(what)
    while True:
        current_job().check()
        time.sleep(0.02)


@job(name="tests.worker.die_before_commit")
def die_before_commit(what: str) -> None:
    with current_job().commit():
        effect(what)
        os.kill(os.getpid(), signal.SIGKILL)


@job(name="tests.worker.hold")
def hold(path: str) -> None:
    """Keeps its message until there is such a file."""
    while not os.path.exists(path):
        time.sleep(0.02)


@job(name="tests.worker.ordinary", bind=True)
def ordinary(self, what: str) -> str:
    """Called by `delay()`: it runs on behalf of no fire."""
    effect(f"{what} {current_job(None)} {self.request.called_directly}")
    return what
