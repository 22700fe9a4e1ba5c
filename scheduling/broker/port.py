"""The port that every publisher implements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from scheduling.core.fire import Fire, Outcome

Report = Callable[[Sequence[Outcome]], None]


class Publisher(Protocol):
    """Takes fires, and later reports exactly one outcome for each of them.

    Invariants: ``publish`` never blocks on the network; outcomes may come in any order and from any thread; a fire that
    was never handed to the broker is reported ``UNSENT`` at once, and never kept for a better day (its misfire policy has to be
    judged again first).
    """

    def start(self, report: Report) -> None:
        """Begin; ``report`` is called from the publisher's own thread."""

    def publish(self, fires: Sequence[Fire]) -> None:
        """Hand over a batch. Called from one thread at a time."""

    def stop(self, *, timeout_s: float) -> None:
        """Wait for outstanding confirms up to ``timeout_s`` real seconds; what is left is reported ``LOST``."""
