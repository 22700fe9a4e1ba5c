"""The ledger in memory, for tests and simulations: it answers as the Postgres one does, on the rows of the schedule's
store in memory.

Invariants: a call is one transaction, and names its refusals as ``ledger.sql`` does. Several workers share one object.
It differs in what only a database can do: nothing here blocks, is lost on the way, or is joined to a task's own writes.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

from scheduling.core.clock import Clock
from scheduling.core.errors import LeaseLost
from scheduling.core.fire import State
from scheduling.store.ledger_port import Acquired, Delivery, Failure, Refusal, Refused
from scheduling.store.memory_rows import Rows, StoredFire, StoredJob, StoredRun

DAY = timedelta(days=1)
JUDGED = {  # what is written of a fire whose job has changed since its message was sent, and what its worker is told
    "paused": Refusal.PAUSED,
    "superseded": Refusal.SUPERSEDED,
    "expired": Refusal.EXPIRED,
    "cancelled": Refusal.DELETED,
}


class MemoryLedger:
    """The ``Ledger`` on ``rows``; ``lease_s`` is real time."""

    def __init__(self, rows: Rows, clock: Clock, *, lease_s: float) -> None:
        self._rows, self._clock, self._lease_s = rows, clock, lease_s

    def acquire(self, delivery: Delivery) -> Acquired | Refused:
        with self._rows.lock:
            fire = self._rows.fires.get(delivery.fire_id)
            job = self._rows.jobs.get(delivery.job_id)
            if fire is None:
                return Refused(Refusal.GONE)
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
        fire.reason, fire.wake_at, fire.holder, fire.lease_until = verdict, None, None, None
        if fire.attempt == 0:
            fire.state, fire.skipped_at = State.SKIPPED, now
        elif verdict == "paused":
            fire.state, fire.wake_at = State.RETRY_WAIT, now
        else:
            fire.state = State.DEAD

    def _lent(self, fire: StoredFire, job: StoredJob, delivery: Delivery) -> Acquired:
        if fire.state is State.CLAIMED:
            fire.attempt += 1
        fire.state, fire.reason, fire.wake_at = State.RUNNING, "", None
        fire.holder, fire.lease_until = delivery.holder, self._clock.monotonic() + self._lease_s
        return Acquired(
            delivery=delivery,
            attempt=fire.attempt,
            max_attempts=fire.max_attempts,
            exclusive=fire.is_exclusive,
            retry_base=job.retry_base,
            retry_cap=job.retry_cap,
        )

    def heartbeat(self, deliveries: Collection[Delivery]) -> set[UUID]:
        with self._rows.lock:
            lost = set()
            for delivery in deliveries:
                fire = self._rows.fires.get(delivery.fire_id)
                if fire is None or (fire.fence, fire.holder) != (delivery.fence, delivery.holder):
                    lost.add(delivery.holder)
                elif fire.state is State.RUNNING:
                    fire.lease_until = self._clock.monotonic() + self._lease_s
            return lost

    def complete(self, acquired: Acquired, *, worker: str, result: str) -> None:  # noqa: ARG002  (history of people)
        with self._rows.lock:
            delivery = acquired.delivery
            fire = self._rows.fires.get(delivery.fire_id)
            if fire is not None and _is_held(fire, delivery):
                fire.state, fire.reason, fire.lease_until = State.SUCCEEDED, "", None
                self._ended(acquired, fire, State.SUCCEEDED)
            elif not _is_completed(fire, delivery):
                raise _lost(delivery)

    def fail(self, acquired: Acquired, failure: Failure, *, worker: str, delay: timedelta) -> State:  # noqa: ARG002
        with self._rows.lock:
            delivery = acquired.delivery
            fire = self._rows.fires.get(delivery.fire_id)
            if fire is not None and _is_held(fire, delivery):
                self._give_back(fire, delay)
                self._ended(acquired, fire, "failed")
                return fire.state
            if _is_completed(fire, delivery):
                return State.SUCCEEDED
            run = self._rows.runs.get((delivery.fire_id, delivery.fence))
            if run is None or run != StoredRun("failed", delivery.holder):
                raise _lost(delivery)
            return State.DEAD if acquired.attempt >= acquired.max_attempts else State.RETRY_WAIT

    def _give_back(self, fire: StoredFire, delay: timedelta) -> None:
        fire.fence += 1
        fire.holder = fire.lease_until = None
        if fire.attempt < fire.max_attempts:
            fire.state, fire.reason, fire.wake_at = State.RETRY_WAIT, "failed", self._clock.now() + delay
        else:
            fire.state, fire.reason, fire.wake_at = State.DEAD, "attempts_exhausted", None

    def _ended(self, acquired: Acquired, fire: StoredFire, state: str) -> None:
        """Its run is history; where runs may not overlap, the first that waits for its turn is due now."""
        delivery = acquired.delivery
        self._rows.runs[fire.id, delivery.fence] = StoredRun(state, delivery.holder)
        if not acquired.exclusive:
            return
        waiting = [
            other
            for other in self._rows.fires.values()
            if other.work.job_id == delivery.job_id
            and (other.state, other.reason) == (State.PARKED, "overlap")
            and other.is_exclusive
            and other.scheduled_for >= delivery.scheduled_for - DAY
        ]
        if waiting:
            min(waiting, key=lambda other: (other.scheduled_for, other.id)).wake_at = self._clock.now()

    def is_completed(self, delivery: Delivery) -> bool:
        with self._rows.lock:
            return _is_completed(self._rows.fires.get(delivery.fire_id), delivery)

    def bury(self, delivery: Delivery, reason: str) -> bool:
        with self._rows.lock:
            fire = self._rows.fires.get(delivery.fire_id)
            if fire is None or fire.state is not State.CLAIMED or fire.fence != delivery.fence:
                return False
            fire.state, fire.reason = State.DEAD, reason
            return True


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


def _lost(delivery: Delivery) -> LeaseLost:
    return LeaseLost(
        f"fire {delivery.fire_id}: holder {delivery.holder} with fence {delivery.fence} holds it no longer"
    )
