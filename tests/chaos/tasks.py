"""The load's tasks: each says that it began, works, and writes one row in one transaction with its completion."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from celery.signals import task_prerun

from project.demo.models import Effect
from scheduling import JobContext, current_job, job
from tests.chaos import runlog

ROOM_MIB = 64  # what a greedy run may have beside what its process has already

_asked_ns = 0  # a process of a worker runs one task at a time


@task_prerun.connect
def _note_time(**_: Any) -> None:
    global _asked_ns
    _asked_ns = time.monotonic_ns()


@job
def effect(work_s: float = 0.0, ballast: str = "") -> None:
    with running() as fire:
        time.sleep(work_s)
        write(fire)


@job
def mortal(deaths: int) -> None:
    """So many of its attempts end with their process, as by the kernel where memory runs out; the next one succeeds."""
    with running() as fire:
        if fire.attempt <= deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        write(fire)


@job
def greedy(mib: int) -> None:
    """The first attempt wants more memory than its process may have."""
    with running() as fire:
        if fire.attempt == 1:
            with _little_memory():
                bytearray(mib << 20)
        write(fire)


@job
def failing() -> None:
    with running():
        raise RuntimeError("as always")


@job
def hanging() -> None:
    with running():
        time.sleep(3600)


@contextmanager
def running() -> Iterator[JobContext]:
    """A run, whose beginning and end are in the log."""
    fire = current_job()
    holder = fire.fired.delivery.holder
    runlog.write_began(fire.fire_id, fence=fire.fence, holder=holder, asked_ns=_asked_ns)
    try:
        yield fire
    finally:
        runlog.write_ended(holder)


def write(fire: JobContext) -> None:
    """The effect, in one transaction with the completion."""
    with fire.commit():
        Effect.objects.create(fire_id=fire.fire_id, job_id=fire.job_id, attempt=fire.attempt, fence=fire.fence)


@contextmanager
def _little_memory() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_AS)
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + (ROOM_MIB << 20), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
