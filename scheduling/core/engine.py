"""A node's decisions: events in, effects out.

The engine owns the shards' watermarks, the timing wheel, and every fire between claim and confirm (``dispatch``: from
the wheel on). It reads time from its clock alone, never sleeps, dials or writes; so a simulation can drive the real
code. One thread calls it.

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

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from uuid import UUID

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
from scheduling.core.engine_shares import EngineShares
from scheduling.core.fair_turns import FairTurns
from scheduling.core.fire import Fire, Outcome
from scheduling.core.fire_wheel import FireWheel
from scheduling.core.gates import BROKER, Gates, Queue
from scheduling.core.hand_over import HandOvers
from scheduling.core.latency import LatencyHistogram
from scheduling.core.looks import Looks
from scheduling.core.marks import Marks
from scheduling.core.outstanding import Outstanding
from scheduling.core.overlap import Predecessors
from scheduling.core.planning import NO_HOLDS, plan_jobs
from scheduling.core.runs import Held
from scheduling.core.sharing import Sharing
from scheduling.core.ticks import Ticks
from scheduling.core.turn import FairLimits
from scheduling.core.turns import NO_BOUNDS
from scheduling.core.unstarted import Unstarted, Walk
from scheduling.core.upkeep import Upkeep
from scheduling.core.waiting import Waiting, WaitingLooks

IDLE_S = 1.0  # without shards, or a lease, there is nothing to wake for


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """Times are real seconds, counts are fires. The settings of these names have the defaults."""

    window_s: float
    poll_s: float
    batch: int
    ahead: int
    backlog: int
    start_patience_s: float = inf  # without end: what is published is not looked after
    fairness: FairLimits | None = None  # None: whoever is due goes


class Engine(EngineShares):
    def __init__(self, clock: Clock, limits: EngineLimits) -> None:
        self._clock, self._limits = clock, limits
        self._marks = Marks()
        self._outstanding = Outstanding()
        self._leaving = HandOvers(self._outstanding, self._marks)
        self._wheel = FireWheel(clock, self._leaving, counts=limits.fairness is not None)
        self._gates = Gates()
        self.ticks = Ticks()
        self._looks = Looks(self.ticks)
        self._upkeep = Upkeep(clock, self._marks)
        self._walk = Walk(limits.start_patience_s)
        self._waiting = WaitingLooks(clock, self._outstanding, self._gates, backlog=limits.backlog)
        turns = None if limits.fairness is None else FairTurns(clock, limits.fairness)
        self._dispatch = Dispatch(
            clock,
            marks=self._marks,
            outstanding=self._outstanding,
            gates=self._gates,
            wheel=self._wheel,
            leaving=self._leaving,
            waiting=self._waiting,
            turns=turns,
        )
        self._sharing = None
        if turns is not None:
            self._sharing = Sharing(
                clock,
                turns,
                marks=self._marks,
                gates=self._gates,
                dispatch=self._dispatch,
                number=self._numbered_anew,
            )
        self.lease_until = 0.0  # monotonic: nothing is published or claimed beyond it

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
            case ReadDue(shards) | Claim(looked_at=shards):
                self._looks.end(shards)
            case ReadWaiting() | Release(is_turn=False):
                self._waiting.end()
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
                self._outstanding.numbering.remove(epochs)
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
        self._looks.now()
        self._waiting.now()

    def next_wake(self) -> float:
        """When ``advance`` has something to do, monotonic seconds, unless an event comes before."""
        now = self._clock.monotonic()
        wakes = [now + IDLE_S, self._marks.next_record_at(), self._leaving.next_at()]
        if (shards := self._ready) and self._may_act(now):
            wakes += [self._upkeep.next_at(), self._looks.next_at(shards), self._walk.next_at()]
            wakes += [self._waiting.next_at(), self._wheel.next_at()]
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
            effects += self._polls(now)
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

    def _polls(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        shards = self._ready
        if not shards:
            return effects
        full = self._full(now)
        takes_more = len(self._outstanding.in_flight) < self._limits.backlog and now >= self._gates.opens_at(BROKER)
        effects += self._walk.begin(shards, now)
        for half in self._looks.begin(shards, now, every_s=self._limits.poll_s):
            room = min(self._batch(), self._limits.ahead - len(self._wheel) - len(self._outstanding.in_flight))
            if room > 0 and takes_more:
                self._looks.start(half)
                until = self._clock.job_time(now + self._limits.window_s)
                left_out = full | self._ahead(half, shards, full)
                most = NO_BOUNDS if self._sharing is None else self._sharing.most
                effects.append(ReadDue(half, until, room, left_out, most))
                if left_out and self._sharing is not None:
                    self._sharing.holds.begin(left_out, half, now, self._clock.now())
        if self._waiting.begin(now, takes_more=takes_more):
            if self._sharing is not None:
                full -= self._sharing.only_full(now)
            effects.append(ReadWaiting(shards, self._clock.now(), self._batch(), full))
        effects += self._upkeep.begin(shards, now)
        return effects

    def _ahead(self, half: frozenset[int], shards: frozenset[int], full: frozenset[int]) -> frozenset[int]:
        """Tenants whose turn it is in the other half, if there is one: which is looked at now, if that is all they wait
        for.
        """
        others = shards - half
        if self._sharing is None or not others:
            return frozenset()
        ahead = self._sharing.in_step.ahead(half)
        if ahead - full:
            self._looks.expect_more(others)
        return ahead

    def _batch(self) -> int:
        """How many fires are read at once."""
        return self._limits.batch if self._sharing is None else min(self._limits.batch, self._sharing.batch)

    def _full(self, now: float) -> frozenset[int]:
        """Tenants that have enough here. What waits of one that has no longer is looked for."""
        if self._sharing is None:
            return frozenset()
        before, full = self._sharing.full(now)
        if before - full:
            self._waiting.soon(now)
        if len(self._wheel) > self._limits.ahead // 2:  # the others need room for what they have due
            full |= self._wheel.crowded_by(self._limits.ahead // 4)
        return full

    # -- claim --------------------------------------------------------------------------------------------------

    def due_read(self, effect: ReadDue, found: Due) -> list[Effect]:
        """Plans a claim for the jobs of the shards that are still ours."""
        shards = self._staying
        mine = [job for job in found.jobs if job.work.shard in shards]
        now = self._clock.monotonic()
        if not mine or not self._may_act(now):
            self._looks.succeed(effect.shards, now)
            if self._sharing is not None and not mine:
                self._sharing.nothing_due(effect, found)
            return []
        held = NO_HOLDS if self._sharing is None else self._sharing.held(mine)
        plans = plan_jobs(
            mine, until=effect.until, clock=self._clock, number=self._marks.number, room=effect.limit, held=held
        )
        if len(found.jobs) > effect.limit // 2 or len(plans) < len(mine):
            self._looks.expect_more(effect.shards)
        if self._sharing is not None:
            self._sharing.planned(effect, found, mine, plans)
        epochs = self._marks.epochs({plan.due.work.shard for plan in plans})
        self._outstanding.numbering.append(epochs)
        return [Claim(epochs, plans, effect.shards)]

    def claimed(self, effect: Claim, fences: Mapping[UUID, int]) -> list[Effect]:
        """``fences`` has the fires that are now claimed; every other number of the plan has no claimed row."""
        self._looks.succeed(effect.looked_at, self._clock.monotonic())
        self._outstanding.numbering.remove(effect.epochs)
        if self._sharing is not None:
            self._sharing.holds.claimed(effect.looked_at)
        for plan in effect.plans:
            for row in plan.rows:
                fire = row.fire
                if not self._marks.holds(fire):
                    continue  # its shard was dropped meanwhile
                if (fence := fences.get(fire.id)) is None:
                    self._marks.done(fire)
                else:
                    fire.fence = fence
                    self._wheel.add(fire)
        return []

    def waiting_read(self, found: Waiting) -> list[Effect]:
        shards, now = self._staying, self._clock.monotonic()
        if self._may_act(now):
            mine = self._waiting.admitted([fire for fire in found.fires if fire.work.shard in shards], now)
            if self._sharing is not None:
                mine = self._sharing.turns.found(mine, now)
            if mine:
                return [Release(self._numbered_anew(mine), mine)]
        if found.fires:
            self._waiting.end()
        else:
            self._waiting.rest(found.next_at, now)
        return []

    def _numbered_anew(self, fires: Sequence[Fire]) -> Mapping[int, int]:
        """Gives the epochs under which their new numbers are to be written."""
        for fire in fires:
            fire.epoch, fire.seq = self._marks.number(fire.work.shard)
        epochs = self._marks.epochs_of(fires)
        self._outstanding.numbering.append(epochs)
        return epochs

    def released(self, effect: Release, ids: Collection[UUID]) -> list[Effect]:
        if not effect.is_turn:
            self._waiting.end()
            if len(effect.fires) >= self._batch():
                self._waiting.now()
        self._await_written(effect, ids)
        return []

    def _await_written(self, effect: Release | SendAgain, ids: Collection[UUID]) -> None:
        """Of the fires that were numbered anew these are claimed under their numbers; nothing is, under the others."""
        self._outstanding.numbering.remove(effect.epochs)
        for fire in effect.fires:
            if self._marks.holds(fire):
                if fire.id in ids:
                    self._wheel.add(fire)
                else:
                    self._marks.done(fire)
                    if self._sharing is not None:
                        self._sharing.turns.gone(fire, self._clock.monotonic())

    # -- what is not acquired -----------------------------------------------------------------------------------

    def unstarted_read(self, found: Unstarted) -> list[Effect]:
        return [*self._walk.read(found, self._staying, self._clock.monotonic())]

    def queues_seen(self, empty: Collection[Queue]) -> list[Effect]:
        """Of the queues that were asked for, these hold nothing that waits, or are gone."""
        gone = self._walk.queues_seen(empty, self._staying)
        if not gone or not self._may_act(self._clock.monotonic()):
            self._walk.end()
            return []
        return [SendAgain(self._numbered_anew(gone), gone)]

    def sent_again(self, effect: SendAgain, ids: Collection[UUID]) -> list[Effect]:
        """``ids`` are those that nobody had acquired. Their misfire policies were judged before they were published."""
        self._walk.end()
        for fire in effect.fires:
            fire.published = True
        self._await_written(effect, ids)
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
