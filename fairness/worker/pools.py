"""How a request is given to each kind of pool, and how its end is learnt there.

| pool | a slot is | the end is |
|---|---|---|
| prefork, beside an event loop | a process | one of the request's callbacks |
| threads | a thread | its future's |
| gevent | a greenlet | the greenlet's |
| solo | the worker itself | the return |

The pool's own queue is short: beyond its slots only what the door hands ahead is given to it, and that to threads
alone: a process is written to when its last result has been read, so that nothing would be won by it. Of another pool
(eventlet; prefork on a transport without an event loop) the end is not learnt, so its order stays Celery's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from fairness.worker.hearing import Hearing


class Handing(ABC):
    """Gives a request to its pool; ``over`` is called once or more, in whatever thread, when its slot is free again.

    Raises ``TaskRevokedError`` where it was revoked or has expired: ``over`` is not called then.
    """

    is_inline: bool  # it runs in the loop's thread, which reads nothing meanwhile
    can_queue: bool  # what is given beyond its slots begins in that order
    forgets: bool  # what the pool has not begun when the connection is lost, it drops, and calls nobody

    @abstractmethod
    def __call__(self, request: Any, over: Callable[[], None]) -> None: ...

    def connected(self, shut: Callable[[], None]) -> None:  # noqa: B027  (most pools forget nothing)
        """``shut`` is called before the pool forgets what it has not begun: it is to be given nothing more then."""

    def drop(self) -> None:  # noqa: B027  (most have nothing to drop, or Celery does it)
        """The connection is lost, and what has not begun will be delivered again: it is not to begin."""


def handing(c: Any) -> Handing | None:
    """For this worker's pool; None: it is not known there when a request has ended."""
    from celery.concurrency import prefork, solo, thread  # not for processes that only publish

    pool = c.pool
    if isinstance(pool, prefork.TaskPool):
        return Prefork(pool) if c.hub is not None else None
    if isinstance(pool, thread.TaskPool):
        return Threads(pool)
    if isinstance(pool, solo.TaskPool):
        return Solo(pool)
    if getattr(pool, "is_green", False) and hasattr(pool, "_pool_map"):
        return Gevent(pool)
    return None


class Prefork(Handing):
    """The pool calls the request back in the loop's thread."""

    is_inline, can_queue, forgets = False, False, True

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def __call__(self, request: Any, over: Callable[[], None]) -> None:
        succeeded, failed, timed_out = request.on_success, request.on_failure, request.on_timeout

        # The process is free by now: the next request goes before this one is acknowledged and accounted for.
        def on_success(*args: Any, **options: Any) -> None:
            try:
                over()
            finally:
                succeeded(*args, **options)

        def on_failure(*args: Any, **options: Any) -> None:
            try:
                over()
            finally:
                failed(*args, **options)

        def on_timeout(soft: Any, timeout: Any) -> Any:
            try:
                return timed_out(soft, timeout)
            finally:
                if not soft:
                    over()

        request.on_success, request.on_failure, request.on_timeout = on_success, on_failure, on_timeout
        try:
            given = request.execute_using_pool(self._pool)
        finally:  # the pool has them; they hold the request
            del request.on_success, request.on_failure, request.on_timeout
        if given is None:  # the pool is ending, and takes nothing
            over()

    def connected(self, shut: Callable[[], None]) -> None:
        if not isinstance(self._pool.flush, Hearing):
            self._pool.flush = Hearing(self._pool, shut)


class Threads(Handing):
    is_inline, can_queue, forgets = False, True, False

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._futures: set[Future[Any]] = set()

    def __call__(self, request: Any, over: Callable[[], None]) -> None:
        def done(future: Future[Any]) -> None:
            self._futures.discard(future)
            over()

        future = request.execute_using_pool(self._pool).f
        self._futures.add(future)
        future.add_done_callback(done)

    def drop(self) -> None:
        for future in tuple(self._futures):
            future.cancel()  # which does nothing to one that has begun


class Gevent(Handing):
    """A greenlet may be killed before it begins: its link is told of that, too."""

    is_inline, can_queue, forgets = False, False, False

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def __call__(self, request: Any, over: Callable[[], None]) -> None:
        request.execute_using_pool(self._pool).link(lambda _: over())


class Solo(Handing):
    is_inline, can_queue, forgets = True, False, False

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def __call__(self, request: Any, over: Callable[[], None]) -> None:
        request.execute_using_pool(self._pool)
        over()
