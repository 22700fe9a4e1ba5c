"""Ends, from the worker's parent process, the attempts of children that cannot do so any more.

In threads of its own, each with a connection for that moment: the parent's event loop waits for nobody, and a child
that is forked meanwhile inherits no connection in use. Invariant: no attempt is ended while its child lives, else two
bodies of one fire would run at a time. Does not do: insist; where the child does not end or the database does not
answer, the lease runs out and the fire's owner ends the attempt.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

from django.db import Error, connections

from scheduling.core.fire import State
from scheduling.store.ledger_port import Delivery, Ending
from scheduling.worker.process import worker_process

THREADS = 4
GONE_WITHIN_S, LOOK_S = 10.0, 0.01  # Celery kills it when whoever listens to the task's failure has been told

log = logging.getLogger(__name__)


def lose(
    delivery: Delivery,
    *,
    child: int | None,
    worker: str,
    error: str,
    run_state: Ending,
    then: Callable[[State | None], None],
    unknown: Callable[[], None],
) -> None:
    """Ask the ledger to end the attempt of this process id. ``then`` is called with what the ledger says, ``unknown``
    where it says nothing or the child does not go, both in another thread.
    """

    def ask() -> None:
        if not _is_gone(child):
            log.warning("fire %s: its child %s does not end, and may still run it", delivery.fire_id, child)
            unknown()
            return
        try:
            state = worker_process().ledger.lose(delivery, worker=worker, error=error, run_state=run_state)
        except Error as problem:
            log.warning("fire %s: that it was %s could not be written: %s", delivery.fire_id, run_state, problem)
            unknown()
        else:
            log.info("fire %s (fence %d): %s, %s", delivery.fire_id, delivery.fence, run_state, state or "not its own")
            then(state)
        finally:
            connections.close_all()

    _threads().submit(ask).add_done_callback(_log_failure)


def _is_gone(child: int | None) -> bool:
    """Whether a child that is being killed has ended, or does so in time. Until then it may still act."""
    if child is None or child == os.getpid():  # Celery's word for a message that was to have no child any more
        return True
    deadline_s = time.monotonic() + GONE_WITHIN_S
    while time.monotonic() < deadline_s:
        try:
            os.kill(child, 0)
        except (ProcessLookupError, PermissionError):  # gone, or its number is another user's by now
            return True
        time.sleep(LOOK_S)
    return False


@cache
def _threads() -> ThreadPoolExecutor:
    """Made when the first child is lost. The process ends when they have written what they were told."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix="fairbeat-losses")


os.register_at_fork(after_in_child=_threads.cache_clear)


def _log_failure(asked: Future[None]) -> None:
    if (problem := asked.exception()) is not None:
        log.error("a lost child's fire: its worker could not go on", exc_info=problem)
