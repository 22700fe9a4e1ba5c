"""The task of ``benchmarks.fair_shares``: it holds a slot for a while, and bears witness of how many do so at once."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scheduling import current_job, job

WITNESSES = "FAIRBEAT_BENCH_WITNESSES"  # a folder: one file for each slot that somebody may hold
PLACES = 64


@job(name="bench.hold")
def hold(work_s: float) -> None:
    time.sleep(work_s)


@job(name="bench.witnessed")
def witnessed(work_s: float) -> None:
    """A lock on a file is given up with its process, however that ends; so a killed run is not counted any more."""
    folder = Path(os.environ[WITNESSES])
    with _place(folder):
        seen = sum(_is_held(folder / str(number)) for number in range(PLACES))
        with (folder / "seen").open("a") as log:
            log.write(f"{seen} {current_job().fire_id}\n")
        time.sleep(work_s)


@contextmanager
def _place(folder: Path) -> Iterator[None]:
    """The first that nobody holds."""
    for number in range(PLACES):
        file = os.open(folder / str(number), os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            continue
        try:
            yield
        finally:
            os.close(file)
        return
    raise RuntimeError(f"more than {PLACES} at once")


def _is_held(path: Path) -> bool:
    """By anybody, us included: the lock belongs to the open file, not to the process."""
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False
