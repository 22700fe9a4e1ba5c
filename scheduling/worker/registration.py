"""Tells the nodes which tasks this worker has, and which of them acquire their fires: rows of ``WorkerTask``.

One statement at the start, before anything is consumed: a task without a row is unknown to all workers, and its
message a dead letter. A database that does not answer keeps no worker from starting: it is told later, by a thread. A
task that is registered later is told of when it first runs.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from celery import signals
from django.db import Error, connections

PATIENCE_S = 2.0  # of a worker that starts, with a database that does not answer
PAUSE_MIN_S, PAUSE_MAX_S = 1.0, 30.0

log = logging.getLogger(__name__)

_told: frozenset[str] = frozenset()  # replaced as a whole; children have their parent's


def tell_tasks(app: Any) -> None:
    """Of this worker, at its start: returns when that is written, or after ``PATIENCE_S``."""
    thread = threading.Thread(target=_tell_until_written, args=(dict(app.tasks),), name="fairbeat-tasks", daemon=True)
    thread.start()
    thread.join(PATIENCE_S)


def note_task(task: Any) -> None:
    """Of a task that runs: written once, where it was not there at the start."""
    if task.name not in _told:
        _tell({task.name: task}, or_log="will be told when it runs again")


def _tell_until_written(tasks: dict[str, Any]) -> None:
    pause_s = PAUSE_MIN_S
    while not _tell(tasks, or_log=f"trying again in {pause_s:g} s"):
        _close()
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)
    _close()


def _tell(tasks: dict[str, Any], *, or_log: str) -> bool:
    """Whether it is written."""
    global _told
    from django.db.models.functions import Now

    from scheduling.models import WorkerTask
    from scheduling.worker.task import JobTask

    rows = [  # in one order, so that workers that start together do not wait for each other in a ring
        WorkerTask(name=name, is_guarded=isinstance(task, JobTask), seen_at=Now())
        for name, task in sorted(tasks.items())
        if not name.startswith("celery.")
    ]
    try:
        WorkerTask.objects.bulk_create(
            rows, update_conflicts=True, unique_fields=["name"], update_fields=["is_guarded", "seen_at"]
        )
    except Error as error:
        log.warning("the nodes could not be told of %d tasks (%s): %s", len(rows), or_log, error)
        return False
    _told |= tasks.keys()
    return True


def _close() -> None:
    """What this thread has opened: a child that is forked must not share it."""
    connections.close_all()


def _at_start(sender: Any, **_: Any) -> None:
    tell_tasks(sender.app)


signals.worker_init.connect(_at_start, dispatch_uid="scheduling.tell_tasks")
