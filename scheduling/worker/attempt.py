"""One attempt: acquire, run, and write what came of it.

::

    refused ──▶ Ignore           acknowledged and counted; nothing runs, no result is stored
      forged ──▶ Reject          for the broker's dead letters: the fire is another's
    ran     ──▶ its value        succeeded; None where it raised behind its commit(), which is logged
    raised  ──▶ Celery's Retry   retry_wait: the ledger brings it back, Celery publishes nothing
            ├─▶ that exception   dead: the attempts are used up, or the task's policy gives up (exit: TaskExited)
            └─▶ Stopped          dead: cancelled; its result is that it was revoked
    lease lost at the end ──▶ Ignore: the fire is another worker's by now, and so is its result
    not known  ──▶ Reject        nobody could be asked for the lease: back to the broker, nothing runs

A database that does not answer is asked again for as long as a lease lasts. At the end of a run the lease is out then,
and the fire is run again; at its beginning the message, which alone knows of the fire, goes back to the broker: to
acknowledge it would lose the fire. Signals are sent when the end has been committed. Does not do: timeouts,
acknowledging, redelivery: those are Celery's.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Callable
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from billiard.common import terminate_handler_fired  # type: ignore[attr-defined]
from celery.exceptions import (
    Ignore,
    MaxRetriesExceededError,
    Reject,
    SoftTimeLimitExceeded,
    WorkerShutdown,
    WorkerTerminate,
)
from celery.exceptions import Retry as CeleryRetry
from celery.utils.saferepr import saferepr
from django.db import InterfaceError, OperationalError

from scheduling.core.errors import LeaseLost
from scheduling.core.fire import State
from scheduling.failpoints import Point, failpoint
from scheduling.store.ledger_port import Acquired, Refusal, Refused
from scheduling.worker.context import JobContext, make_current, restore
from scheduling.worker.errors import Cancel, OutOfMemory, RejectedByTask, Snooze, TaskExited
from scheduling.worker.fired import Fired
from scheduling.worker.outcome import Again, cause_of, failure_of, outcome_of
from scheduling.worker.patience import patiently
from scheduling.worker.policy import RetryPolicy
from scheduling.worker.process import WorkerProcess
from scheduling.worker.refusals import count_refusal
from scheduling.worker.telling import tell_dead, tell_failed, tell_succeeded

log = logging.getLogger(__name__)

EXITS = (SystemExit, CancelledError)
"""What a task may raise that is no Exception. Raised through, it would end a thread of a node for good, and leave a
message of a worker's thread with that worker.
"""

T = TypeVar("T")

on_decided: ContextVar[Callable[[], None]] = ContextVar("fairbeat_on_decided")
"""Called once the acquire has committed or was refused: the in-process publisher's confirm."""


class Stopped(Ignore):
    """The fire is dead because it was to stop: nothing failed, and nothing will be tried again."""


class Attempt:
    """An acquired fire on its way through ``run``; ``worker`` is what the history calls this worker."""

    def __init__(
        self, process: WorkerProcess, fired: Fired, acquired: Acquired, *, task: str, policy: RetryPolicy, worker: str
    ) -> None:
        self._process = process
        self._ledger = process.ledger
        self._acquired = acquired
        self._policy = policy
        self._worker = worker
        self.context = JobContext(
            fired=fired,
            acquired=acquired,
            worker=worker,
            database=process.ledger.using,
            task=task,
            patience_s=process.lease_s,
            on_committed=lambda: tell_succeeded(self.context, None),
            _ledger=process.ledger,
        )

    def run(self, task: Callable[[], T], *, hard_timeout_s: float) -> T | None:
        """Run the task to its end; returns or raises what Celery is to be told."""
        heartbeat = self._process.heartbeat
        heartbeat.keep(self.context, hard_timeout_s=hard_timeout_s)
        before = make_current(self.context)
        try:
            return self._run(task)
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
        except Exception as error:  # noqa: BLE001  (whatever it is, it is the attempt's end)
            self._raised(error)
            return None
        except EXITS as error:
            if _is_the_workers_end(error):
                raise
            exited = TaskExited(f"the task raised {error!r}")
            exited.__cause__ = error
            self._raised(exited)
            return None
        self._complete(result)
        return result

    def _raised(self, error: Exception) -> None:
        if self.context.is_committed:
            self._log_what_came_late(error)
        else:
            self._end(error)

    def _complete(self, result: object) -> None:
        if self.context.is_committed:
            return
        text = "" if result is None else saferepr(result)
        self._write(lambda: self._ledger.complete(self._acquired, worker=self._worker, result=text))
        tell_succeeded(self.context, result)

    def _end(self, error: Exception) -> None:
        """Raises what Celery is to be told; returns where the attempt turns out to have succeeded."""
        if isinstance(error, Snooze):
            self._snooze(error)
        elif isinstance(error, Cancel):
            self._cancel(error)
        else:
            self._fail(error)
        self._log_what_came_late(error)
        tell_succeeded(self.context, None)

    def _log_what_came_late(self, error: Exception) -> None:
        log.error(
            "fire %s: its commit() has completed it; what the task raised after that does not count",
            self.context.fire_id,
            exc_info=error,
        )

    def _snooze(self, snooze: Snooze) -> None:
        state = self._write(lambda: self._ledger.snooze(self._acquired, worker=self._worker, delay=snooze.delay))
        if state is State.RETRY_WAIT:
            raise _again(snooze, None, snooze.delay)
        if state is State.DEAD:
            self._stopped(self.context.cancel_reason or "it was asked to stop", snooze)

    def _cancel(self, cancel: Cancel) -> None:
        state = self._write(lambda: self._ledger.cancel(self._acquired, worker=self._worker, reason=cancel.reason))
        if state is State.DEAD:
            self._stopped(cancel.reason, cancel)

    def _stopped(self, reason: str, error: Exception) -> None:
        tell_dead(self.context, reason="cancelled", error=reason)
        raise Stopped(reason) from error

    def _fail(self, error: Exception) -> None:
        outcome, failure = outcome_of(error, self._acquired, self._policy), failure_of(error)
        delay, reason = (outcome.delay, "") if isinstance(outcome, Again) else (None, outcome.reason)
        state = self._write(
            lambda: self._ledger.fail(self._acquired, failure, worker=self._worker, delay=delay, reason=reason)
        )
        if state is State.RETRY_WAIT and delay is not None:
            tell_failed(self.context, reason="failed", error=failure.error)
            raise _again(error, cause_of(error), delay)
        if state is State.DEAD:
            tell_dead(self.context, reason=reason or "attempts_exhausted", error=failure.error)
            raise _final(error, self._acquired.attempt)

    def _write(self, end: Callable[[], T]) -> T:
        failpoint(Point.COMPLETE_BEFORE)
        try:
            try:
                written = self._patiently(end)
            except SoftTimeLimitExceeded:  # it comes once, between any two instructions: the task has ended before it
                written = self._patiently(end)
        except LeaseLost as lost:
            count_refusal("lease_lost")
            log.warning("%s", lost)
            raise Ignore(str(lost)) from lost
        failpoint(Point.COMPLETE_COMMITTED)
        return written

    def _patiently(self, end: Callable[[], T]) -> T:
        return patiently(end, f"fire {self.context.fire_id}: its end", for_s=self._process.lease_s)


