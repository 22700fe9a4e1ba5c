"""What becomes of a run whose lease is out: its worker is gone, or was frozen.

The first such retry is at once, since nothing says that the task is at fault; later ones come with backoff. Without
attempts left the fire is dead, and so it is when its job was deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from scheduling.core.fire import State
from scheduling.core.retry import backoff


@dataclass(frozen=True, slots=True)
class LostLease:
    """``wait`` is job time, None where there is no retry."""

    state: State
    reason: str
    wait: timedelta | None


def after_lost_lease(
    attempt: int, max_attempts: int, *, deleted: bool, base: timedelta, cap: timedelta, rand: Callable[[], float]
) -> LostLease:
    """The end of attempt number ``attempt``; ``rand`` gives a number in [0, 1)."""
    if deleted:
        return LostLease(State.DEAD, "cancelled", None)
    if attempt >= max_attempts:
        return LostLease(State.DEAD, "attempts_exhausted", None)
    wait = backoff(attempt - 1, base=base, cap=cap, rand=rand) if attempt > 1 else timedelta(0)
    return LostLease(State.RETRY_WAIT, "lease_lost", wait)
