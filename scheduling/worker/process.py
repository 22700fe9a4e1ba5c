"""What the tasks of one process share: the ledger and the heartbeat. Made at the first fire, and anew after a fork."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

from scheduling.failpoints import arm_from_environment
from scheduling.store.ledger import PostgresLedger
from scheduling.worker.heartbeat import Heartbeat
from scheduling.worker.notices import CancelNotices


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    ledger: PostgresLedger
    heartbeat: Heartbeat
    lease_s: float  # real


_in_place: WorkerProcess | None = None


def worker_process() -> WorkerProcess:
    """This process's own, or what a test has put in its place."""
    return own_process() if _in_place is None else _in_place


@contextmanager
def in_place(process: WorkerProcess) -> Iterator[None]:
    """Within it ``process`` is what tasks run with, in whatever thread."""
    global _in_place
    before, _in_place = _in_place, process
    try:
        yield
    finally:
        _in_place = before


@cache
def own_process() -> WorkerProcess:
    """Raises ValueError for settings, and InvalidField for failpoints, that cannot be."""
    from django.conf import settings
    from django.db import router

    from scheduling.conf import scheduling_settings
    from scheduling.models import Fire

    arm_from_environment()
    lease_s = scheduling_settings(settings).FIRE_LEASE_S
    using = router.db_for_write(Fire)
    ledger = PostgresLedger(using, lease=timedelta(seconds=lease_s))
    return WorkerProcess(ledger, Heartbeat(ledger, every_s=lease_s / 3, notices=CancelNotices(using)), lease_s)


os.register_at_fork(after_in_child=own_process.cache_clear)
