"""An engine on a desk: a clock that is moved by hand, and answers that are fed by hand. No store, no broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from scheduling.core.due import Due, DueJob
from scheduling.core.effects import Claim, Effect, Publish, ReadDue, ReadWaiting
from scheduling.core.engine import Engine
from scheduling.core.engine_limits import EngineLimits
from scheduling.core.fire import Fire, Outcome, Verdict
from scheduling.core.waiting import Waiting
from scheduling.testing.clock import ManualClock

E = TypeVar("E")
EPOCH_1 = 1
LIMITS = EngineLimits(window_s=1.0, poll_s=0.1, batch=1000, ahead=10_000, backlog=4000)


class Desk:
    """Owns ``shards`` under epoch 1, with a lease of 1000 s, from the start."""

    def __init__(self, *, shards: Sequence[int] = (1,), clock: ManualClock | None = None, **limits: Any) -> None:
        self.clock = clock or ManualClock()
        self.engine = Engine(self.clock, replace(LIMITS, **limits))
        self.engine.lease_until = self.clock.monotonic() + 1000
        self.taken = self.engine.taken(dict.fromkeys(shards, EPOCH_1), [])
        self.effects: list[Effect] = []  # everything so far

    def pass_time(self, seconds: float = 0.0) -> list[Effect]:
        """Let the clock run, and ask the engine what that demands."""
        self.clock.advance(seconds)
        return self.note(self.engine.advance())

    def run(self, seconds: float) -> list[Effect]:
        """Let the clock run, waking the engine whenever it wants to be woken; its looks find nothing due or waiting."""
        until, effects = self.clock.monotonic() + seconds, list[Effect]()
        while (wake := self.engine.next_wake()) <= until:
            self.clock.advance_to(wake)
            effects += self._woken()
        self.clock.advance_to(until)
        return effects + self._woken()

    def _woken(self) -> list[Effect]:
        effects = self.pass_time()
        assert self.engine.next_wake() > self.clock.monotonic(), "it would wake again at once, with nothing to do"
        for effect in effects:
            if isinstance(effect, ReadDue):
                self.engine.due_read(effect, saw(effect))
            if isinstance(effect, ReadWaiting):
                self.engine.waiting_read(Waiting([]))
        return effects

    def note(self, effects: Sequence[Effect]) -> list[Effect]:
        self.effects += effects
        return list(effects)

    def claim(self, *jobs: DueJob, fence: int = 1) -> list[Fire]:
        """Answer the next look for due jobs with these, and let their claim succeed whole; gives the fires."""
        self.engine.look_now()
        fires: list[Fire] = []
        for claim in self.planned(jobs):
            planned = [row.fire for plan in claim.plans for row in plan.rows]
            self.note(self.engine.claimed(claim, {fire.id: fence for fire in planned}))
            fires += planned
        return fires

    def planned(self, jobs: Sequence[DueJob]) -> list[Claim]:
        """Answer the next looks with these; gives the claims that are asked for."""
        claims: list[Claim] = []
        for read in of(ReadDue, self.pass_time()):
            found = [job for job in jobs if job.work.shard in read.shards]
            claims += of(Claim, self.note(self.engine.due_read(read, saw(read, *found))))
        return claims

    def outcome(self, verdict: Verdict, *fires: Fire) -> list[Effect]:
        return self.note(self.engine.published([Outcome(fire, verdict) for fire in fires]))


def saw(read: ReadDue, *jobs: DueJob) -> Due:
    """That these are all that is due."""
    return Due(jobs, read.shards)


def of(kind: type[E], effects: Sequence[Any]) -> list[E]:
    return [effect for effect in effects if isinstance(effect, kind)]


def one(kind: type[E], effects: Sequence[Any]) -> E:
    """The only effect of its kind."""
    (found,) = of(kind, effects)
    return found


def published(effects: Sequence[Any]) -> list[Fire]:
    return [fire for effect in of(Publish, effects) for fire in effect.fires]
