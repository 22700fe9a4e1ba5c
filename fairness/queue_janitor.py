"""Takes queues out of use that nothing was published to for a day, and removes them from the broker, in two steps.

::

    in use, idle and empty ──▶ retired: nobody publishes to it, workers leave it
                                  │ a minute later, by when everybody has read that
                                  ├─ something is in it ──▶ in use again
                                  ├─ somebody consumes it ─▶ left as it is
                                  └─ empty ───────────────▶ deleted, and its row

A broker refuses to delete a quorum queue only if it is empty and unused; it is looked before, and the row is held
meanwhile. A publisher that has not read the rows for a minute may still put a message into it between look and
deletion: that one is counted in the log, and sent again by who looks for what was never started. Any number of nodes
may tidy: each step is a condition on the row.
"""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Protocol

from fairness.queue_rows import Connect, QueueRows, QueueRowsUnavailable

log = logging.getLogger(__name__)

EVERY_S = 60.0
IDLE_S = 86_400.0
GRACE_S = 60.0
ROUND = 1000  # queues of each step at a time


class BrokerQueuesUnavailable(Exception):
    """The broker does not answer, or refuses what was asked."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """``messages``: those that wait; what a worker has taken and not acknowledged is not among them."""

    messages: int
    consumers: int


class BrokerQueues(Protocol):
    """The queues of a broker, over one connection. Every method raises BrokerQueuesUnavailable."""

    def state(self, name: str) -> QueueState | None:
        """None: there is no such queue."""

    def delete(self, name: str) -> int:
        """Returns how many messages were deleted with it."""


class Look(Protocol):
    """Connects. Raises BrokerQueuesUnavailable."""

    def __call__(self) -> AbstractContextManager[BrokerQueues]: ...


@dataclass(frozen=True, slots=True)
class Tidied:
    """What one round did, by the queues' names."""

    retired: list[str]
    restored: list[str]
    deleted: list[str]


class Janitor:
    """A thread, on a connection of its own that is made when it is asked for the first time."""

    def __init__(
        self,
        connect: Connect,
        look: Look,
        *,
        every_s: float = EVERY_S,
        idle_s: float = IDLE_S,
        grace_s: float = GRACE_S,
    ) -> None:
        self._rows, self._look = QueueRows(connect), look
        self._every_s, self._idle_s, self._grace_s = every_s, idle_s, grace_s
        self._next_at = time.monotonic() + every_s  # not at once: a node that starts has better things to do
        self._asked: SimpleQueue[bool] = SimpleQueue()
        self._thread = Thread(target=self._run, name="queue janitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask(self) -> None:
        """Tidy, if that was long enough ago; returns at once."""
        if time.monotonic() >= self._next_at and self._asked.empty():
            self._next_at = time.monotonic() + self._every_s
            self._asked.put(True)

    def stop(self, timeout_s: float) -> None:
        """End behind what is under way, which may as well be cut off. May be called again, and without a start."""
        self._asked.put(False)
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while self._asked.get():
            try:
                self.tidy()
            except (QueueRowsUnavailable, BrokerQueuesUnavailable) as problem:
                log.warning("queues that are not used any more stay for now: %s", problem)
            except Exception:
                log.exception("queues that are not used any more could not be retired")
        self._rows.close()

    def tidy(self) -> Tidied:
        """One round, in the caller's thread. Raises QueueRowsUnavailable, BrokerQueuesUnavailable."""
        idle = self._rows.idle(idle_s=self._idle_s, limit=ROUND)
        over = self._rows.retired(grace_s=self._grace_s, limit=ROUND)
        done = Tidied([], [], [])
        if not idle and not over:
            return done
        with self._look() as broker:
            for name in over:
                self._end(name, broker, done)
            empty = [name for name in idle if not (state := broker.state(name)) or not state.messages]
        done.retired.extend(self._rows.retire(empty, idle_s=self._idle_s) if empty else ())
        for what, names in (("retired", done.retired), ("in use again", done.restored), ("deleted", done.deleted)):
            if names:
                log.info("queues %s: %s", what, ", ".join(sorted(names)))
        return done

    def _end(self, name: str, broker: BrokerQueues, done: Tidied) -> None:
        with self._rows.holding(name) as is_ours:
            if not is_ours:
                return
            state = broker.state(name)
            if state is not None and state.messages:
                self._rows.restore(name)
                done.restored.append(name)
            elif state is None or not state.consumers:
                if state is not None and (dropped := broker.delete(name)):
                    log.error("%d messages came into %s as it was deleted; they are sent again", dropped, name)
                self._rows.forget(name)
                done.deleted.append(name)