def acquire(
    process: WorkerProcess, fired: Fired, *, task: str, policy: RetryPolicy, worker: str, hard_timeout_s: float
) -> Attempt:
    """Take the fire's lease.

    Raises Ignore where the ledger refuses: Celery then acknowledges the message, and stores nothing; Reject where it is
    forged, for the broker's dead letters. Raises Reject, back to the queue, where the ledger cannot be asked, and while
    there is time: at the hard timeout Celery would acknowledge the message.
    """
    failpoint(Point.ACQUIRE_BEFORE)
    what, for_s = f"fire {fired.delivery.fire_id}: its lease", min(process.lease_s, hard_timeout_s / 2)
    try:
        verdict = patiently(lambda: process.ledger.acquire(fired.delivery), what, for_s=for_s)
    except (OperationalError, InterfaceError, SoftTimeLimitExceeded) as error:
        raise Reject(f"the ledger could not be asked: {error}", requeue=True) from error
    decided = on_decided.get(None)
    if decided is not None:
        decided()
    if isinstance(verdict, Refused):
        _refuse(fired, verdict.reason)
    failpoint(Point.ACQUIRE_COMMITTED)
    return Attempt(process, fired, verdict, task=task, policy=policy, worker=worker)


def _refuse(fired: Fired, reason: Refusal) -> NoReturn:
    count_refusal(reason)
    fire, fence = fired.delivery.fire_id, fired.delivery.fence
    if reason is Refusal.FORGED:
        log.warning("fire %s (fence %d) is not of the tenant %r that its message names", fire, fence, fired.tenant)
        raise Reject("forged", requeue=False)
    log.info("fire %s (fence %d) is not run: %s", fire, fence, reason)
    raise Ignore(f"not run: {reason}")


def _is_the_workers_end(error: BaseException) -> bool:
    """And not the task's own: its parent ends the attempt."""
    return isinstance(error, WorkerShutdown | WorkerTerminate) or terminate_handler_fired()


def _again(error: Exception, cause: Exception | None, delay: timedelta) -> CeleryRetry:
    """What Celery is to be told of a fire that will run again. It publishes nothing."""
    when: Any = delay.total_seconds()
    again = CeleryRetry(str(error) if isinstance(error, Snooze) else None, exc=cause, when=when)
    again.__cause__ = error
    return again


def _final(error: Exception, attempts: int) -> BaseException:
    """What Celery is to be told of a fire that will not."""
    if isinstance(error, Reject):  # raised through, it would put the message back, or into the broker's dead letters
        return RejectedByTask(f"the task raised {error!r} in the last of {attempts} attempts")
    cause = cause_of(error)
    if isinstance(cause, MemoryError):  # raised through, it would end the worker, and all that runs in it
        return OutOfMemory(f"the task raised {cause!r} in the last of {attempts} attempts")
    return cause or MaxRetriesExceededError(f"gave up after {attempts} attempts")
