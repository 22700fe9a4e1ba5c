"""The ports that a broker's adapters implement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from scheduling.core.errors import FairbeatError
from scheduling.core.fire import Fire, Outcome
from scheduling.core.gates import Queue

Report = Callable[[Sequence[Outcome]], None]
"""Takes outcomes as they come. Called from a thread of the publisher, one call at a time, never from within
``publish``; it must be quick and must not raise: a publisher cannot tell anyone else what became of a fire."""


class Publisher(Protocol):
    """Takes fires, and later reports exactly one outcome for each of them.

    Invariants: ``publish`` never blocks on the network; outcomes may come in any order; a fire that was never handed
    to the broker is reported ``UNSENT`` at once, and never kept for a better day (its misfire policy has to be judged
    again first).
    """

    def start(self, report: Report) -> None:
        """Begins. May take until a first attempt to connect has ended, whatever came of it, so that the first fires
        find a connection."""

    def publish(self, fires: Sequence[Fire]) -> None:
        """Hands over a batch. Called from one thread at a time. Raises ``RuntimeError`` before ``start`` and after
        ``stop``."""

    def stop(self, *, timeout_s: float) -> None:
        """Sends what was handed over and waits for outstanding outcomes up to ``timeout_s`` real seconds; what was
        sent and is still open then is reported ``LOST``. When it returns, every fire has its outcome. May be called
        again."""


class BrokerSilent(FairbeatError):
    """The broker did not answer."""


class QueueWatch(Protocol):
    """Looks into queues. May block for as long as it takes to connect; one thread calls it."""

    def empty(self, fires: Sequence[Fire]) -> frozenset[Queue]:
        """Those of the queues of these fires in which no message waits for a worker, or which do not exist.

        Raises BrokerSilent.
        """
