"""What becomes of a run whose lease is out: its worker is gone, or was frozen.

The first such retry is at once, since nothing says that the task is at fault; later ones come with backoff. Without
attempts left the fire is dead, and so it is when its job was deleted, or it was asked to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from scheduling.core.fire import State
from scheduling.core.retry import backoff

ERROR = "the lease ran out"


@dataclass(frozen=True, slots=True)
class LostLease:
    """``wait`` is job time, None where there is no retry."""

    state: State
    reason: str
    wait: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRun:
    """A run, or a retry that waited, which its owner has ended: what is told of it. ``state`` and ``reason`` are the
    fire's from then on.
    """

    fire_id: UUID
    job_id: UUID
    tenant: str
    name: str
    task: str
    scheduled_for: datetime
    origin: str
    attempt: int
    state: State
    reason: str
    error: str = ERROR


def after_lost_lease(
    attempt: int,
    max_attempts: int,
    *,
    deleted: bool,
    base: timedelta,
    cap: timedelta,
    rand: Callable[[], float],
    counted: int | None = None,
) -> LostLease:
    """The end of attempt number ``attempt``, the ``counted``-th of those that count (snoozes and redrives do not).
    ``deleted``: its job was, or the run was asked to stop. ``rand`` gives a number in [0, 1).
    """
    if deleted:
        return LostLease(State.DEAD, "cancelled", None)
    if attempt >= max_attempts:
        return LostLease(State.DEAD, "attempts_exhausted", None)
    before = (attempt if counted is None else max(1, counted)) - 1
    wait = backoff(before, base=base, cap=cap, rand=rand) if before else timedelta(0)
    return LostLease(State.RETRY_WAIT, "lease_lost", wait)
