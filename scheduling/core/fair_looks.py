"""What looks for due jobs owe to tenants that have turns: of a backlog that is read in pieces the earliest come first,
and what is left unclaimed by no fault of ours is not late by it.

::

    a look begins ──> whoever it leaves out is held (holds)
    it has found ──> who has come further in its half than in the other waits for that, if anybody waits (in_step)
                 ──> there is more than can go, for want of workers (shortage)
    its claim is written ──> of whom it has left nothing, he is held no more (holds)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from scheduling.core.clock import Clock
from scheduling.core.due import Due, DueJob
from scheduling.core.effects import Claim, ReadDue
from scheduling.core.fair_turns import FairTurns
from scheduling.core.holds import Holds, Key, still_due
from scheduling.core.in_step import InStep
from scheduling.core.plans import JobPlan
from scheduling.core.shortage import Shortage


class FairLooks:
    """One thread owns it."""

    def __init__(self, clock: Clock, turns: FairTurns) -> None:
        self._clock, self.turns = clock, turns
        self.holds, self.in_step, self._shortage = Holds(), InStep(), Shortage()

    def begun(self, look: ReadDue, now: float) -> None:
        if look.full:
            self.holds.begin(look.full, look.shards, now, self._clock.now())

    def nothing_due(self, look: ReadDue, found: Due) -> None:
        """Nothing that is claimed here: what it has found of a shard that leaves is left to the next owner."""
        self._keep_in_step(look, found)
        self.holds.looked(look, found, _keys(found.jobs))
        self.holds.claimed(look.shards)

    def planned(self, look: ReadDue, found: Due, plans: Sequence[JobPlan]) -> None:
        """Its claim is under way."""
        self._keep_in_step(look, found)
        is_short = self.turns.is_short
        if self.holds.since or is_short:
            planned = {plan.due.work.job_id for plan in plans}
            left = _keys(job for job in found.jobs if job.work.job_id not in planned)
            left += still_due(plans, self._clock.now())
            self.holds.looked(look, found, left)
            if is_short:
                self._shortage.looked(look, found, left, self._clock.monotonic(), self._clock.now())

    def _keep_in_step(self, look: ReadDue, found: Due) -> None:
        if self.turns.holds_up:
            self.in_step.looked(look, found)
        else:  # the halves take turns, and all that is read goes at once
            self.in_step.forget()

    def claimed(self, claim: Claim) -> None:
        self.holds.claimed(claim.looked_at)

    def failed(self, effect: ReadDue | Claim) -> None:
        match effect:
            case ReadDue():
                self.in_step.forget()  # nobody waits for a half that cannot be read
            case Claim(looked_at=shards):
                self.holds.not_claimed(shards)

    def held(self, jobs: Iterable[DueJob]) -> Mapping[tuple[int, int], datetime]:
        """Since when it is by no fault of ours that these are not claimed, by (tenant, shard)."""
        return self._shortage.held(self.holds.since, jobs, self._clock.monotonic())

    def drop(self, shards: Collection[int]) -> None:
        """These are no longer ours, or begin anew."""
        self.holds.drop(shards)
        self.in_step.forget()


def _keys(jobs: Iterable[DueJob]) -> list[Key]:
    return [(job.work.tenant_id, job.work.shard) for job in jobs]
