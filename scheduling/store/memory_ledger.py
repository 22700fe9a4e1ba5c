"""The ledger in memory, for tests and simulations: it answers as the Postgres one does, on the rows of the schedule's
store in memory.

Invariants: a call is one transaction, and names its refusals as ``ledger.sql`` does. Several workers share one object.
It differs in what only a database can do: nothing here blocks, is lost on the way, or is joined to a task's own writes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any

from scheduling.core.clock import Clock
from scheduling.core.errors import InvalidField
from scheduling.core.fingerprint import first_line
from scheduling.core.fire import State
from scheduling.core.lost_lease import LostLease, after_lost_lease
from scheduling.core.retry import backoff
from scheduling.store.ledger_port import Acquired, Delivery, Ending, Failure, Refusal, Refused, Renewal, StepState
from scheduling.store.ledger_values import lost
from scheduling.store.memory_overlap import of_job
from scheduling.store.memory_rows import Rows, StoredFire, StoredJob, StoredRun, StoredStep

DAY = timedelta(days=1)
JUDGED = {  # what is written of a fire whose job has changed since its message was sent, and what its worker is told
    "paused": Refusal.PAUSED,
    "superseded": Refusal.SUPERSEDED,
    "expired": Refusal.EXPIRED,
    "cancelled": Refusal.DELETED,
}


class MemoryLedger:
    """The ``Ledger`` on ``rows``; ``lease_s`` is real time, ``rand`` spreads the retries."""

    def __init__(self, rows: Rows, clock: Clock, *, lease_s: float, rand: Callable[[], float] = random.random) -> None:
        self._rows, self._clock, self._lease_s, self._rand = rows, clock, lease_s, rand

    # -- acquire ----------------------------------------------------------------------------------------------------

    def acquire(self, delivery: Delivery) -> Acquired | Refused:
        with self._rows.lock:
            fire = self._rows.fires.get(delivery.fire_id)
            job = self._rows.jobs.get(delivery.job_id)
            if fire is None:
                return Refused(Refusal.GONE)
            if (fire.work.tenant, fire.work.job_id) != (delivery.tenant, delivery.job_id):
                return Refused(Refusal.FORGED)
            if fire.fence != delivery.fence:
                return Refused(Refusal.STALE_FENCE)
            if fire.state is not State.CLAIMED and not _is_held(fire, delivery):
                return Refused(_standing(fire))
            if job is None:
                return Refused(Refusal.DELETED)
            if verdict := self._verdict(fire, job):
                self._turn_away(fire, verdict)
                return Refused(JUDGED[verdict])
            return self._lent(fire, job, delivery)

    def _verdict(self, fire: StoredFire, job: StoredJob) -> str:
        """What became of its job since its message was sent; empty if it may run."""
        now = self._clock.now()
        if fire.state is State.RUNNING:
            return ""
        if job.is_deleted:
            return "cancelled"
        if not fire.origin and job.is_paused_at(now):
            return "paused"
        if fire.attempt:
            return ""
        if not fire.origin and fire.version < job.version and job.changed_at < fire.scheduled_for:
            return "superseded"
        if job.expires_after is not None and fire.fire_at + job.expires_after <= now:
            return "expired"
        return ""

    def _turn_away(self, fire: StoredFire, verdict: str) -> None:
        """One that was started before is its owner's again, until the pause ends; what never started is skipped."""
        now = self._clock.now()
        if fire.attempt == 0:
            fire.state, fire.reason, fire.skipped_at = State.SKIPPED, verdict, now
        elif verdict == "paused":
            fire.state, fire.reason, fire.wake_at = State.RETRY_WAIT, verdict, now
        else:
            self._buried(fire, verdict, "its job was deleted")

    def _lent(self, fire: StoredFire, job: StoredJob, delivery: Delivery) -> Acquired:
        if fire.state is State.CLAIMED:
            fire.attempt += 1
            fire.started_at = self._clock.monotonic()
        fire.state, fire.reason, fire.wake_at = State.RUNNING, "", None
        fire.holder, fire.lease_until = delivery.holder, self._clock.monotonic() + self._lease_s
        return Acquired(
            delivery=delivery,
            attempt=fire.attempt,
            counted=_counted(fire, job),
            max_attempts=fire.max_attempts,
            exclusive=fire.is_exclusive,
            retry_base=job.retry_base,
            retry_cap=job.retry_cap,
        )

    # -- while it runs ----------------------------------------------------------------------------------------------

    def heartbeat(self, deliveries: Collection[Delivery]) -> Renewal:
        with self._rows.lock:
            gone, cancelled = set(), {}
            for delivery in deliveries:
                fire = self._rows.fires.get(delivery.fire_id)
                if fire is None or (fire.fence, fire.holder) != (delivery.fence, delivery.holder):
                    gone.add(delivery.holder)
                elif fire.state is State.RUNNING:
                    fire.lease_until = self._clock.monotonic() + self._lease_s
                    if fire.cancel_reason:
                        cancelled[delivery.holder] = fire.cancel_reason
            return Renewal(frozenset(gone), cancelled)

    def begin_step(self, acquired: Acquired, name: str) -> StepState:
        with self._rows.lock:
            fire = self._mine(acquired.delivery)
            step = self._rows.steps.setdefault((fire.id, name), StoredStep(fire.fence))
            return StepState(step.fence == fire.fence and not step.is_done, step.is_done, json.loads(step.result))

    def finish_step(self, acquired: Acquired, name: str, result: Any) -> None:
        with self._rows.lock:
            fire = self._mine(acquired.delivery)
            step = self._rows.steps.get((fire.id, name))
            if step is None:
                raise InvalidField("step", name, f"was not begun by fire {fire.id}")
            step.is_done, step.result = True, json.dumps(result)

    def undo_step(self, acquired: Acquired, name: str) -> None:
        with self._rows.lock:
            fire = self._mine(acquired.delivery)
            step = self._rows.steps.get((fire.id, name))
            if step is not None and not step.is_done:
                del self._rows.steps[fire.id, name]

    def _mine(self, delivery: Delivery) -> StoredFire:
        fire = self._rows.fires.get(delivery.fire_id)
        if fire is None or not _is_held(fire, delivery):
            raise lost(delivery)
        return fire

    # -- its end ----------------------------------------------------------------------------------------------------

    def complete(self, acquired: Acquired, *, worker: str, result: str) -> None:  # noqa: ARG002  (history of people)
        with self._rows.lock:
            delivery = acquired.delivery
            fire = self._rows.fires.get(delivery.fire_id)
            if fire is not None and _is_held(fire, delivery):
                fire.state, fire.reason, fire.lease_until = State.SUCCEEDED, "", None
                self._record(fire, StoredRun(State.SUCCEEDED, delivery.holder, worker))
            elif not _is_completed(fire, delivery):
                raise lost(delivery)

    def fail(
        self, acquired: Acquired, failure: Failure, *, worker: str, delay: timedelta | None, reason: str = "gave_up"
    ) -> State:
        if delay is None:
            return self._ended(acquired, "failed", worker, failure.error, reason)
        if acquired.attempt >= acquired.max_attempts:
            return self._ended(acquired, "failed", worker, failure.error, "attempts_exhausted")
        return self._ended(acquired, "failed", worker, failure.error, "cancelled", again=("failed", delay))

    def snooze(self, acquired: Acquired, *, worker: str, delay: timedelta) -> State:
        return self._ended(acquired, "cancelled", worker, "", "cancelled", again=("snoozed", delay))

    def cancel(self, acquired: Acquired, *, worker: str, reason: str) -> State:
        return self._ended(acquired, "cancelled", worker, reason, "cancelled")

    def _ended(
        self,
        acquired: Acquired,
        run_state: str,
        worker: str,
        error: str,
        reason: str,
        *,
        again: tuple[str, timedelta] | None = None,
    ) -> State:
        """Back to its owner, where there is an ``again`` (and what it is called), unless it was asked to stop."""
        with self._rows.lock:
            delivery = acquired.delivery
            fire = self._rows.fires.get(delivery.fire_id)
            if fire is not None and _is_held(fire, delivery):
                if again is None or fire.cancel_reason:
                    self._die(fire, StoredRun(run_state, delivery.holder, worker), error, reason)
                else:
                    self._give_back(fire, StoredRun(again[0], delivery.holder, worker), *again)
                return fire.state
            if _is_completed(fire, delivery):
                return State.SUCCEEDED
            run = self._rows.runs.get((delivery.fire_id, delivery.fence))
            possible = {run_state} if again is None else {run_state, again[0]}
            if run is None or run not in {StoredRun(state, delivery.holder, worker) for state in possible}:
                raise lost(delivery)
            return State.DEAD if self._has_died(delivery) else State.RETRY_WAIT

    def lose(self, delivery: Delivery, *, worker: str, error: str, run_state: Ending) -> State | None:
        with self._rows.lock:
            fire, run = self._rows.fires.get(delivery.fire_id), StoredRun(run_state, delivery.holder, worker)
            if fire is not None and _is_held(fire, delivery):
                end = self._after_loss(fire, run_state)
                if end.wait is None:
                    self._die(fire, run, error, end.reason)
                else:
                    self._give_back(fire, run, end.reason, end.wait)
                return fire.state
            if self._rows.runs.get((delivery.fire_id, delivery.fence)) != run:
                return None
            return State.DEAD if self._has_died(delivery) else State.RETRY_WAIT

    def _after_loss(self, fire: StoredFire, run_state: Ending) -> LostLease:
        job = self._rows.jobs[fire.work.job_id]
        is_over = job.is_deleted or bool(fire.cancel_reason)
        waits: Any = {"base": job.retry_base, "cap": job.retry_cap, "rand": self._rand}
        counted = _counted(fire, job)
        end = after_lost_lease(fire.attempt, fire.max_attempts, deleted=is_over, counted=counted, **waits)
        if end.wait is not None and run_state == "timed_out":
            return LostLease(end.state, "timed_out", backoff(counted, **waits))
        return end

    def _give_back(self, fire: StoredFire, run: StoredRun, reason: str, delay: timedelta) -> None:
        self._record(fire, run)
        fire.max_attempts += reason == "snoozed"
        fire.fence += 1
        fire.holder = fire.lease_until = None
        fire.state, fire.reason, fire.wake_at = State.RETRY_WAIT, reason, self._clock.now() + delay

    def _die(self, fire: StoredFire, run: StoredRun, error: str, reason: str) -> None:
        self._record(fire, run)
        fire.fence += 1
        fire.holder = fire.lease_until = None
        self._buried(fire, "cancelled" if fire.cancel_reason else reason, error or fire.cancel_reason, run.worker)

    def _buried(self, fire: StoredFire, reason: str, error: str, worker: str = "") -> None:
        fire.state, fire.reason = State.DEAD, reason
        self._rows.died(fire, error=first_line(error), worker=worker)

    def _record(self, fire: StoredFire, run: StoredRun) -> None:
        """It is history; where runs may not overlap, the first that waits for its turn is due now."""
        self._rows.ended(fire, run, self._clock.monotonic())
        waiting = [
            other
            for other in (of_job(self._rows, fire.work.job_id) if fire.is_exclusive else ())
            if (other.state, other.reason) == (State.PARKED, "overlap")
            and other.scheduled_for >= fire.scheduled_for - DAY
        ]
        if waiting:
            min(waiting, key=lambda other: (other.scheduled_for, other.id)).wake_at = self._clock.now()

    def _has_died(self, delivery: Delivery) -> bool:
        """Of this run."""
        letter = self._rows.letters.get(delivery.fire_id)
        return letter is not None and letter.fence == delivery.fence + 1

    def is_completed(self, delivery: Delivery) -> bool:
        with self._rows.lock:
            return _is_completed(self._rows.fires.get(delivery.fire_id), delivery)

    def bury(self, delivery: Delivery, reason: str, *, error: str = "") -> bool:
        with self._rows.lock:
            fire = self._rows.fires.get(delivery.fire_id)
            if fire is None or fire.state is not State.CLAIMED or fire.fence != delivery.fence:
                return False
            self._buried(fire, reason, error)
            return True


def _counted(fire: StoredFire, job: StoredJob) -> int:
    return max(1, min(fire.attempt, job.max_attempts - fire.max_attempts + fire.attempt))


def _is_held(fire: StoredFire, delivery: Delivery) -> bool:
    """This delivery runs it."""
    return fire.state is State.RUNNING and (fire.fence, fire.holder) == (delivery.fence, delivery.holder)


def _is_completed(fire: StoredFire | None, delivery: Delivery) -> bool:
    return (
        fire is not None
        and fire.state is State.SUCCEEDED
        and (fire.fence, fire.holder) == (delivery.fence, delivery.holder)
    )


def _standing(fire: StoredFire) -> Refusal:
    """Why a fire that is neither claimed nor this delivery's may not run."""
    if fire.state is State.RUNNING:
        return Refusal.RUNNING
    if fire.state in (State.PARKED, State.RETRY_WAIT):
        return Refusal.PAUSED if fire.reason == "paused" else Refusal.WAITING
    return Refusal.DONE
