"""One attempt: acquire, run, and write what came of it.

::

    refused ──▶ Ignore          acknowledged and counted; nothing runs, no result is stored
    ran     ──▶ its value       succeeded
    raised  ──▶ Retry           retry_wait: the ledger brings it back, Celery publishes nothing
            └─▶ that exception  dead: the attempts are used up
    lease lost at the end ──▶ Ignore: the fire is another worker's by now, and so is its result
    not known  ──▶ Reject       nobody could be asked for the lease: back to the broker, nothing runs

A database that does not answer is asked again for as long as a lease lasts. At the end of a run the lease is out then,
and the fire is run again; at its beginning the message, which alone knows of the fire, goes back to the broker: to
acknowledge it would lose the fire. Does not do: timeouts, acknowledging, redelivery: those are Celery's.
"""

from __future__ import annotations

import logging
import random
import time
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from celery.exceptions import Ignore, MaxRetriesExceededError, Reject, Retry, SoftTimeLimitExceeded
from celery.utils.saferepr import saferepr
from django.db import InterfaceError, OperationalError

from scheduling.core.errors import LeaseLost
from scheduling.core.fire import State
from scheduling.core.retry import backoff
from scheduling.failpoints import Point, failpoint
from scheduling.store.ledger_port import Acquired, Failure, Refused
from scheduling.worker.context import JobContext, make_current, restore
from scheduling.worker.errors import RejectedByTask
from scheduling.worker.fired import Fired
from scheduling.worker.process import WorkerProcess
from scheduling.worker.refusals import count_refusal

PAUSE_MIN_S, PAUSE_MAX_S = 0.1, 2.0

log = logging.getLogger(__name__)

T = TypeVar("T")

on_decided: ContextVar[Callable[[], None]] = ContextVar("fairbeat_on_decided")
"""Called once the acquire has committed or was refused: the in-process publisher's confirm."""


class Attempt:
    """An acquired fire on its way through ``run``; ``worker`` is what the history calls this worker."""

    def __init__(self, process: WorkerProcess, fired: Fired, acquired: Acquired, *, worker: str) -> None:
        self._process = process
        self._acquired = acquired
        self._worker = worker
        self.context = JobContext(
            fired=fired, acquired=acquired, worker=worker, database=process.ledger.using, _ledger=process.ledger
        )

    def run(self, task: Callable[[], T], *, hard_timeout_s: float) -> T | None:
        """Run the task to its end; returns or raises what Celery is to be told."""
        heartbeat = self._process.heartbeat
        heartbeat.keep(self.context, hard_timeout_s=hard_timeout_s)
        before = make_current(self.context)
        try:
            return self._run(task)
        except LeaseLost as lost:
            count_refusal("lease_lost")
            log.warning("%s", lost)
            raise Ignore(str(lost)) from lost
        finally:
            restore(before)
            heartbeat.release(self.context)

    def _run(self, task: Callable[[], T]) -> T | None:
        try:
            result = task()
            if self.context.wanted_retry is not None:
                raise self.context.wanted_retry
        except Ignore:  # the task has done what it wants, and wants no result stored
            self._complete(None)
            raise
        except Exception as error:
            if self.context.is_committed:
                log.exception(
                    "fire %s: its commit() has completed it; what the task raised after that does not count",
                    self.context.fire_id,
                )
                raise
            self._fail(error)
            return None
        self._complete(result)
        return result

    def _complete(self, result: object) -> None:
        if self.context.is_committed:
            return
        text = "" if result is None else saferepr(result)
        self._write(lambda: self._process.ledger.complete(self._acquired, worker=self._worker, result=text))

    def _fail(self, error: Exception) -> None:
        """Raises what Celery is to be told; returns where the attempt turns out to have succeeded."""
        cause = error.exc if isinstance(error, Retry) else error
        delay = _delay_of(error) or backoff(
            self._acquired.attempt,
            base=self._acquired.retry_base,
            cap=self._acquired.retry_cap,
            rand=random.random,
        )
        state = self._write(
            lambda: self._process.ledger.fail(self._acquired, _failure(error), worker=self._worker, delay=delay)
        )
        if state is State.RETRY_WAIT:
            when: Any = delay.total_seconds()
            raise Retry(exc=cause, when=when) from error
        if state is State.DEAD:
            raise _final(error, self._acquired.attempt)
        log.warning("fire %s: its commit() was written after all, whose reply was lost", self.context.fire_id)

    def _write(self, end: Callable[[], T]) -> T:
        failpoint(Point.COMPLETE_BEFORE)
        written = _patiently(end, f"fire {self.context.fire_id}: its end", for_s=self._process.lease_s)
        failpoint(Point.COMPLETE_COMMITTED)
        return written


def acquire(process: WorkerProcess, fired: Fired, *, worker: str, hard_timeout_s: float) -> Attempt:
    """Take the fire's lease.

    Raises Ignore where the ledger refuses: Celery then acknowledges the message, and stores nothing. Raises Reject
    where it cannot be asked, and while there is time: at the hard timeout Celery would acknowledge the message.
    """
    failpoint(Point.ACQUIRE_BEFORE)
    what, for_s = f"fire {fired.delivery.fire_id}: its lease", min(process.lease_s, hard_timeout_s / 2)
    try:
        verdict = _patiently(lambda: process.ledger.acquire(fired.delivery), what, for_s=for_s)
    except (OperationalError, InterfaceError, SoftTimeLimitExceeded) as error:
        raise Reject(f"the ledger could not be asked: {error}", requeue=True) from error
    decided = on_decided.get(None)
    if decided is not None:
        decided()
    if isinstance(verdict, Refused):
        count_refusal(verdict.reason)
        log.info("fire %s (fence %d) is not run: %s", fired.delivery.fire_id, fired.delivery.fence, verdict.reason)
        raise Ignore(f"not run: {verdict.reason}")
    failpoint(Point.ACQUIRE_COMMITTED)
    return Attempt(process, fired, verdict, worker=worker)


def _patiently(write: Callable[[], T], what: str, *, for_s: float) -> T:
    """Raises what Django raises where the database does not answer for so long."""
    deadline_s, pause_s = time.monotonic() + for_s, PAUSE_MIN_S
    while True:
        try:
            return write()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() + pause_s > deadline_s:
                raise
            log.warning("%s could not be written, trying again: %s", what, error)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


def _delay_of(error: Exception) -> timedelta | None:
    """The wait that a Retry asks for; None leaves it to the job's backoff."""
    when: Any = error.when if isinstance(error, Retry) else None
    if isinstance(when, datetime):
        return max(timedelta(0), (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime.now(UTC))
    return None if when is None else timedelta(seconds=max(0.0, float(when)))


def _failure(error: Exception) -> Failure:
    shown = error.exc if isinstance(error, Retry) and error.exc is not None else error
    return Failure(
        error="".join(traceback.format_exception_only(shown)).strip(),
        traceback="".join(traceback.format_exception(error)),
    )


def _final(error: Exception, attempts: int) -> BaseException:
    """What Celery is to be told of a fire whose last attempt failed."""
    if isinstance(error, Retry):
        return error.exc or MaxRetriesExceededError(f"gave up after {attempts} attempts")
    if isinstance(error, Reject):  # raised through, it would put the message back, or into the broker's dead letters
        return RejectedByTask(f"the task raised {error!r} in the last of {attempts} attempts")
    return error
