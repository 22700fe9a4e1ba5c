"""Finds dead children soon, in a worker whose pool is one of processes beside an event loop.

Celery looks for them when a child's pipe closes, and then each 5 s. A child that the system has not quite ended in that
moment (it was large, or the machine is busy) is found by the later look alone, and so long nobody ends its attempt. To
look costs a system call for each child. Does not do: anything in other pools: they look themselves, or have none.
"""

from __future__ import annotations

from typing import Any

from celery import bootsteps

LOOK_S = 0.5


class Children(bootsteps.StartStopStep):
    """A step of the worker's consumer."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._timer: Any = None

    def start(self, c: Any) -> None:
        if c.hub is not None:
            self._timer = c.timer.call_repeatedly(LOOK_S, c.pool.maintain_pool)

    def stop(self, c: Any) -> None:
        if self._timer is not None:
            c.timer.cancel(self._timer)
            self._timer = None
