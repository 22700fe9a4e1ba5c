"""The load's task: says that it began, works for a while, and writes one row in one transaction with its completion."""

from __future__ import annotations

import time
from typing import Any

from celery.signals import task_prerun

from project.demo.models import Effect
from scheduling import current_job, job
from tests.chaos import runlog

_asked_ns = 0  # a process of a worker runs one task at a time


@task_prerun.connect
def _note_time(**_: Any) -> None:
    global _asked_ns
    _asked_ns = time.monotonic_ns()


@job
def effect(work_s: float = 0.0) -> None:
    fire = current_job()
    holder = fire.fired.delivery.holder
    runlog.write_began(fire.fire_id, fence=fire.fence, holder=holder, asked_ns=_asked_ns)
    try:
        time.sleep(work_s)
        with fire.commit():
            Effect.objects.create(fire_id=fire.fire_id, job_id=fire.job_id, attempt=fire.attempt, fence=fire.fence)
    finally:
        runlog.write_ended(holder)
