"""A node's decisions: events in, effects out.

The engine says which shards are ours, and whether anything may be done for them now. Up to the timing wheel a fire is
the ``intake``'s, from there on ``dispatch``'s, until it is confirmed. It reads time from its clock alone, never sleeps,
dials or writes; so a simulation can drive the real code. One thread calls it.

::

    ReadDue -> due_read -> Claim -> claimed ─┐
    ReadWaiting -> waiting_read -> Release ──┴─> wheel -> advance ─┬─ Publish -> published -> watermark -> Record
    taken (after a take-over) ───────────────────────────────┤     ├─ CountPredecessors -> predecessors_counted
    ReadUnstarted -> LookAtQueues -> SendAgain -> sent_again ┘     └─ Settle (parked, skipped) -> settled -> watermark

Invariants: a number (epoch, seq) is settled once its fire is confirmed, or its row is known to have left ``claimed``,
and not before; nothing is published unless this node's lease is in force and it holds the fire's epoch; whatever
waits too long for its turn is parked, so that it does not hold the watermark; for a shard that is leaving
(``hand_over``) nothing begins any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from scheduling.core.appetite import Appetite
from scheduling.core.clock import Clock
from scheduling.core.dispatch import Dispatch
from scheduling.core.due import Due
from scheduling.core.effects import (
    Claim,
    CountPredecessors,
    Effect,
    HandOver,
    ReadDue,
    ReadHeld,
    ReadUnstarted,
    ReadWaiting,
    Record,
    Release,
    SendAgain,
    Settle,
    StoreEffect,
    TakeAgain,
)
from scheduling.core.engine_limits import EngineLimits
from scheduling.core.engine_shares import EngineShares
from scheduling.core.fair_turns import FairTurns
from scheduling.core.fire import Fire, Outcome
from scheduling.core.fire_wheel import FireWheel
from scheduling.core.gates import Gates, Queue
from scheduling.core.hand_over import HandOvers
from scheduling.core.intake import Intake
from scheduling.core.latency import LatencyHistogram
from scheduling.core.looks import Looks
from scheduling.core.marks import Marks
from scheduling.core.numbering import Numbering
from scheduling.core.outstanding import Outstanding
from scheduling.core.overlap import Predecessors
from scheduling.core.runs import Held
from scheduling.core.sharing import Sharing
from scheduling.core.ticks import Ticks
from scheduling.core.unstarted import Unstarted, Walk
from scheduling.core.upkeep import Upkeep
from scheduling.core.waiting import Waiting, WaitingLooks

IDLE_S = 1.0  # without shards, or a lease, there is nothing to wake for


class Engine(EngineShares):
    def __init__(self, clock: Clock, limits: EngineLimits) -> None:
        self._clock = clock
        self._marks = marks = Marks()
        self._outstanding = outstanding = Outstanding()
        self._leaving = leaving = HandOvers(outstanding, marks)
        self._wheel = wheel = FireWheel(clock, leaving)
        self._upkeep = Upkeep(clock, marks)
        self._walk = Walk(limits.start_patience_s)
        self.ticks = Ticks()
        self.lease_until = 0.0  # monotonic: nothing is published or claimed beyond it
        gates = Gates()
        turns = None if limits.fairness is None else FairTurns(clock, limits.fairness)
        waiting = WaitingLooks(clock, outstanding, gates, backlog=limits.backlog)
        self._dispatch = Dispatch(
            clock,
            marks=marks,
            outstanding=outstanding,
            gates=gates,
            wheel=wheel,
            leaving=leaving,
            waiting=waiting,
            turns=turns,
        )
        self._numbering = Numbering(clock, marks=marks, outstanding=outstanding, wheel=wheel, turns=turns)
        self._sharing = None
        if turns is not None:
            self._sharing = Sharing(
                clock, turns, marks=marks, gates=gates, dispatch=self._dispatch, number=self._numbering.anew
            )
        self._intake = Intake(
            clock,
            limits,
            appetite=Appetite(limits, outstanding=outstanding, wheel=wheel, gates=gates, turns=turns),
            numbering=self._numbering,
            looks=Looks(self.ticks),
            waiting=waiting,
            fair=None if self._sharing is None else self._sharing.looks,
        )

    # -- shards -------------------------------------------------------------------------------------------------

    @property
    def shards(self) -> frozenset[int]:
        """All that are ours, those that are leaving included."""
        return self._marks.shards

    @property
    def _staying(self) -> frozenset[int]:
        return self._marks.shards - self._leaving.shards

    @property
    def _ready(self) -> frozenset[int]:
        """Those of which something may be claimed."""
        return self._staying if self._sharing is None else self._staying.difference(self._sharing.untouched)

    def taken(self, epochs: Mapping[int, int], recovered: Iterable[Fire]) -> list[Effect]:
        """These shards are ours under these epochs; ``recovered`` is what their last owner left claimed."""
        recovered = list(recovered)
        self.drop(epochs)
        self._marks.take(epochs)
        for fire in recovered:
            self._marks.reserve(fire)
        if self._sharing is not None:
            return self._sharing.take(epochs, recovered)
        self._let_in(recovered)
        return []

    def held_read(self, effect: ReadHeld, held: Held) -> list[Effect]:
        """What these shards have with the workers is known: now they may go on."""
        assert self._sharing is not None
        recovered, effects = self._sharing.held_read(effect, held, self._clock.monotonic())
        self._let_in(recovered)
        return effects

    def _let_in(self, recovered: Iterable[Fire]) -> None:
        for fire in recovered:
            self._wheel.add(fire)
        self.look_now()

    def drop(self, shards: Collection[int]) -> None:
        """Forget these shards and all their fires: another node has them, or we must take them again."""
        self._marks.drop(shards)
        self._outstanding.drop(shards)
        self._leaving.drop(shards)
        if shards:
            self._wheel.drop(shards)
            if self._sharing is not None:
                self._sharing.drop(shards)

    def failed(self, effect: StoreEffect, *, stale: Collection[int] = ()) -> list[Effect]:
        """A store effect failed, or nobody knows whether it did. ``stale`` shards have another owner; the others, if it
        would have written numbered fires of theirs, or their mark, are taken over again.
        """
        self.drop(stale)
        match effect:
            case ReadDue() | Claim() | ReadWaiting() | Release():
                self._intake.failed(effect)
            case ReadUnstarted() | SendAgain():
                self._walk.end()
            case CountPredecessors(fires):
                self._dispatch.count_later(fires)
            case Record():
                self._marks.recorded(self._clock.monotonic())
        if self._sharing is not None:
            self._sharing.failed(effect, self._clock.monotonic())
        match effect:
            case Claim(epochs) | Release(epochs) | SendAgain(epochs):
                self._numbering.unknown(epochs)
                return self._take_again(epochs)
            case Record(epochs) | Settle(epochs):
                return self._take_again(epochs)
        return []

    def _take_again(self, shards: Iterable[int]) -> list[Effect]:
        """Nobody knows what was written: the next owner finds out; we, unless they leave or the lease is out."""
        doubtful = self.shards & frozenset(shards)
        gone = doubtful & self._leaving.shards
        again = doubtful - gone if self._may_act(self._clock.monotonic()) else frozenset[int]()
        self.drop(doubtful)
        return [*([TakeAgain(again)] if again else []), *([HandOver(gone)] if gone else [])]

    def hand_over(self, shards: Collection[int]) -> list[Effect]:
        """These of ours are to leave, and no others. One that was leaving, and is to stay, is taken over again: we have
        forgotten what it had in the wheel.
        """
        stays = self._leaving.shards - frozenset(shards)
        self._leaving.drop(stays)
        if leaves := self._leaving.begin(self.shards & frozenset(shards), self._clock.monotonic()):
            self._wheel.drop(leaves)
            self._outstanding.drop_counts(leaves)
            if self._sharing is not None:
                self._sharing.leave(leaves)
        return self._take_again(stays)

    # -- time ---------------------------------------------------------------------------------------------------

    def look_now(self) -> None:
        """A hint: something became due."""
        self._intake.now()

    def next_wake(self) -> float:
        """When ``advance`` has something to do, monotonic seconds, unless an event comes before."""
        now = self._clock.monotonic()
        wakes = [now + IDLE_S, self._marks.next_record_at(), self._leaving.next_at()]
        if (shards := self._ready) and self._may_act(now):
            wakes += [self._upkeep.next_at(), self._intake.next_at(shards), self._walk.next_at(), self._wheel.next_at()]
        if self._sharing is not None:
            wakes.append(self._sharing.next_at(may_act=self._may_act(now)))
        return min(wakes)

    def advance(self) -> list[Effect]:
        """What the passing of time demands."""
        now = self._clock.monotonic()
        effects: list[Effect] = []
        if self._may_act(now):
            if due := self._wheel.due(now):
                effects += self._dispatch.due(due, now)
            if shards := self._ready:
                effects += self._walk.begin(shards, now)
                effects += self._intake.begin(shards, now)
                effects += self._upkeep.begin(shards, now)
        if self._sharing is not None:
            effects += self._sharing.advance(now, may_act=self._may_act(now))
        effects += self._marks.record(now, at_once=bool(self._leaving))
        if gone := self._leaving.over(now):
            self.drop(gone)
            effects.append(HandOver(gone))
        return effects

    def _may_act(self, now: float) -> bool:
        """Whether to claim and to publish: the lease is in force."""
        return now < self.lease_until

    # -- what comes in ------------------------------------------------------------------------------------------

    def due_read(self, effect: ReadDue, found: Due) -> list[Effect]:
        may_act = self._may_act(self._clock.monotonic())
        return [*self._intake.due_read(effect, found, self._staying, may_act=may_act)]

    def claimed(self, effect: Claim, fences: Mapping[UUID, int]) -> list[Effect]:
        """``fences`` has the fires that are now claimed; every other number of the plan has no claimed row."""
        self._intake.claimed(effect, fences)
        return []

    def waiting_read(self, found: Waiting) -> list[Effect]:
        may_act = self._may_act(self._clock.monotonic())
        return [*self._intake.waiting_read(found, self._staying, may_act=may_act)]

    def released(self, effect: Release, ids: Collection[UUID]) -> list[Effect]:
        """``ids`` still waited, and are claimed now."""
        self._intake.released(effect, ids)
        return []

    # -- what is not acquired -----------------------------------------------------------------------------------

    def unstarted_read(self, found: Unstarted) -> list[Effect]:
        return [*self._walk.read(found, self._staying, self._clock.monotonic())]

    def queues_seen(self, empty: Collection[Queue]) -> list[Effect]:
        """Of the queues that were asked for, these hold nothing that waits, or are gone."""
        gone = self._walk.queues_seen(empty, self._staying)
        if not gone or not self._may_act(self._clock.monotonic()):
            self._walk.end()
            return []
        return [SendAgain(self._numbering.anew(gone), gone)]

    def sent_again(self, effect: SendAgain, ids: Collection[UUID]) -> list[Effect]:
        """``ids`` are those that nobody had acquired. Their misfire policies were judged before they were published."""
        self._walk.end()
        for fire in effect.fires:
            fire.published = True
        self._numbering.written(effect.epochs, effect.fires, ids)
        return []

    # -- from due to confirmed ----------------------------------------------------------------------------------

    def predecessors_counted(self, effect: CountPredecessors, counts: Mapping[UUID, Predecessors]) -> list[Effect]:
        """Those whose shard was dropped meanwhile, or is leaving, are left out."""
        if self._may_act(self._clock.monotonic()):
            return self._dispatch.counted(effect.fires, counts)
        self._dispatch.count_later(effect.fires)
        return []

    def settled(self, effect: Settle) -> list[Effect]:
        self._dispatch.settled(effect.settlements)
        return []

    def published(self, outcomes: Iterable[Outcome]) -> list[Effect]:
        return self._dispatch.published(outcomes)

    @property
    def confirmed(self) -> int:
        """Messages, since the start."""
        return self._dispatch.confirmed

    @property
    def latency(self) -> LatencyHistogram:
        """Of first attempts, from ``fire_at`` to the broker's confirm."""
        return self._dispatch.latency

    # -- watermarks and upkeep ----------------------------------------------------------------------------------

    def recorded(self) -> list[Effect]:
        self._marks.recorded(self._clock.monotonic())
        return []

    def reaped(self) -> list[Effect]:
        """Some runs were ended: what they free is looked for, and whether there are more."""
        self.look_now()
        self._upkeep.reap_again()
        return []

    def promoted(self, *, more: bool) -> list[Effect]:
        """``more``: another round is needed at once."""
        if more:
            self._upkeep.promote_again()
        return []
