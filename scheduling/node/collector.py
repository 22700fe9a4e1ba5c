"""A node's thread that brings home what the broker has dead-lettered: into the ledger, or among the dead letters.

::

    database answers ──▶ broker answers ──▶ take ──▶ write ──▶ acknowledge ──▶ tell ──▶ take …
           ▲                                  │        │            │
           └──────── 1 s, doubling to 30 s ───┴────────┴────────────┘  what was taken goes back to its queue

Any number of nodes do it side by side: the broker shares the messages out, and what was written of one twice is written
once. The broker is asked only once the database answers, since a message that is taken and given back again and again
is one that a broker may drop. Does not do: own a shard, or look at an epoch: each write is a condition on the fire.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from threading import Event, Thread
from typing import Any

from django.db import close_old_connections

from scheduling import signals
from scheduling.broker.dead_letters import BrokerUnavailable, DeadLetterQueues
from scheduling.store.collect import Collected, CollectStore, Ended
from scheduling.store.fates import Fate
from scheduling.store.port import StoreUnavailable

logger = logging.getLogger(__name__)
LOOK_UP_S = 0.5  # how soon a stop is noticed
PAUSE_MIN_S, PAUSE_MAX_S = 1.0, 30.0


class Collector:
    """Reads ``queues``, writes to ``store``; both are its own."""

    def __init__(self, queues: DeadLetterQueues, store: CollectStore) -> None:
        self._queues, self._store = queues, store
        self._stop = Event()
        self._pause_s = PAUSE_MIN_S
        self._is_out = False  # and it was said
        self._thread = Thread(target=self._run, name="dead letters", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End; what is not acknowledged by then is another node's. May be called again, and without a start."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._work()
            except (BrokerUnavailable, StoreUnavailable) as problem:
                if not self._is_out:
                    logger.warning("dead letters are left where they are for now: %s", problem)
                self._is_out = True
            except Exception:
                logger.exception("dead letters could not be collected")
            self._queues.close()
            self._stop.wait(self._pause_s)
            self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)
        self._store.close()

    def _work(self) -> None:
        self._store.ping()
        self._queues.open()
        while not self._stop.is_set():
            messages = self._queues.take(wait_s=LOOK_UP_S)
            collected = self._store.collect(messages) if messages else []
            if messages:
                self._queues.acknowledge()
            self._pause_s = PAUSE_MIN_S
            if self._is_out:
                logger.info("dead letters are collected again")
                self._is_out = False
            self._tell(collected)

    def _tell(self, collected: Sequence[Collected]) -> None:
        if not collected:
            return
        counts = Counter(_outcome(one) for one in collected)
        logger.warning("dead letters: %s", ", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
        for one in collected:
            if one.ended is not None:
                signal = signals.job_dead if one.verdict.fate is Fate.DEAD else signals.job_failed
                signals.tell(signal, partial(_facts, one, one.ended))
        close_old_connections()  # a receiver's


def _outcome(one: Collected) -> str:
    fate, reason = one.verdict.fate, one.verdict.reason
    if fate is Fate.COUNTED or (fate is not Fate.KEPT and one.ended is None):
        return f"late ({reason})"
    return "given back" if fate is Fate.GIVEN_BACK else f"{fate} ({reason})"


def _facts(one: Collected, ended: Ended) -> Mapping[str, Any]:
    return {
        "fire_id": ended.fire.fire_id,
        "job_id": ended.fire.job_id,
        "tenant": ended.fire.tenant,
        "name": ended.name,
        "task": ended.task,
        "scheduled_for": ended.fire.scheduled_for,
        "origin": ended.origin,
        "attempt": ended.attempt,
        "error": one.verdict.error,
        "reason": "lost" if one.verdict.fate is Fate.GIVEN_BACK else one.verdict.reason,
    }
