"""Overlap: what becomes of a fire that is about to be dispatched while earlier ones of its job are unfinished.

*Ahead* of a fire are its job's fires that are running, and its unfinished ones before it in (``scheduled_for``, id).
The one at the head of that line has its turn, whether it runs already or is still on its way to a worker; the fires
behind it wait::

    policy        nothing ahead   something ahead
    allow         dispatch        dispatch; parked(overlap) if it was asked for one at a time
    skip          dispatch        skipped(overlap)
    buffer_one    dispatch        parked(overlap) if nobody waits yet, else skipped(buffer_full)
    buffer_all    dispatch        parked(overlap) if fewer than ``buffer_limit`` wait, else skipped(buffer_full)

* **Of several that want the one place of ``buffer_one``, the earliest keeps it.** A fire is judged against those ahead
  of it only, so that a later one never takes the place of one that was let in; the verdict does not depend on the
  order in which a batch is judged, and is the same when a parked fire comes round again. (Temporal's BufferOne does
  the same.)
* Manual fires, backfills, retries and redrives wait, and are never skipped: a person asked for them, or they have
  begun. Nor do they fill the buffer of the schedule's own.
* Places are given by position, not by state: fires that come due in one batch are all still ``claimed`` when they are
  judged.

It decides; the store counts, and the owner, being the only one to start fires of a job, acts on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from scheduling.core.fire import Fire, OverlapPolicy

RECHECK_S = 0.5


class Decision(StrEnum):
    """The value of a skip is the reason that is recorded."""

    DISPATCH = "dispatch"
    PARK = "park"
    SKIP_OVERLAP = "overlap"
    SKIP_BUFFER_FULL = "buffer_full"


@dataclass(frozen=True, slots=True)
class Predecessors:
    """What is ahead of a fire, at one instant of the store."""

    ahead: int  # all: running, or unfinished and before it in (scheduled_for, id)
    queued: int  # of these, the schedule's own that have never started: origin empty, attempt 0, not running


def decide(fire: Fire, predecessors: Predecessors) -> Decision:
    """What to do with a fire that is due and passed its misfire policy."""
    if fire.may_overlap or predecessors.ahead == 0:
        return Decision.DISPATCH
    if fire.origin or fire.attempt > 0:
        return Decision.PARK
    if fire.work.overlap is OverlapPolicy.SKIP:
        return Decision.SKIP_OVERLAP
    places = 1 if fire.work.overlap is OverlapPolicy.BUFFER_ONE else fire.work.buffer_limit
    return Decision.PARK if _waiting(predecessors) < places else Decision.SKIP_BUFFER_FULL


def recheck_s(fire: Fire, predecessors: Predecessors) -> float:
    """How soon a fire that was parked is looked at again, real seconds; most often the end of the one before wakes it.

    A backfill's ten thousand may all wait, and each look counts what is ahead: those far behind are looked at rarely,
    so that all of them together cost the same however many there are.
    """
    return RECHECK_S * predecessors.ahead if fire.origin else RECHECK_S


def _waiting(predecessors: Predecessors) -> int:
    """How many places of the buffer are taken; if all that is ahead is queued, its head has its turn, and none."""
    head = 1 if predecessors.queued == predecessors.ahead else 0
    return predecessors.queued - head
