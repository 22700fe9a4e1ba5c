"""Tells a user's receivers what the node did: ``job_fired``, ``job_failed``, ``job_dead``.

In a thread of its own, since nobody knows how long a receiver takes; where nobody listens nothing is handed over, and
nothing is built. Told is what has been committed, or confirmed by the broker. A receiver that cannot keep up makes the
queue grow to ``LIMIT``; what comes on top is not told, and that is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Full, Queue
from threading import Thread
from typing import Any

from django.db import close_old_connections
from django.dispatch import Signal

from scheduling import signals
from scheduling.core.fire import Fire, State
from scheduling.core.lost_lease import LostRun
from scheduling.models import Job

logger = logging.getLogger(__name__)
LIMIT = 10_000  # batches

Facts = dict[str, Any]
News = tuple[Signal, Callable[[], Facts]]


class Hooks:
    """Any thread may hand over; its own tells."""

    def __init__(self) -> None:
        self._news: Queue[Sequence[News] | None] = Queue(LIMIT)
        self._is_over = False
        self._thread = Thread(target=self._run, name="hooks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Tell what is there by now, for at most so long."""
        self._is_over = True
        with suppress(Full):
            self._news.put_nowait(None)
        self._thread.join(timeout_s)

    @property
    def tells_of_fires(self) -> bool:
        """Whether anybody listens to ``job_fired``."""
        return bool(signals.job_fired.has_listeners(Job))

    def fired(self, fires: Sequence[Fire]) -> None:
        """The broker has these."""
        self._put([(signals.job_fired, partial(signals.facts_of, fire)) for fire in fires])

    def lost(self, runs: Sequence[LostRun]) -> None:
        """These were ended by the owner of their shard: they outlived their leases, or made room."""
        told = [(signals.job_dead if run.state is State.DEAD else signals.job_failed, run) for run in runs]
        self._put([(signal, partial(_lost, run)) for signal, run in told if signal.has_listeners(Job)])

    def _put(self, news: Sequence[News]) -> None:
        if not news:
            return
        try:
            self._news.put_nowait(news)
        except Full:
            logger.error("receivers of signals do not keep up: %d signals were not sent", len(news))

    def _run(self) -> None:
        while (news := self._news.get()) is not None:
            for signal, facts in news:
                signals.tell(signal, facts)
            close_old_connections()  # a receiver's: this thread may be idle for hours
            if self._is_over and self._news.empty():
                return


def _lost(run: LostRun) -> Facts:
    return {
        "fire_id": run.fire_id,
        "job_id": run.job_id,
        "tenant": run.tenant,
        "name": run.name,
        "task": run.task,
        "scheduled_for": run.scheduled_for,
        "origin": run.origin,
        "attempt": run.attempt,
        "error": run.error,
        "reason": run.reason if run.state is State.DEAD else "lost",
    }
