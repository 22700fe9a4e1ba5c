"""What a node does beside its engine: it takes shards, hands them over, and passes the engine's effects on.

No thread and no I/O: the process's threads feed it, and so can a simulation. One thread calls it, the engine's.

::

    assigned ──┬─ Take ──> order ──> taken | not_taken
               └─ leaving ──> Engine.hand_over ──> HandOver ──> release ──> released
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from math import inf

from scheduling.coordination.port import Assignment
from scheduling.core.clock import Clock
from scheduling.core.effects import (
    Admit,
    Effect,
    Exchange,
    HandOver,
    Keep,
    Lease,
    LetGo,
    LimitsEffect,
    LookAtQueues,
    Publish,
    ReadTerms,
    Redrive,
    TakeAgain,
)
from scheduling.core.engine import Engine
from scheduling.core.fire import Fire
from scheduling.node.storekeeper import Order, Report, Take

logger = logging.getLogger(__name__)
PAUSE_S = 0.5  # in doubt again so soon after it was taken, a shard is left to the next renewal: it may be so each time


class Steering:
    """``publish``, ``order``, ``look`` (at the queues of fires), ``redrive`` (at this job time), ``limits`` (which say
    whether fires may go), ``exchange`` (with other nodes) and ``read_terms`` return at once. ``release`` tells the
    coordinator that shards were drained, and calls its second argument afterwards, in the engine's thread, whether or
    not it could be told; ``renew_soon`` asks for an assignment.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        *,
        publish: Callable[[Sequence[Fire]], None],
        order: Callable[[Order], None],
        release: Callable[[frozenset[int], Callable[[], None]], None],
        renew_soon: Callable[[], None],
        look: Callable[[Sequence[Fire]], None] | None = None,
        redrive: Callable[[datetime], object] = lambda _: None,
        limits: Callable[[LimitsEffect], None] | None = None,
        exchange: Callable[[Exchange], None] | None = None,
        read_terms: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine, self._clock = engine, clock
        self._look = look or (lambda _: self.carry_out(engine.queues_seen(())))
        self._redrive = redrive
        self._ask_limits = limits or _nobody
        self._exchange = exchange or _nobody
        self._read_terms = read_terms
        self._publish, self._order, self._tell_released, self._renew_soon = publish, order, release, renew_soon
        self._taking: set[int] = set()
        self._releasing: set[int] = set()
        self._taken_at: dict[int, float] = {}  # monotonic
        self._is_ending = False

    def carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Publish(fires):
                    self._publish(fires)
                case LookAtQueues(fires):
                    self._look(fires)
                case Redrive(now):
                    self._redrive(now)
                case Admit() | Lease() | LetGo() | Keep():
                    self._ask_limits(effect)
                case Exchange():
                    self._exchange(effect)
                case ReadTerms():
                    self._read_terms()
                case TakeAgain(shards):
                    self._take_again(shards)
                case HandOver(shards):
                    self._release(shards)
                case _:
                    self._order(effect)

    def assigned(self, assignment: Assignment) -> None:
        """A renewal has succeeded."""
        engine = self._engine
        if engine.lease_until and self._clock.monotonic() > engine.lease_until:
            logger.warning("the lease had run out: giving up %d shards", len(engine.shards))
            engine.drop(engine.shards)
        engine.lease_until = assignment.lease_until
        engine.ticks.expect(assignment.mine, self._clock.monotonic())
        if self._clock.monotonic() > assignment.lease_until:
            self._renew_soon()  # we were frozen: what it says of the shards is of another time
        elif not self._is_ending:
            self.carry_out(engine.hand_over(assignment.leaving))
            self._release(assignment.leaving - engine.shards - self._taking)  # left of a release that failed
            self._take(assignment.mine - engine.shards)
        self._order(Report(engine.confirmed, engine.latency.to_dict()))

    def drain(self) -> bool:
        """Hand every shard over, as when another node should have it; call it until it says that this is done."""
        self._is_ending = True
        self.carry_out(self._engine.hand_over(self._engine.shards))
        return not (self._engine.shards or self._taking)

    def _take(self, shards: frozenset[int]) -> None:
        if (wanted := shards - self._taking - self._releasing) and not self._is_ending:
            self._taking |= wanted
            self._order(Take(wanted))

    def _take_again(self, shards: frozenset[int]) -> None:
        long_ago = self._clock.monotonic() - PAUSE_S
        self._take(frozenset(shard for shard in shards if self._taken_at.get(shard, -inf) <= long_ago))

    def taken(self, shards: frozenset[int]) -> None:
        """A take-over that was ordered has ended well."""
        self._taking -= shards
        self._taken_at |= dict.fromkeys(shards, self._clock.monotonic())

    def not_taken(self, shards: frozenset[int]) -> None:
        """It has not; a renewal says whether they are still to be ours."""
        self._taking -= shards
        self._renew_soon()

    def _release(self, shards: frozenset[int]) -> None:
        """What is being released is not taken meanwhile: which of the two came first would be a matter of luck."""
        if (drained := shards - self._releasing) and not self._is_ending:  # at the end all are freed at once
            self._releasing |= drained
            self._tell_released(drained, lambda: self._released(drained))

    def _released(self, shards: frozenset[int]) -> None:
        self._releasing -= shards


def _nobody(effect: Effect) -> None:
    """Of an engine without limits, and without others to share with."""
    raise AssertionError(f"nobody carries out {type(effect).__name__}")
