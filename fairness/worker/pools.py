"""How a request is given to each kind of pool, and how its end is learnt there.

| pool | a slot is | the end is |
|---|---|---|
| prefork, beside an event loop | a process | one of the request's callbacks |
| threads | a thread | its future's |
| gevent | a greenlet | the greenlet's |
| solo | the worker itself | the return |

The pool's own queue stays empty: no more is given to it than it has slots. Of another pool (eventlet; prefork on a
transport without an event loop) the end is not learnt, so its order stays Celery's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

CALLBACKS = ("on_success", "on_failure", "on_timeout")


class Handing(Protocol):
    """Gives a request to its pool; ``over`` is called once or more, in whatever thread, when its slot is free again.

    Raises ``TaskRevokedError`` where it was revoked or has expired: ``over`` is not called then.
    """

    is_inline: bool  # it runs in the loop's thread, which reads nothing meanwhile
    forgets: bool  # what the pool has not begun when the connection is lost, it drops, and calls nobody

    def __call__(self, request: Any, over: Callable[[], None]) -> None: ...


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


class Prefork:
    """The pool calls the request back in the loop's thread."""

    is_inline, forgets = False, True

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def __call__(self, request: Any, over: Callable[[], None]) -> None:
        succeeded, failed, timed_out = request.on_success, request.on_failure, request.on_timeout

        def release() -> None:
            for name in CALLBACKS:
                request.__dict__.pop(name, None)  # they hold the request, which holds them

        def end() -> None:
            release()
            over()

        # The process is free by now: the next request goes before this one is acknowledged and accounted for.
        def on_success(*args: Any, **options: Any) -> None:
            try:
                end()
            finally:
                succeeded(*args, **options)

        def on_failure(*args: Any, **options: Any) -> None:
            try:
                end()
            finally:
                failed(*args, **options)

        def on_timeout(soft: Any, timeout: Any) -> Any:
            try:
                return timed_out(soft, timeout)
            finally:
                if not soft:
                    end()

        request.on_success, request.on_failure, request.on_timeout = on_success, on_failure, on_timeout
        try:
            given = request.execute_using_pool(self._pool)
        except BaseException:
            release()
            raise
        if given is None:  # the pool is ending, and takes nothing
            end()


class Threads:
    is_inline, forgets = False, False

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def __call__(self, request: Any, over: Callable[[], None]) -> None:
        request.execute_using_pool(self._pool).f.add_done_callback(lambda _: over())


class Gevent:
    """A greenlet may be killed before it begins: its link is told of that, too."""

    is_inline, forgets = False, False

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def __call__(self, request: Any, over: Callable[[], None]) -> None:
        request.execute_using_pool(self._pool).link(lambda _: over())


class Solo:
    is_inline, forgets = True, False

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def __call__(self, request: Any, over: Callable[[], None]) -> None:
        request.execute_using_pool(self._pool)
        over()
