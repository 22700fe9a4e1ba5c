"""``JobRequest``: a fire's message in the worker that received it, which outlives the child that runs it.

::

    hard timeout ─┐
    child killed ─┼─▶ its child is gone ─▶ ledger.lose ─┬─ it held the fire ─▶ acknowledged: retry_wait, or dead
    terminated   ─┘                                     └─ it did not, or not any more ─▶ rejected, for the collector

The parent names the holder of each delivery, as it is in each of its children, so that it can end the attempt of a
child that says nothing any more, and of no other. A copy of the same message may run elsewhere; and a child of whose
death the pool hears before it hears that it had begun leaves its message to a second child. That one is refused, and
the fire is its owner's when the lease is out. A message whose child died before it held the fire would be lost from
sight when it were acknowledged; as a dead letter of the broker it comes back, and counts as an attempt.

Invariants: the event loop never waits for Postgres: a thread does (``losses.py``); where the database does not answer,
the lease runs out, and its owner takes the fire back. What the parent sees is stored as a result only when the ledger
has said whether the fire will run again. Celery's ``revoke`` does not keep a fire from running: only the ledger knows
whether that fire is cancelled, and a revoked id would be refused for hours. Does not do: anything for a call by
``delay()``; time limits where the pool has none (threads, solo): the lease runs out there.
"""

from __future__ import annotations

import logging
import os
from typing import Any
from uuid import uuid4

from billiard.einfo import ExceptionWithTraceback  # type: ignore[attr-defined]
from billiard.exceptions import Terminated, WorkerLostError
from celery import states
from celery.exceptions import TimeLimitExceeded
from celery.worker.request import Request
from celery.worker.state import revoked as revoked_ids

from scheduling import signals
from scheduling.core import message
from scheduling.core.errors import InvalidField
from scheduling.core.fingerprint import first_line
from scheduling.core.fire import State
from scheduling.store.ledger_port import Ending
from scheduling.worker import losses
from scheduling.worker.fired import HOLDER, Fired, fired

DEATHS = (WorkerLostError, Terminated, SystemExit, KeyboardInterrupt)

log = logging.getLogger(__name__)


class JobRequest(Request):
    """Celery's, for the message of a fire; as it is for any other."""

    _request_dict: dict[str, Any]
    _context: Any
    _is_fire = False
    _is_ending = False  # the ledger is asked first: the message is neither acknowledged nor rejected until then
    _is_being_killed = False  # acknowledged when its child is gone, or has ended all the same

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._is_fire = message.FENCE in self._request_dict
        if self._is_fire:
            self._request_dict[HOLDER] = str(uuid4())  # whatever the message says: ours is not sent

    @property
    def store_errors(self) -> bool:
        """Not what the parent sees of a fire: whether that is its end is not known yet."""
        return not self._is_fire and self._wants_errors

    @property
    def _wants_errors(self) -> bool:
        return bool(super().store_errors)

    def info(self, safe: bool = False) -> Any:
        """For ``inspect``: of a fire what its headers say of the arguments, in which secrets are hidden."""
        return super().info(safe=safe or self._is_fire)

    def revoked(self) -> bool:
        if not self._is_fire:
            return bool(super().revoked())
        if self.id in revoked_ids:
            log.warning("fire %s: revoke() does not stop a fire; cancel it", self.id)
        return False

    def _announce_revoked(self, *facts: Any) -> None:
        """``revoke(terminate=True)``: Celery acknowledges here already, and nobody would end the attempt."""
        self._is_being_killed = self._is_fire
        try:
            super()._announce_revoked(*facts)  # type: ignore[misc]
        finally:
            self._is_being_killed = False

    def cancel(self, pool: Any, signal: Any = None, emit_retry: bool = True) -> None:
        """At a cold shutdown. What the pool cannot end goes on: in a solo worker the error would be the task's."""
        try:
            super().cancel(pool, signal, emit_retry)
        except NotImplementedError:
            log.warning("%s goes on: this pool cannot end what runs", self)

    def acknowledge(self) -> None:
        if not (self._is_ending or self._is_being_killed):
            super().acknowledge()

    def reject(self, requeue: bool = False) -> None:
        if not self._is_ending:
            super().reject(requeue)

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        """Called for what its child said (``return_ok``), and where it says nothing any more."""
        error = exc_info.exception
        if isinstance(error, ExceptionWithTraceback):
            error = error.exc
        if not return_ok and isinstance(error, TimeLimitExceeded):
            self._lose("timed_out", error, child=self.worker_pid)
        elif not return_ok and isinstance(error, DEATHS):
            self._lose("lost", error, child=self.worker_pid)
        return super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)

    def on_timeout(self, soft: bool, timeout: float) -> Any:
        if not soft:  # a pool of processes has told it above; in a greenlet it has ended already
            self._lose("timed_out", TimeLimitExceeded(timeout), child=None)
        return super().on_timeout(soft, timeout)

    def _lose(self, run_state: Ending, error: BaseException, *, child: Any) -> None:
        """Have the ledger end the attempt, once: nobody else will. A greenlet has no child: it is this process."""
        if not self._is_fire or self._is_ending or self.acknowledged:
            return
        try:
            fire = fired(self.id, self._request_dict, pid=os.getpid() if child is None else child)
        except InvalidField:
            return  # no fire that anybody could hold
        if fire is None:
            return
        self._is_ending = True
        losses.lose(
            fire.delivery,
            child=child,
            worker=self.hostname or "",
            error=_said(error),
            run_state=run_state,
            then=lambda state: self._lost(fire, state, run_state, error),
            unknown=super().acknowledge,
        )

    def _lost(self, fire: Fired, state: State | None, run_state: Ending, error: BaseException) -> None:
        """What the ledger says; None: this holder has nothing to lose, not yet or no longer."""
        if state is None:
            super().reject(requeue=False)
            return
        super().acknowledge()
        if self._wants_errors:
            result = states.RETRY if state is State.RETRY_WAIT else states.FAILURE
            self.task.backend.store_result(self.id, error, result, request=self._context)
        signal = signals.job_failed if state is State.RETRY_WAIT else signals.job_dead
        signals.tell(signal, lambda: self._facts(fire, state, run_state, error))

    def _facts(self, fire: Fired, state: State, run_state: Ending, error: BaseException) -> dict[str, Any]:
        from scheduling.models import Fire

        row = Fire.objects.by_id(fire.delivery.fire_id)
        return {
            "fire_id": row.id,
            "job_id": row.job_id,
            "tenant": fire.tenant,
            "name": fire.name,
            "task": self.task.name,
            "scheduled_for": row.scheduled_for,
            "origin": row.origin,
            "attempt": row.attempt,
            "error": _said(error),
            "reason": row.reason if state is State.DEAD else run_state,
        }


def _said(error: BaseException) -> str:
    if isinstance(error, TimeLimitExceeded):
        return f"ended by its hard timeout of {error.args[0]:g} s"
    return first_line(str(error) or repr(error))
