"""The port to the ledger, as a worker uses it: who may run a fire, and what came of it.

::

    claimed  -acquire->  running  -complete->  succeeded
                            │
                            ├──fail | lose──▶  retry_wait, or dead when its attempts are used up
                            ├──snooze───────▶  retry_wait, with one attempt more
                            └──cancel───────▶  dead

Invariants: a delivery is named by (fence, holder); every write carries both, so that a stale worker changes nothing;
each call may be repeated by its holder after a lost reply, and then tells again what it told, or would have told. A
fire that dies has its dead letter from the same statement. Whoever was asked to stop has no other attempt: however such
a run ends without success, its fire is dead. Does not do: end a lease that ran out (the shard's owner does), bring a
retry back in time (the wheel does), ask a run to stop (people and owners do).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, Protocol
from uuid import UUID

from scheduling.core.fire import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One copy of a fire's message in one worker. ``scheduled_for`` and ``history_days`` tell its row's partition."""

    fire_id: UUID
    job_id: UUID
    tenant: str  # the slug, as the message says it
    scheduled_for: datetime
    history_days: int
    fence: int
    holder: UUID  # new for every delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquired:
    """The delivery holds the fire's lease: it may run."""

    delivery: Delivery
    attempt: int  # this one, from 1
    counted: int  # which of those that count it is: by this the backoff grows, whatever was snoozed or redriven
    max_attempts: int
    exclusive: bool  # runs of its job may not overlap: its end wakes the next one
    retry_base: timedelta  # job time
    retry_cap: timedelta  # job time


class Refusal(StrEnum):
    """Why a delivery may not run. Its message is acknowledged all the same, for what still has to happen is in the row;
    but a forged one is rejected: the row is another's.
    """

    GONE = "gone"  # there is no such row
    FORGED = "forged"  # there is, of another tenant than the message says
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
class Renewal:
    """What a heartbeat is told, by holder. A fire that is in neither goes on."""

    lost: frozenset[UUID]
    cancelled: Mapping[UUID, str]  # asked to stop, and why


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, for the history; texts are cut to what the history keeps."""

    error: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class StepState:
    """What the ledger knows of a step. Neither new nor done: an earlier attempt began it, and it is in doubt."""

    is_new: bool  # this attempt began it
    is_done: bool
    result: Any = None  # as JSON gives it back


Ending = Literal["lost", "timed_out"]  # of an attempt by somebody else than its task


class Ledger(Protocol):
    """Raises ``django.db.utils.OperationalError`` or ``InterfaceError`` where the database does not answer; then nobody
    knows whether the write took place, and the call may be repeated.

    What ends a run without success (``fail``, ``snooze``, ``cancel``) returns the state that the fire got; that is
    ``succeeded`` where a completion of the same holder, whose reply was lost, turns out to have been written.
    """

    def acquire(self, delivery: Delivery) -> Acquired | Refused:
        """Take the fire's lease, counting an attempt; or say why not."""

    def heartbeat(self, deliveries: Collection[Delivery]) -> Renewal:
        """Renew the leases; tells which are lost, and which are to stop. A row that is locked just now is not lost."""

    def complete(self, acquired: Acquired, *, worker: str, result: str) -> None:
        """running → succeeded, with its run in the history. Inside a transaction it is to be the last statement.

        Raises LeaseLost: the fire is no longer this holder's, and nothing was written.
        """

    def fail(
        self, acquired: Acquired, failure: Failure, *, worker: str, delay: timedelta | None, reason: str = "gave_up"
    ) -> State:
        """running → retry_wait, due ``delay`` of job time from now; or dead, when its attempts are used up or it was
        asked to stop.

        Without a ``delay`` there is no other attempt, however many are left: dead, and ``reason`` (a ``DeathReason``)
        says why. Raises LeaseLost.
        """

    def snooze(self, acquired: Acquired, *, worker: str, delay: timedelta) -> State:
        """running → retry_wait, due ``delay`` of job time from now; this attempt does not count, so there is one more.

        Dead where it was asked to stop. Raises LeaseLost.
        """

    def cancel(self, acquired: Acquired, *, worker: str, reason: str) -> State:
        """running → dead: the task has stopped, since it was asked to or of its own accord. Raises LeaseLost."""

    def lose(self, delivery: Delivery, *, worker: str, error: str, run_state: Ending) -> State | None:
        """running → retry_wait, or dead when its attempts are used up: its process is gone, and another one says so.

        For ``lost`` the first retry is at once, since nothing says that the task is at fault, and later ones come with
        backoff; ``timed_out`` has backoff always. Returns the state that the fire got; None where this holder did not
        have it, or has ended it itself.
        """

    def begin_step(self, acquired: Acquired, name: str) -> StepState:
        """Note that this attempt is about to do the step; or tell what is known of it. It is new for the attempt that
        began it until it is done, so an attempt that asks twice has to remember. Raises LeaseLost.
        """

    def finish_step(self, acquired: Acquired, name: str, result: Any) -> None:
        """It is done; ``result`` is a JSON value. An attempt may say so of one that an earlier attempt began.

        Raises LeaseLost.
        """

    def undo_step(self, acquired: Acquired, name: str) -> None:
        """It did not happen: a step that is not done is forgotten. Raises LeaseLost."""

    def is_completed(self, delivery: Delivery) -> bool:
        """Whether this holder's completion is written. Waits for a transaction in doubt, so its answer is final."""

    def bury(self, delivery: Delivery, reason: str, *, error: str = "") -> bool:
        """claimed → dead: nothing here can execute it. Returns whether it still was claimed under this fence.

        ``reason`` is a ``DeathReason``.
        """
