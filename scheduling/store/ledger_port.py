"""The port to the ledger, as a worker uses it: who may run a fire, and what came of it.

::

    claimed  -acquire->  running  -complete->  succeeded
                            │
                            └──fail──▶  retry_wait, or dead when its attempts are used up

Invariants: a delivery is named by (fence, holder); every write carries both, so that a stale worker changes nothing;
each call may be repeated by its holder after a lost reply, and then tells again what it told, or would have told. Does
not do: end a lease that ran out (the shard's owner does), bring a retry back in time (the wheel does).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from scheduling.core.fire import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One copy of a fire's message in one worker. ``scheduled_for`` and ``history_days`` tell its row's partition."""

    fire_id: UUID
    job_id: UUID
    scheduled_for: datetime
    history_days: int
    fence: int
    holder: UUID  # new for every delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquired:
    """The delivery holds the fire's lease: it may run."""

    delivery: Delivery
    attempt: int  # this one, from 1
    max_attempts: int
    exclusive: bool  # runs of its job may not overlap: its end wakes the next one
    retry_base: timedelta  # job time
    retry_cap: timedelta  # job time


class Refusal(StrEnum):
    """Why a delivery may not run. Its message is acknowledged all the same: what still has to happen is in the row."""

    GONE = "gone"  # there is no such row
    STALE_FENCE = "stale_fence"  # the fire was claimed again since this message was sent
    DONE = "done"  # succeeded, skipped or dead
    RUNNING = "running"  # another delivery has it, whatever its lease
    WAITING = "waiting"  # back with its owner: parked, or waiting for a retry
    DELETED = "deleted"  # its job is
    PAUSED = "paused"
    SUPERSEDED = "superseded"  # the schedule was edited, and has no such occurrence of this version
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Refused:
    reason: Refusal


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, for the history; texts are cut to what the history keeps."""

    error: str
    traceback: str = ""


class Ledger(Protocol):
    """Raises ``django.db.utils.OperationalError`` or ``InterfaceError`` where the database does not answer; then nobody
    knows whether the write took place, and the call may be repeated.
    """

    def acquire(self, delivery: Delivery) -> Acquired | Refused:
        """Take the fire's lease, counting an attempt; or say why not."""

    def heartbeat(self, deliveries: Collection[Delivery]) -> set[UUID]:
        """Renew the leases; returns the holders that have lost theirs. One whose row is locked just now has not."""

    def complete(self, acquired: Acquired, *, worker: str, result: str) -> None:
        """running → succeeded, with its run in the history. Inside a transaction it is to be the last statement.

        Raises LeaseLost: the fire is no longer this holder's, and nothing was written.
        """

    def fail(self, acquired: Acquired, failure: Failure, *, worker: str, delay: timedelta) -> State:
        """running → retry_wait, due ``delay`` of job time from now; or dead when its attempts are used up.

        Returns the state that the fire got; ``succeeded`` where a completion of the same holder, whose reply was lost,
        turns out to have been written. Raises LeaseLost.
        """

    def is_completed(self, delivery: Delivery) -> bool:
        """Whether this holder's completion is written. Waits for a transaction in doubt, so its answer is final."""

    def bury(self, delivery: Delivery, reason: str) -> bool:
        """claimed → dead: nothing here can execute it. Returns whether it still was claimed under this fence."""
