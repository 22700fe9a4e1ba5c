"""What a node takes in of its shards: jobs that are due, and fires that wait, as far as it has an appetite.

::

    ReadDue ──> due_read ──> Claim ──> claimed ───────────┐
    ReadWaiting ──> waiting_read ──> Release ──> released ┴──> wheel

Due jobs are looked for by halves of the shards (``looks``): so that one half is planned here while the store writes the
claim of the other. Where not everybody goes at once, nothing is read in one half of a tenant that has come further
there, until the other has come as far (``in_step``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from uuid import UUID

from scheduling.core.appetite import Appetite
from scheduling.core.clock import Clock
from scheduling.core.due import Due
from scheduling.core.effects import Claim, ReadDue, ReadWaiting, Release
from scheduling.core.engine_limits import EngineLimits
from scheduling.core.fair_looks import FairLooks
from scheduling.core.looks import Looks
from scheduling.core.numbering import Numbering
from scheduling.core.planning import NO_HOLDS, plan_jobs
from scheduling.core.waiting import Waiting, WaitingLooks


class Intake:
    """The engine's, which says what is ours. Times are monotonic seconds. One thread owns it.

    ``fair`` None: whoever is due goes.
    """

    def __init__(
        self,
        clock: Clock,
        limits: EngineLimits,
        *,
        appetite: Appetite,
        numbering: Numbering,
        looks: Looks,
        waiting: WaitingLooks,
        fair: FairLooks | None,
    ) -> None:
        self._clock, self._limits, self._appetite, self._numbering = clock, limits, appetite, numbering
        self._looks, self._waiting, self._fair = looks, waiting, fair

    def now(self) -> None:
        """A hint: something became due."""
        self._looks.now()
        self._waiting.now()

    def next_at(self, shards: Collection[int]) -> float:
        """When the next look is due."""
        return min(self._looks.next_at(shards), self._waiting.next_at())

    def begin(self, shards: frozenset[int], now: float) -> Iterator[ReadDue | ReadWaiting]:
        """The looks at these shards whose time has come."""
        if self._appetite.ask(now):
            self._waiting.soon(now)  # what waits of a tenant that was full
        yield from self._looks_for_due(shards, now)
        if self._waiting.begin(now, takes_more=self._appetite.takes_more(now)):
            yield ReadWaiting(shards, self._clock.now(), self._appetite.batch(now), self._appetite.overfull(now))

    def failed(self, effect: ReadDue | Claim | ReadWaiting | Release) -> None:
        match effect:
            case ReadDue(shards) | Claim(looked_at=shards):
                self._looks.end(shards)
                if self._fair is not None:
                    self._fair.failed(effect)
            case ReadWaiting() | Release(is_turn=False):
                self._waiting.end()

    # -- due jobs -----------------------------------------------------------------------------------------------

    def _looks_for_due(self, shards: frozenset[int], now: float) -> Iterator[ReadDue]:
        full = self._appetite.full
        for half in self._looks.begin(shards, now, every_s=self._limits.poll_s):
            room = self._appetite.room(now)
            if room > 0:
                self._looks.start(half)
                until = self._clock.job_time(now + self._limits.window_s)
                left_out = full | self._ahead(half, shards - half, full)
                look = ReadDue(half, until, room, left_out, self._appetite.most)
                if self._fair is not None:
                    self._fair.begun(look, now)
                yield look

    def _ahead(self, half: frozenset[int], others: frozenset[int], full: frozenset[int]) -> frozenset[int]:
        """Tenants whose turn it is in the other half, if there is one: which is looked at now, if that is all they wait
        for.
        """
        if self._fair is None or not others:
            return frozenset()
        ahead = self._fair.in_step.ahead(half)
        if ahead - full:
            self._looks.expect_more(others)
        return ahead

    def due_read(self, look: ReadDue, found: Due, shards: frozenset[int], *, may_act: bool) -> list[Claim]:
        """Plans a claim for the jobs of these shards."""
        mine = found.jobs
        if not look.shards <= shards:  # some were lost meanwhile, or leave
            mine = [job for job in mine if job.work.shard in shards]
        if not mine or not may_act:
            self._looks.succeed(look.shards, self._clock.monotonic())
            if self._fair is not None and not mine:
                self._fair.nothing_due(look, found)
            return []
        held = NO_HOLDS if self._fair is None else self._fair.held(mine)
        plans = plan_jobs(
            mine, until=look.until, clock=self._clock, number=self._numbering.number, room=look.limit, held=held
        )
        if len(found.jobs) > look.limit // 2 or len(plans) < len(mine):
            self._looks.expect_more(look.shards)
        if self._fair is not None:
            self._fair.planned(look, found, plans)
        return [Claim(self._numbering.begin({plan.due.work.shard for plan in plans}), plans, look.shards)]

    def claimed(self, claim: Claim, fences: Mapping[UUID, int]) -> None:
        """``fences`` has the fires that are now claimed; every other number of the plan has no claimed row."""
        self._looks.succeed(claim.looked_at, self._clock.monotonic())
        if self._fair is not None:
            self._fair.claimed(claim)
        fires = [row.fire for plan in claim.plans for row in plan.rows]
        for fire in fires:
            fire.fence = fences.get(fire.id, fire.fence)
        self._numbering.written(claim.epochs, fires, fences)

    # -- what waits ---------------------------------------------------------------------------------------------

    def waiting_read(self, found: Waiting, shards: Collection[int], *, may_act: bool) -> list[Release]:
        """Of these shards it comes back, as far as it is let in."""
        now = self._clock.monotonic()
        if may_act:
            mine = self._waiting.admitted([fire for fire in found.fires if fire.work.shard in shards], now)
            if self._fair is not None:
                mine = self._fair.turns.found(mine, now)
            if mine:
                return [Release(self._numbering.anew(mine), mine)]
        if found.fires:
            self._waiting.end()
        else:
            self._waiting.rest(found.next_at, now)
        return []

    def released(self, release: Release, ids: Collection[UUID]) -> None:
        """``ids`` still waited, and are claimed now."""
        if not release.is_turn:
            self._waiting.end()
            if len(release.fires) >= self._appetite.batch(self._clock.monotonic()):
                self._waiting.now()
        self._numbering.written(release.epochs, release.fires, ids)
