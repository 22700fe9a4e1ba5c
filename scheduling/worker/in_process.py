"""Runs fires in the threads of the node itself: stop 1 has neither broker nor worker.

The task is traced as in a Celery worker (``celery.app.trace``), so that signals, results and logs are the same. A fire
whose task is not registered here is recorded as dead with the reason ``unknown_task``: in a broker its message would
become a dead letter. Does not do: time limits, which need a process to kill.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import uuid4

from celery import Celery, Task
from celery.app import app_or_default
from celery.app.trace import trace_task
from django.conf import settings
from django.db import close_old_connections
from kombu.utils.json import loads

from scheduling import signals
from scheduling.conf import scheduling_settings
from scheduling.core.fire import Fire
from scheduling.core.masking import Mask
from scheduling.core.message import headers
from scheduling.store.ledger_port import Delivery
from scheduling.worker.attempt import EXITS, on_decided
from scheduling.worker.process import worker_process
from scheduling.worker.registration import tell_tasks
from scheduling.worker.task import JobTask

log = logging.getLogger(__name__)

_loading = threading.Lock()
_loaded: set[Celery[Any]] = set()  # apps whose task modules are imported


def run_fire(fire: Fire, acquired: Callable[[], None]) -> None:
    """Run a fire to its end in this thread; what the task raises is recorded, and not raised.

    ``acquired`` is called once: when the ledger has given the lease or refused it, or, for a plain Celery task, just
    before it runs. Where the ledger could not be asked it is not called, and the reason is raised.
    """
    close_old_connections()
    try:
        app = _app()
        task = app.tasks.get(fire.work.task)
        if task is None:
            _bury(fire)
            acquired()
        elif isinstance(task, JobTask):
            _run_job_task(app, task, fire, acquired)
        else:
            acquired()
            _trace(app, task, fire)
    finally:
        close_old_connections()


def _run_job_task(app: Celery[Any], task: Task[Any, Any], fire: Fire, acquired: Callable[[], None]) -> None:
    is_decided = False

    def decided() -> None:
        nonlocal is_decided
        is_decided = True
        acquired()

    token = on_decided.set(decided)
    try:
        outcome = _trace(app, task, fire)
    finally:
        on_decided.reset(token)
    if not is_decided:
        raise outcome


def _trace(app: Celery[Any], task: Task[Any, Any], fire: Fire) -> Any:
    """What the task raised, if anything."""
    host = socket.gethostname()
    origin = f"fairbeat{os.getpid()}@{host}"
    request = headers(fire, origin=origin, ignore_result=task.ignore_result, mask=_mask())
    request |= {"is_eager": False, "hostname": f"in-process@{host}", "delivery_info": {}}
    arguments = loads(fire.work.args), loads(fire.work.kwargs)  # as a worker reads a message: dates and the like too
    try:
        traced = trace_task(task, str(fire.id), *arguments, request, app=app)
    except EXITS as exited:  # of a plain task: it would end this thread of the node
        log.error("fire %s of job %s: its task exited", fire.id, fire.work.job_id, exc_info=exited)
        return exited
    return traced.info.retval if traced.info else None


@cache
def _mask() -> Mask:
    return scheduling_settings(settings).mask


def _bury(fire: Fire) -> None:
    error = f"there is no task {fire.work.task!r} in this process"
    log.error("fire %s of job %s: %s", fire.id, fire.work.job_id, error)
    delivery = Delivery(
        fire_id=fire.id,
        job_id=fire.work.job_id,
        tenant=fire.work.tenant,
        scheduled_for=fire.scheduled_for,
        history_days=fire.work.history_days,
        fence=fire.fence,
        holder=uuid4(),
    )
    if worker_process().ledger.bury(delivery, "unknown_task", error=error):
        signals.tell(signals.job_dead, lambda: signals.facts_of(fire) | {"error": error, "reason": "unknown_task"})


def _app() -> Celery[Any]:
    """The process's Celery app, with its task modules imported."""
    app: Celery[Any] = app_or_default()
    with _loading:
        if app not in _loaded:
            app.loader.import_default_modules()
            tell_tasks(app)
            _loaded.add(app)
    return app
