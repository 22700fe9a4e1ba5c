"""The tasks of ``benchmarks.worker_death``; their runs are in the log of runs."""

from __future__ import annotations

import time

from scheduling import job
from tests.chaos.tasks import running

STAYS_S = 600.0


@job(name="bench.first_stays")
def first_stays() -> None:
    with running() as fire:
        if fire.attempt == 1:
            time.sleep(STAYS_S)


@job(name="bench.warm")
def warm() -> None:
    """Long enough that every process gets some of them."""
    with running():
        time.sleep(0.5)
