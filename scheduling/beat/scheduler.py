"""The scheduler class that Celery's beat loads.

Beat's loop is kept, and so are its signals, banner, remote control and exit; what it schedules is not::

    beat: Service.start ──tick()──▶ first: a node starts in a thread, the code's entries become jobs
                         ──tick()──▶ then: is the node alive? has the code's schedule changed?
    SIGTERM, SIGINT      ──close()─▶ the node drains

Nothing happens before the first tick: for its banner beat makes an instance that must touch nothing (``lazy``), and a
SIGTERM that comes early makes one only to close it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click
from billiard import current_process
from celery.backends.base import DisabledBackend
from celery.beat import ScheduleEntry, Scheduler
from celery.schedules import crontab

from scheduling.core.errors import FairbeatError

if TYPE_CHECKING:  # Django may not be set up yet where this class is named
    from scheduling.beat.code_sync import CodeSync
    from scheduling.beat.running_node import RunningNode

logger = logging.getLogger(__name__)
MAX_INTERVAL_S = 5
LOOK_S = 1.0  # how soon beat ends when its node has
DRAIN_S = 15.0
CLEANUP = "celery.backend_cleanup"


class CannotSchedule(click.ClickException, FairbeatError):
    """Ends beat with this sentence, its last line, and with status 1."""

    def __init__(self, why: str) -> None:
        super().__init__("; ".join(line.strip() for line in why.splitlines()))


class FairbeatScheduler(Scheduler):
    """``max_interval`` is how often the code's schedule is looked at for changes, in seconds."""

    max_interval = MAX_INTERVAL_S

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._running: RunningNode | None = None
        self._code: CodeSync | None = None
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        """Nothing yet: see the first tick."""

    @property
    def schedule(self) -> Mapping[str, ScheduleEntry]:  # type: ignore[override]
        """The code's entries, to be looked at: they change in ``app.conf.beat_schedule``, and run as jobs."""
        return MappingProxyType({name: self._entry(name, entry) for name, entry in self._said().items()})

    @property
    def info(self) -> str:
        return "    . jobs -> in Postgres; a node of Fairbeat runs in this process"

    def tick(self, *_: Any, **__: Any) -> float:
        """Seconds until the next one.

        Raises CannotSchedule: the settings are wrong, or the node has ended, as it does where there is no database.
        """
        if self._running is None or self._code is None:
            _refuse_embedded()
            self._start()
        elif why := self._running.ended():
            raise CannotSchedule(why)
        else:
            self._code.look(self._said())
        return min(float(self.max_interval or MAX_INTERVAL_S), LOOK_S)

    def close(self) -> None:
        """Drain the node and give up its shards. Beat calls it twice, the first time in the handler of the signal."""
        running, self._running = self._running, None
        if running is not None and not running.stop(timeout_s=DRAIN_S):
            logger.error("the node did not drain within %g s; others take its shards when its lease is over", DRAIN_S)

    def _start(self) -> None:
        from scheduling.beat.code_sync import CodeSync
        from scheduling.beat.running_node import RunningNode, configured_node

        try:
            node = configured_node()
        except (FairbeatError, ValueError) as problem:
            raise CannotSchedule(str(problem)) from problem
        self._running = RunningNode(node)
        self._running.start()
        self._code = CodeSync(self.app, look_s=float(self.max_interval or MAX_INTERVAL_S))
        self._code.look(self._said())

    def _said(self) -> dict[str, Any]:
        """What the code says, and the clean-up of results where Celery would add it."""
        said = dict(self.app.conf.beat_schedule)
        backend = self.app.backend
        keeps = not (backend.supports_autoexpire or isinstance(backend, DisabledBackend))
        if self.app.conf.result_expires and keeps:
            said.setdefault(CLEANUP, {"task": CLEANUP, "schedule": crontab(minute="0", hour="4")})
        return said

    def _entry(self, name: str, entry: Any) -> ScheduleEntry:
        return self.Entry(**dict(entry, name=name, app=self.app))


def _refuse_embedded() -> None:
    """``worker -B`` ends its beat with a bare SIGTERM, in which nothing drains. The worker goes on without.

    SystemExit is what beat's loop takes for a wish to end.
    """
    if current_process().name == "MainProcess" and threading.current_thread() is threading.main_thread():
        return
    logger.error(
        "worker -B is refused: a node needs a process that ends in order. "
        "Run `celery beat -S fairbeat` or `manage.py scheduler` beside the worker, which goes on without beat"
    )
    raise SystemExit
