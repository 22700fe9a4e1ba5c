"""The ledger in Postgres: what its statements say, as values of the port.

Acquire, complete and fail are one round trip each when nothing is wrong; the reason of a refusal takes one or two more.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

from scheduling.core.errors import FairbeatError, LeaseLost
from scheduling.core.fire import State
from scheduling.core.identity import run_id
from scheduling.store.ledger_port import Acquired, Delivery, Failure, Refusal, Refused
from scheduling.store.ledger_session import LedgerSession, Values
from scheduling.store.prepared import Row

RESULT_LIMIT = 1_000  # characters that the history keeps
ERROR_LIMIT = 2_000
TRACEBACK_LIMIT = 16_000  # of its end, where the cause is
ROUNDS = 3  # acquire, refused, and claimed under the same fence when read: it changed in between

_SETTLED = (State.SUCCEEDED, State.SKIPPED, State.DEAD)
_JUDGED = {  # reasons of a settled row that this acquire, or an earlier one of the same message, may have written
    "paused": Refusal.PAUSED,
    "superseded": Refusal.SUPERSEDED,
    "expired": Refusal.EXPIRED,
    "cancelled": Refusal.DELETED,
}


class PostgresLedger:
    """The ``Ledger`` on the database ``using``; ``lease`` is real time."""

    def __init__(self, using: str, *, lease: timedelta) -> None:
        self.using = using
        self._lease = lease
        self._session = LedgerSession(using)

    def acquire(self, delivery: Delivery) -> Acquired | Refused:
        values = _named(delivery) | {"lease": self._lease}
        for _ in range(ROUNDS):
            row = None
            if self._session.keeps_plans(delivery):
                row = self._session.one_of_day("acquire_unhindered", values, delivery)
            if row is None:
                row = self._session.one_of_day("acquire", values, delivery)
            if row is not None:
                reason, attempt, max_attempts, exclusive, retry_base, retry_cap, fires = row
                if fires is not None:
                    self._session.keep_plans(delivery, fires)
                if reason:
                    return Refused(_JUDGED[reason])
                return Acquired(
                    delivery=delivery,
                    attempt=attempt,
                    max_attempts=max_attempts,
                    exclusive=exclusive,
                    retry_base=retry_base,
                    retry_cap=retry_cap,
                )
            refusal = _refusal(delivery, self._session.one("standing", _named(delivery)))
            if refusal is not None:
                return Refused(refusal)
        raise FairbeatError(f"fire {delivery.fire_id}: is claimed whenever it is read, and never when it is acquired")

    def heartbeat(self, deliveries: Collection[Delivery]) -> set[UUID]:
        if not deliveries:
            return set()
        renewed = {holder for (holder,) in self._session.all("heartbeat", _many(deliveries) | {"lease": self._lease})}
        missing = [delivery for delivery in deliveries if delivery.holder not in renewed]
        if not missing:
            return set()
        kept = {holder for (holder,) in self._session.all("still_mine", _many(missing))}
        return {delivery.holder for delivery in missing} - kept

    def complete(self, acquired: Acquired, *, worker: str, result: str) -> None:
        run = _run(acquired, "succeeded", worker=worker) | {"result": _kept(result, RESULT_LIMIT)}
        if self._end("complete", acquired, run) is not None:
            return
        if not _is_completed(acquired.delivery, self._session.one("standing", _named(acquired.delivery))):
            raise _lost(acquired.delivery)

    def fail(self, acquired: Acquired, failure: Failure, *, worker: str, delay: timedelta) -> State:
        delivery = acquired.delivery
        run = _run(acquired, "failed", worker=worker) | {
            "error": _kept(failure.error, ERROR_LIMIT),
            "traceback": _kept(failure.traceback[-TRACEBACK_LIMIT:], TRACEBACK_LIMIT),
            "delay": delay,
        }
        row = self._end("fail", acquired, run)
        if row is not None:
            return State(row[0])
        if _is_completed(delivery, self._session.one("standing", _named(delivery))):
            return State.SUCCEEDED
        written = self._session.one("ended_run", run)
        if written is None:
            raise _lost(delivery)
        return State.DEAD if acquired.attempt >= acquired.max_attempts else State.RETRY_WAIT

    def is_completed(self, delivery: Delivery) -> bool:
        return _is_completed(delivery, self._session.one("standing_locked", _named(delivery)))

    def bury(self, delivery: Delivery, reason: str) -> bool:
        return self._session.one("bury", _named(delivery) | {"reason": reason}) is not None

    def close(self) -> None:
        """Close the calling thread's connection; it is made anew when it is needed."""
        self._session.close()

    def _end(self, name: str, acquired: Acquired, run: Values) -> Row | None:
        """Where runs may not overlap, the next one is looked for on other days, too."""
        if acquired.exclusive:
            return self._session.one(f"{name}_exclusive", run)
        return self._session.one_of_day(name, run, acquired.delivery)


def _named(delivery: Delivery) -> Values:
    return {
        "fire_id": delivery.fire_id,
        "job_id": delivery.job_id,
        "scheduled_for": delivery.scheduled_for,
        "history_days": delivery.history_days,
        "fence": delivery.fence,
        "holder": delivery.holder,
    }


def _many(deliveries: Collection[Delivery]) -> Values:
    return {
        "earliest": min(d.scheduled_for for d in deliveries),
        "latest": max(d.scheduled_for for d in deliveries),
        "fire_ids": [d.fire_id for d in deliveries],
        "scheduled_fors": [d.scheduled_for for d in deliveries],
        "history_days": [d.history_days for d in deliveries],
        "fences": [d.fence for d in deliveries],
        "holders": [d.holder for d in deliveries],
    }


def _run(acquired: Acquired, state: str, *, worker: str) -> Values:
    delivery = acquired.delivery
    return _named(delivery) | {
        "run_id": run_id(delivery.fire_id, delivery.fence),
        "day_before": delivery.scheduled_for - timedelta(days=1),
        "run_state": state,
        "worker": worker,
        "result": "",
        "error": "",
        "traceback": "",
    }


def _refusal(delivery: Delivery, row: Row | None) -> Refusal | None:
    """Why the fire of this row could not be acquired; None where it could be now."""
    if row is None:
        return Refusal.GONE
    state, reason, fence, _, has_job = row
    if fence != delivery.fence:
        return Refusal.STALE_FENCE
    if state == State.RUNNING:
        return Refusal.RUNNING
    if state in _SETTLED:
        return Refusal.DONE
    if state in (State.PARKED, State.RETRY_WAIT):
        return Refusal.PAUSED if reason == "paused" else Refusal.WAITING
    return None if has_job else Refusal.DELETED


def _is_completed(delivery: Delivery, row: Row | None) -> bool:
    return row is not None and row[0] == State.SUCCEEDED and (row[2], row[3]) == (delivery.fence, delivery.holder)


def _lost(delivery: Delivery) -> LeaseLost:
    return LeaseLost(
        f"fire {delivery.fire_id}: holder {delivery.holder} with fence {delivery.fence} holds it no longer; "
        "its end was not written"
    )


def _kept(text: str, limit: int) -> str:
    """Text as Postgres can store it: no NUL, no lone surrogate, not too long."""
    plain = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"
