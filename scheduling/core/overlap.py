"""Overlap: what becomes of a fire that is about to be dispatched while earlier ones of its job are unfinished.

*Ahead* of a fire are its job's fires that are running, and its unfinished ones before it in (``scheduled_for``, id).
The one at the head of that line has its turn, whether it runs already or is still on its way to a worker; the fires
behind it wait::

    policy          nothing ahead   something ahead
    allow           dispatch        dispatch; parked(overlap) if it was asked for one at a time
    skip            dispatch        skipped(overlap)
    buffer_one      dispatch        parked(overlap) if nobody waits yet, else skipped(buffer_full)
    buffer_all      dispatch        parked(overlap) if fewer than ``buffer_limit`` wait, else skipped(buffer_full)
    cancel_running  dispatch        parked(overlap), and what has begun is asked to stop; skipped(overlap) as soon as a
                                    newer one waits behind it

* **Of several that want the one place of ``buffer_one``, the earliest keeps it.** A fire is judged against those ahead
  of it only, so that a later one never takes the place of one that was let in; the verdict does not depend on the
  order in which a batch is judged, and is the same when a parked fire comes round again. (Temporal's BufferOne does
  the same.)
* Manual fires, backfills, retries and redrives wait, and are never skipped: a person asked for them, or they have
  begun. Nor do they fill the buffer of the schedule's own, or ask anybody to stop.
* **The newest takes the place under ``cancel_running``.** Only the schedule's own give way to it: one that runs is
  asked (it may go on, and the newest waits for its end), one that waits for a retry gets none, one that has never
  started is skipped once the newer one is parked.
* Places are given by position, not by state: fires that come due in one batch are all still ``claimed`` when they are
  judged.

It decides; the store counts, and the owner, being the only one to start fires of a job, acts on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from scheduling.core.fire import Fire, OverlapPolicy

RECHECK_S = 0.5
NEWER_IS_DUE = "a newer fire of its job is due"  # why one that has begun is asked to stop


class Decision(StrEnum):
    """The value of a skip is the reason that is recorded."""

    DISPATCH = "dispatch"
    PARK = "park"
    SKIP_OVERLAP = "overlap"
    SKIP_BUFFER_FULL = "buffer_full"


@dataclass(frozen=True, slots=True)
class Predecessors:
    """What is ahead of a fire, at one instant of the store; and what ``cancel_running`` has to know (0 for others)."""

    ahead: int  # all: running, or unfinished and before it in (scheduled_for, id)
    queued: int  # of these, the schedule's own that have never started: origin empty, attempt 0, not running
    begun: int = 0  # the schedule's own before it that run, or wait for a retry, and were not asked to stop yet
    newer: int = 0  # the schedule's own behind it that are parked, and have never started


NOTHING_AHEAD = Predecessors(0, 0)


def gives_way(fire: Fire) -> bool:
    """Whether its policy is ``cancel_running``, and it is one of the schedule's own that has not begun."""
    return fire.work.overlap is OverlapPolicy.CANCEL_RUNNING and not (fire.origin or fire.attempt)


def decide(fire: Fire, predecessors: Predecessors) -> Decision:
    """What to do with a fire that is due and passed its misfire policy."""
    if gives_way(fire) and predecessors.newer:
        return Decision.SKIP_OVERLAP
    if fire.may_overlap or predecessors.ahead == 0:
        return Decision.DISPATCH
    if fire.origin or fire.attempt > 0:
        return Decision.PARK
    match fire.work.overlap:
        case OverlapPolicy.SKIP:
            return Decision.SKIP_OVERLAP
        case OverlapPolicy.CANCEL_RUNNING:
            return Decision.PARK
        case OverlapPolicy.BUFFER_ONE:
            places = 1
        case _:
            places = fire.work.buffer_limit
    return Decision.PARK if _waiting(predecessors) < places else Decision.SKIP_BUFFER_FULL


def asks_to_stop(fire: Fire, predecessors: Predecessors) -> bool:
    """Whether what has begun before a fire that is parked is to make room for it."""
    return gives_way(fire) and predecessors.begun > 0 and not predecessors.newer


def recheck_s(fire: Fire, predecessors: Predecessors) -> float:
    """How soon a fire that was parked is looked at again, real seconds; most often the end of the one before wakes it.

    A hundred may wait, and of a backfill ten thousand, and each look counts what is ahead: those far behind are looked
    at rarely, so that all of them together cost the same however many there are. The newest of ``cancel_running`` asks
    again soon: the one before it may have begun only now.
    """
    return RECHECK_S if gives_way(fire) else RECHECK_S * max(1, predecessors.ahead)


def _waiting(predecessors: Predecessors) -> int:
    """How many places of the buffer are taken; if all that is ahead is queued, its head has its turn, and none."""
    head = 1 if predecessors.queued == predecessors.ahead else 0
    return predecessors.queued - head
