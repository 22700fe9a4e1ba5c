"""What becomes of a message that the broker has given up, by what the ledger says of the fire that it names.

::

    names no fire ──────────────────────────▶ KEPT      a dead letter without a fire, but for one whose time was over
    names one that is not its own ──────────▶ KEPT      forged: the true one's fire is left alone
    its fire is done, running, claimed anew ▶ COUNTED   a copy that came late
    its fire waits for this very message:
        nobody can execute it ──────────────▶ DEAD      undecodable, unknown task, refused by a plain task
        with attempts left ─────────────────▶ GIVEN_BACK  one attempt is counted: lost
        without ────────────────────────────▶ DEAD      rejected, or delivered too often

A worker's refusal alone says little: one of an older release may not know the task yet, so a fire of a task that some
worker knows and guards is tried again. Pure, but for the reasons' names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from uuid import UUID

from scheduling.core.dead_message import DeadMessage, Death
from scheduling.core.fire import State
from scheduling.core.lost_lease import after_lost_lease
from scheduling.models.dead_letter import DeathReason

UNDELIVERED = "undelivered"  # why a fire waits that was given back
GAVE_UP = {
    Death.REJECTED: "a worker rejected its message",
    Death.DELIVERY_LIMIT: "the broker gave its message up: delivered again and again, and never acknowledged",
    Death.EXPIRED: "the broker dropped its message: it waited longer than its time to live",
    Death.MAXLEN: "the broker dropped its message: the queue was full",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The fire that a message names, as the ledger has it."""

    state: State
    fence: int
    job_id: UUID
    tenant: str  # slug
    attempt: int
    max_attempts: int
    counted: int  # attempts so far that count: snoozes and redrives do not
    deleted: bool  # its job is
    retry_base: timedelta  # job time
    retry_cap: timedelta


class Fate(StrEnum):
    COUNTED = "counted"
    KEPT = "kept"
    GIVEN_BACK = "given_back"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Verdict:
    """``reason`` is a DeathReason of what is dead or kept, why nothing happens to what is counted, and why a fire waits
    that is given back.
    """

    fate: Fate
    reason: str
    error: str = ""  # one line
    is_attempt: bool = False  # it counts as one
    wait: timedelta | None = None  # job time, of a fire that is given back


def judge(
    message: DeadMessage,
    standing: Standing | None,
    *,
    owner: str | None,
    is_guarded: bool | None,
    rand: Callable[[], float],
) -> Verdict:
    """``owner``: the tenant of the queue in which it died; ``is_guarded``: whether its task acquires in the ledger,
    None where no worker knows it.
    """
    fire = message.fire
    if message.death is Death.NONE:
        return Verdict(
            Fate.KEPT, DeathReason.REJECTED, "somebody has put it among the dead letters: it died in no queue"
        )
    if fire is None:
        return _of_none_of_ours(message, is_known=is_guarded is not None)
    if fire.tenant != owner:
        return _forged(f"it says that it is {fire.tenant!r}'s, and came through {message.queue!r}")
    if standing is None:
        return Verdict(Fate.COUNTED, "gone")
    if fire.tenant != standing.tenant or fire.job_id != standing.job_id:
        return _forged(f"fire {fire.fire_id} is another's")
    if standing.state is not State.CLAIMED or fire.fence != standing.fence:
        return Verdict(Fate.COUNTED, "stale" if fire.fence != standing.fence else standing.state.value)
    if message.death is Death.REJECTED and (final := _of_no_use(message, is_guarded)):
        return final
    return _next(message.death, standing, rand)


def _of_none_of_ours(message: DeadMessage, *, is_known: bool) -> Verdict:
    if message.death is Death.EXPIRED:  # as its sender wanted it
        return Verdict(Fate.COUNTED, "expired")
    if message.death is not Death.REJECTED:
        return Verdict(Fate.KEPT, DeathReason.DELIVERY_LIMIT, GAVE_UP[message.death])
    if message.problem:
        return Verdict(Fate.KEPT, DeathReason.UNDECODABLE, message.problem)
    if not is_known:
        return Verdict(Fate.KEPT, DeathReason.UNKNOWN_TASK, f"no worker knows the task {message.task!r}")
    return Verdict(Fate.KEPT, DeathReason.REJECTED, GAVE_UP[message.death])


def _forged(error: str) -> Verdict:
    return Verdict(Fate.KEPT, DeathReason.FORGED, error)


def _of_no_use(message: DeadMessage, is_guarded: bool | None) -> Verdict | None:
    """The end of a fire whose message no worker will ever take; None where one may."""
    if message.problem:
        return Verdict(Fate.DEAD, DeathReason.UNDECODABLE, message.problem)
    if is_guarded is None:
        return Verdict(Fate.DEAD, DeathReason.UNKNOWN_TASK, f"no worker knows the task {message.task!r}")
    if not is_guarded:  # the task may have begun, and the ledger does not know: it is not for us to run it again
        return Verdict(Fate.DEAD, DeathReason.REJECTED, GAVE_UP[message.death])
    return None


def _next(death: Death, standing: Standing, rand: Callable[[], float]) -> Verdict:
    """As when its worker had died: nobody knows how far it came."""
    end = after_lost_lease(
        standing.attempt + 1,
        standing.max_attempts,
        deleted=standing.deleted,
        counted=standing.counted + 1,
        base=standing.retry_base,
        cap=standing.retry_cap,
        rand=rand,
    )
    if end.state is State.RETRY_WAIT:
        return Verdict(Fate.GIVEN_BACK, UNDELIVERED, GAVE_UP[death], is_attempt=True, wait=end.wait)
    if standing.deleted:
        return Verdict(Fate.DEAD, DeathReason.CANCELLED, "its job is deleted", is_attempt=True)
    reason = DeathReason.REJECTED if death is Death.REJECTED else DeathReason.DELIVERY_LIMIT
    return Verdict(Fate.DEAD, reason, GAVE_UP[death], is_attempt=True)
