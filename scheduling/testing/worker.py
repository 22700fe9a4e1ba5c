"""A worker without a process: runs a message as a Celery worker does, in the thread of the test.

The task, its attempt and the ledger are the real ones, through Celery's own trace; results are not stored anywhere. The
heartbeat beats when the clock moves. Does not do: time limits, and losing connections.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from traceback import format_exception_only
from typing import Any
from uuid import uuid4

from celery import Celery
from celery.app import app_or_default
from celery.app.trace import trace_task
from celery.exceptions import Retry
from kombu.utils.json import loads

from scheduling import signals
from scheduling.core.clock import Clock
from scheduling.failpoints import Point, armed
from scheduling.store.ledger import PostgresLedger
from scheduling.store.ledger_port import Acquired, Delivery, Refused
from scheduling.testing.broker import Message
from scheduling.worker.context import JobContext
from scheduling.worker.heartbeat import Heartbeat
from scheduling.worker.process import WorkerProcess
from scheduling.worker.task import JobTask

Verdict = Acquired | Refused


@dataclass(frozen=True, slots=True)
class Delivered:
    """What came of one delivery. ``verdict`` None: the ledger was not asked; it knows nothing of plain Celery tasks."""

    message: Message
    verdict: Verdict | None
    value: Any  # the task's value, or what it raised

    @property
    def has_run(self) -> bool:
        return not isinstance(self.verdict, Refused)

    @property
    def error(self) -> str:
        """What the task raised, in a line, as the history has it; empty where nothing has failed."""
        raised = self.value.exc if isinstance(self.value, Retry) else self.value
        return "".join(format_exception_only(raised)).strip() if isinstance(raised, BaseException) else ""


class PlayedWorker:
    """``process`` has to be in the place of this process's own while it works."""

    def __init__(self, using: str, *, lease_s: float, clock: Clock) -> None:
        self._ledger = _AskedLedger(using, lease=timedelta(seconds=lease_s))
        self.heartbeat = _DrivenHeartbeat(self._ledger, every_s=lease_s / 3, monotonic=clock.monotonic)
        self.process = WorkerProcess(self._ledger, self.heartbeat, lease_s)
        self._host = "worker@test"

    def deliver(self, message: Message) -> Delivered:
        """Run it, or have it refused. Raises Died, and what keeps the ledger from being asked."""
        app = _app()
        task = app.tasks.get(message.task)
        if task is None:
            return Delivered(message, None, self._bury(message))
        asked = len(self._ledger.verdicts)
        args, kwargs, _ = loads(message.body)
        request = message.headers | {"is_eager": False, "hostname": self._host, "delivery_info": {}}
        traced = trace_task(task, str(message.fire_id), args, kwargs, request, app=app)
        value = traced.info.retval if traced.info else traced.retval
        if not isinstance(task, JobTask):
            return Delivered(message, None, value)
        if len(self._ledger.verdicts) == asked:
            raise value
        return Delivered(message, self._ledger.verdicts[asked], value)

    def _bury(self, message: Message) -> LookupError:
        """As where there is no broker to give its message up."""
        error = f"there is no task {message.task!r}"
        if self._ledger.bury(_delivery(message), "unknown_task", error=error):
            facts = message.facts | {"attempt": 0, "error": error, "reason": "unknown_task"}
            signals.tell(signals.job_dead, lambda: facts)
        return LookupError(error)

    @contextmanager
    def meanwhile(self, message: Message) -> Iterator[list[Delivered]]:
        """Within it another worker gets a copy of the message as soon as one has acquired; gives what came of that."""
        copies: list[Delivered] = []

        def deliver() -> None:
            if not copies:
                copies.append(self.deliver(message))

        with armed(Point.ACQUIRE_COMMITTED, deliver):
            yield copies


class _AskedLedger(PostgresLedger):
    """Remembers what it answered to those who wanted to run, in order."""

    def __init__(self, using: str, *, lease: timedelta) -> None:
        super().__init__(using, lease=lease)
        self.verdicts: list[Verdict] = []

    def acquire(self, delivery: Delivery) -> Verdict:
        verdict = super().acquire(delivery)
        self.verdicts.append(verdict)
        return verdict


class _DrivenHeartbeat(Heartbeat):
    """Has no thread: whoever moves the clock calls ``beat``."""

    def keep(self, context: JobContext, *, hard_timeout_s: float) -> None:
        self._kept[context.fired.delivery.holder] = context, self._monotonic() + hard_timeout_s

    def beat(self) -> None:
        if self._kept:
            super().beat()


def _delivery(message: Message) -> Delivery:
    return Delivery(
        fire_id=message.fire_id,
        job_id=message.job_id,
        tenant=message.tenant,
        scheduled_for=message.scheduled_for,
        history_days=message.history_days,
        fence=message.fence,
        holder=uuid4(),
    )


def _app() -> Celery[Any]:
    return _loaded(app_or_default())


@cache
def _loaded(app: Celery[Any]) -> Celery[Any]:
    """With its task modules imported."""
    app.loader.import_default_modules()
    return app
