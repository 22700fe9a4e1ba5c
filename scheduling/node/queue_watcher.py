"""The thread that asks the broker for what waits in queues: it may take seconds, and nobody waits for it.

A broker that does not answer says nothing of any queue: then none is taken for empty, and nothing is sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread

from scheduling.broker.port import BrokerSilent, QueueWatch
from scheduling.core.fire import Fire
from scheduling.core.gates import Queue

logger = logging.getLogger(__name__)
Seen = Callable[[frozenset[Queue]], None]


class QueueWatcher:
    """``on_seen`` is called from its thread, once for each look, with the queues that are empty or gone."""

    def __init__(self, watch: QueueWatch, on_seen: Seen) -> None:
        self._watch, self._on_seen = watch, on_seen
        self._looks: SimpleQueue[Sequence[Fire] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="watches queues", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def look(self, fires: Sequence[Fire]) -> None:
        """At the queues of these fires; returns at once."""
        self._looks.put(fires)

    def stop(self) -> None:
        """End behind the look that is under way. Nobody needs to wait for it."""
        self._looks.put(None)

    def _run(self) -> None:
        while (fires := self._looks.get()) is not None:
            self._on_seen(self._empty(fires))

    def _empty(self, fires: Sequence[Fire]) -> frozenset[Queue]:
        try:
            return self._watch.empty(fires) if fires else frozenset()
        except BrokerSilent as problem:
            logger.warning("%s", problem)
        except Exception:
            logger.exception("it could not be looked what waits in %d queues", len(fires))
        return frozenset()
