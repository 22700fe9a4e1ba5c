"""The ledger in Postgres: what its statements say, as values of the port.

Acquire, complete, and a failure that is tried again are one round trip each when nothing is wrong; the reason of a
refusal takes one or two more. What is rare, as a death, has statements of its own and is planned anew each time, so
that what is frequent stays small.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any
from uuid import UUID

from scheduling.core.errors import FairbeatError
from scheduling.core.fire import State
from scheduling.core.lost_lease import LostLease, after_lost_lease
from scheduling.core.retry import backoff
from scheduling.store.ledger_port import Acquired, Delivery, Ending, Failure, Refusal, Refused, Renewal, StepState
from scheduling.store.ledger_session import LedgerSession
from scheduling.store.ledger_steps import begin_step, finish_step, undo_step
from scheduling.store.ledger_values import ended, lost, many, named
from scheduling.store.prepared import Row

ROUNDS = 3  # acquire, refused, and claimed under the same fence when read: it changed in between

_SETTLED = (State.SUCCEEDED, State.SKIPPED, State.DEAD)
_JUDGED = {  # reasons of a settled row that this acquire, or an earlier one of the same message, may have written
    "paused": Refusal.PAUSED,
    "superseded": Refusal.SUPERSEDED,
    "expired": Refusal.EXPIRED,
    "cancelled": Refusal.DELETED,
}


class PostgresLedger:
    """The ``Ledger`` on the database ``using``; ``lease`` is real time, ``rand`` spreads the retries."""

    def __init__(self, using: str, *, lease: timedelta, rand: Callable[[], float] = random.random) -> None:
        self.using = using
        self._lease, self._rand = lease, rand
        self._session = LedgerSession(using)
        self._tenants: dict[str, int] = {}  # slug → id; neither ever changes

    # -- acquire ----------------------------------------------------------------------------------------------------

    def acquire(self, delivery: Delivery) -> Acquired | Refused:
        values = named(delivery) | {"lease": self._lease, "asked_for": ""}
        for _ in range(ROUNDS):
            values["tenant_id"] = self._tenant_id(delivery.tenant)
            row = None
            if self._session.keeps_plans(delivery):
                row = self._session.one_of_day("acquire_unhindered", values, delivery)
            if row is None:
                row = self._session.one_of_day("acquire", values, delivery)
            if row is not None:
                return self._answer(delivery, row)
            refusal = self._refusal(delivery, self._session.one("standing", named(delivery)))
            if refusal is not None:
                return Refused(refusal)
            (values["asked_for"],) = self._session.one("who_asked_for", values) or ("",)
        raise FairbeatError(f"fire {delivery.fire_id}: is claimed whenever it is read, and never when it is acquired")

    def _tenant_id(self, slug: str) -> int:
        """0 for a slug that no tenant has: then no fire is its."""
        known = self._tenants.get(slug)
        if known is None:
            row = self._session.one("tenant", {"tenant": slug})
            if row is None:
                return 0
            known = self._tenants[slug] = row[0]
        return known

    def _answer(self, delivery: Delivery, row: Row) -> Acquired | Refused:
        reason, attempt, counted, max_attempts, exclusive, retry_base, retry_cap, fires = row
        if fires is not None:
            self._session.keep_plans(delivery, fires)
        if reason:
            return Refused(_JUDGED[reason])
        return Acquired(
            delivery=delivery,
            attempt=attempt,
            counted=counted,
            max_attempts=max_attempts,
            exclusive=exclusive,
            retry_base=retry_base,
            retry_cap=retry_cap,
        )

    def _refusal(self, delivery: Delivery, row: Row | None) -> Refusal | None:
        """Why the fire of this row could not be acquired; None where it might be now."""
        if row is None:
            return Refusal.GONE
        state, reason, fence, _, attempt, is_forged, job_lives = row
        if is_forged:
            return Refusal.FORGED
        if fence != delivery.fence:
            return Refusal.STALE_FENCE
        if state == State.RUNNING:
            return Refusal.RUNNING
        if state in _SETTLED:
            return Refusal.DONE
        if state in (State.PARKED, State.RETRY_WAIT):
            return Refusal.PAUSED if reason == "paused" else Refusal.WAITING
        if job_lives is None:
            return Refusal.DELETED
        self._tenants.pop(delivery.tenant, None)  # it may have been made anew
        return self._put_aside(delivery, job_lives=job_lives) if attempt else None

    def _put_aside(self, delivery: Delivery, *, job_lives: bool) -> Refusal | None:
        """A claimed fire that was started before is dead if its job was deleted, and its owner's if that is paused."""
        if not job_lives:
            return Refusal.DELETED if self.bury(delivery, "cancelled", error="its job was deleted") else None
        held_back = self._session.one("hold_back", named(delivery) | {"asked_for": ""})
        return None if held_back is None else Refusal.PAUSED

    # -- while it runs ----------------------------------------------------------------------------------------------

    def heartbeat(self, deliveries: Collection[Delivery]) -> Renewal:
        if not deliveries:
            return Renewal(frozenset(), {})
        kept: dict[UUID, str] = dict(self._session.all("heartbeat", many(deliveries) | {"lease": self._lease}))
        missing = [delivery for delivery in deliveries if delivery.holder not in kept]
        if missing:
            kept |= dict(self._session.all("still_mine", many(missing)))
        return Renewal(
            lost=frozenset(delivery.holder for delivery in deliveries if delivery.holder not in kept),
            cancelled={holder: reason for holder, reason in kept.items() if reason},
        )

    def begin_step(self, acquired: Acquired, name: str) -> StepState:
        return begin_step(self._session, acquired.delivery, name)

    def finish_step(self, acquired: Acquired, name: str, result: Any) -> None:
        finish_step(self._session, acquired.delivery, name, result)

    def undo_step(self, acquired: Acquired, name: str) -> None:
        undo_step(self._session, acquired.delivery, name)

    # -- its end ----------------------------------------------------------------------------------------------------

    def complete(self, acquired: Acquired, *, worker: str, result: str) -> None:
        delivery, run = acquired.delivery, ended(acquired.delivery, "succeeded", worker=worker, result=result)
        if self._write("complete", delivery, run, exclusive=acquired.exclusive) is not None:
            return
        if not _is_completed(delivery, self._session.one("standing", named(delivery))):
            raise lost(delivery)

    def fail(
        self, acquired: Acquired, failure: Failure, *, worker: str, delay: timedelta | None, reason: str = "gave_up"
    ) -> State:
        run = ended(acquired.delivery, "failed", worker=worker, error=failure.error, traceback=failure.traceback)
        if delay is None:
            return self._ended(acquired, run | {"reason": reason})
        if acquired.attempt >= acquired.max_attempts:
            return self._ended(acquired, run | {"reason": "attempts_exhausted"})
        return self._ended(acquired, run | {"reason": "cancelled"}, again=_again("failed", delay))

    def snooze(self, acquired: Acquired, *, worker: str, delay: timedelta) -> State:
        put_off = ended(acquired.delivery, "snoozed", worker=worker)
        stopped = ended(acquired.delivery, "cancelled", worker=worker)
        again = put_off | _again("snoozed", delay, uncounted=1)
        return self._ended(acquired, stopped | {"reason": "cancelled"}, again=again)

    def cancel(self, acquired: Acquired, *, worker: str, reason: str) -> State:
        run = ended(acquired.delivery, "cancelled", worker=worker, error=reason)
        return self._ended(acquired, run | {"reason": "cancelled"})

    def _ended(self, acquired: Acquired, run: dict[str, Any], *, again: dict[str, Any] | None = None) -> State:
        """Back to its owner, where there is an ``again`` and nobody has asked it to stop; or dead, as ``run`` says."""
        delivery, exclusive = acquired.delivery, acquired.exclusive
        row = None if again is None else self._write("retry", delivery, run | again, exclusive=exclusive)
        row = row or self._write_rare("die", run, exclusive=exclusive)
        if row is not None:
            return State(row[0])
        if _is_completed(delivery, self._session.one("standing", named(delivery))):
            return State.SUCCEEDED
        written = self._session.one("ended_run", run)
        if written is None or written[0] not in (run["run_state"], (again or run).get("run_state")):
            raise lost(delivery)
        return State.DEAD if written[1] else State.RETRY_WAIT

    def lose(self, delivery: Delivery, *, worker: str, error: str, run_state: Ending) -> State | None:
        run = ended(delivery, run_state, worker=worker, error=error)
        row = self._session.one("losing", run)
        if row is not None:
            end, exclusive = self._after_loss(row, run_state)
            row = None
            if end.wait is not None:
                row = self._write_rare("retry", run | _again(end.reason, end.wait), exclusive=exclusive)
            if row is None:  # there is to be no retry; or it was asked to stop meanwhile
                reason = end.reason if end.wait is None else "cancelled"
                row = self._write_rare("die", run | {"reason": reason}, exclusive=exclusive)
            if row is not None:
                return State(row[0])
        written = self._session.one("ended_run", run)
        if written is None or written[0] != run_state:
            return None
        return State.DEAD if written[1] else State.RETRY_WAIT

    def _after_loss(self, row: Row, run_state: Ending) -> tuple[LostLease, bool]:
        """And whether runs of its job may not overlap."""
        attempt, counted, max_attempts, exclusive, base, cap, is_over = row
        waits: Any = {"base": base, "cap": cap, "rand": self._rand}
        end = after_lost_lease(attempt, max_attempts, deleted=is_over, counted=counted, **waits)
        if end.wait is not None and run_state == "timed_out":
            end = LostLease(end.state, "timed_out", backoff(counted, **waits))
        return end, exclusive

    def is_completed(self, delivery: Delivery) -> bool:
        return _is_completed(delivery, self._session.one("standing_locked", named(delivery)))

    def bury(self, delivery: Delivery, reason: str, *, error: str = "") -> bool:
        values = ended(delivery, "", worker="", error=error) | {"reason": reason}
        return self._session.one("bury", values) is not None

    def close(self) -> None:
        """Close the calling thread's connection; it is made anew when it is needed."""
        self._session.close()

    def _write(self, name: str, delivery: Delivery, run: dict[str, Any], *, exclusive: bool) -> Row | None:
        """Where runs may not overlap, the next one is looked for on other days, too."""
        if exclusive:
            return self._session.one(f"{name}_exclusive", run)
        return self._session.one_of_day(name, run, delivery)

    def _write_rare(self, name: str, run: dict[str, Any], *, exclusive: bool) -> Row | None:
        return self._session.one(f"{name}_exclusive" if exclusive else name, run)


def _again(reason: str, delay: timedelta, *, uncounted: int = 0) -> dict[str, Any]:
    """``uncounted`` attempts are not to count."""
    return {"reason": reason, "delay": delay, "uncounted": uncounted}


def _is_completed(delivery: Delivery, row: Row | None) -> bool:
    return row is not None and row[0] == State.SUCCEEDED and (row[2], row[3]) == (delivery.fence, delivery.holder)
