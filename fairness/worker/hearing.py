"""What processes have said is heard before their pool forgets what none of them has begun.

When a worker ends, or loses its connection, Celery has the pool forget (``flush``) whatever it has not read to have
begun: that will be delivered again. A process that has begun it all the same runs it to its end, unheard: it is
delivered again, too, and when the worker ends, the process waits for half a minute to be heard (billiard's
``_ensure_messages_consumed``), and the worker for the process. Where tasks are short some process has just begun
whenever that happens.

Celery's own way of reading at the end of a worker is used, which completes a message that was read in part. Does not
do: wait for what is not written whole to its process; a process that says nothing within a second is not waited for.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from time import monotonic
from typing import Any

HEAR_S = 1.0
LOOK_MS = 20


class Hearing:
    """In place of the ``flush`` of a prefork pool; ``before`` is called first, and is to keep new work from it."""

    def __init__(self, pool: Any, before: Callable[[], None]) -> None:
        self._pool, self._flush, self._before = pool._pool, pool.flush, before

    def __call__(self) -> None:
        self._before()
        deadline = monotonic() + HEAR_S
        while self._has_unheard() and monotonic() < deadline:
            self._hear()
        self._flush()

    def _has_unheard(self) -> bool:
        """Whether a process was given something, and has not said that it begins."""
        return any(
            not job._accepted and job._write_to is not None and job._write_to._is_alive()
            for job in tuple(self._pool._cache.values())
        )

    def _hear(self) -> None:
        results, of_processes = self._pool._result_handler, self._pool._fileno_to_outq
        poll = select.poll()
        for fd in of_processes:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(LOOK_MS):
            results._flush_outqueue(fd, _left_to_the_pool, of_processes, results.on_state_change)


def _left_to_the_pool(_: int) -> None:
    """Its process is gone."""
