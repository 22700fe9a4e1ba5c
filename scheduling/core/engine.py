"""A node's decisions: events in, effects out.

The engine owns the shards' watermarks, the timing wheel, and every fire between claim and confirm. It reads time from
its clock alone, never sleeps, dials or writes; so a simulation can drive the real code. One thread calls it.

::

    ReadDue -> due_read -> Claim -> claimed ─┐
    ReadWaiting -> waiting_read -> Release ──┴─> wheel -> advance ─┬─ Publish -> published -> watermark -> Record
    taken (after a take-over) ───────────────────────────────┤     ├─ CountPredecessors -> predecessors_counted
    ReadUnstarted -> LookAtQueues -> SendAgain -> sent_again ┘     └─ Settle (parked, skipped) -> settled -> watermark

Invariants: a number (epoch, seq) is settled once its fire is confirmed, or its row is known to have left ``claimed``,
and not before; nothing is published unless this node's lease is in force and it holds the fire's epoch; whatever
waits over ``TURN_S`` for its turn is parked, so that it does not hold the watermark; for a shard that is leaving
(``hand_over``) nothing begins any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from uuid import UUID

from scheduling.core.clock import Clock
from scheduling.core.effects import (
    CancelRunning,
    Claim,
    CountPredecessors,
    Effect,
    HandOver,
    Publish,
    ReadDue,
    ReadUnstarted,
    ReadWaiting,
    Record,
    Release,
    SendAgain,
    Settle,
    Settlement,
    StoreEffect,
    TakeAgain,
)
from scheduling.core.fire import Fire, Outcome, Verdict
from scheduling.core.gates import BROKER, Gates, Queue, lane_of
from scheduling.core.hand_over import HandOvers
from scheduling.core.judging import judge_fires, judge_overlaps, late_s, parked
from scheduling.core.latency import LatencyHistogram
from scheduling.core.looks import Looks
from scheduling.core.marks import Marks, number_of
from scheduling.core.outstanding import Outstanding
from scheduling.core.overlap import RECHECK_S, Predecessors
from scheduling.core.planning import DueJob, plan_jobs
from scheduling.core.ticks import Ticks
from scheduling.core.timing_wheel import TimingWheel, tick_of
from scheduling.core.unstarted import Unstarted, Walk
from scheduling.core.upkeep import Upkeep

TURN_S = 1.0  # a fire that waits longer for its turn is parked
WAIT_S = 0.25  # how often waiting fires are looked for; a hint does not wait for it
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


class Engine:
    def __init__(self, clock: Clock, limits: EngineLimits) -> None:
        self._clock, self._limits = clock, limits
        self._marks = Marks()
        self._wheel: TimingWheel[Fire] = TimingWheel(tick_of(clock.monotonic()))
        self._outstanding = Outstanding()
        self._leaving = HandOvers(self._outstanding, self._marks)
        self._gates = Gates()
        self.ticks = Ticks()
        self._looks = Looks(self.ticks)
        self._upkeep = Upkeep(clock, self._marks)
        self._walk = Walk(limits.start_patience_s)
        self._wait_at = 0.0
        self._releasing = False
        self.lease_until = 0.0  # monotonic: nothing is published or claimed beyond it
        self.confirmed = 0
        self.latency = LatencyHistogram()

    # -- shards -------------------------------------------------------------------------------------------------

    @property
    def shards(self) -> frozenset[int]:
        """All that are ours, those that are leaving included."""
        return self._marks.shards

    @property
    def _staying(self) -> frozenset[int]:
        return self._marks.shards - self._leaving.shards

    def taken(self, epochs: Mapping[int, int], recovered: Iterable[Fire]) -> None:
        """These shards are ours under these epochs; ``recovered`` is what their last owner left claimed."""
        self.drop(epochs)
        self._marks.take(epochs)
        for fire in recovered:
            self._marks.reserve(fire)
            self._await(fire)
        self.look_now()

    def drop(self, shards: Collection[int]) -> None:
        """Forget these shards and all their fires: another node has them, or we must take them again."""
        self._marks.drop(shards)
        self._outstanding.drop(shards)
        self._leaving.drop(shards)
        if shards:
            self._wheel.remove_if(lambda fire: fire.work.shard in shards)

    def failed(self, effect: StoreEffect, *, stale: Collection[int] = ()) -> list[Effect]:
        """A store effect failed, or nobody knows whether it did. ``stale`` shards have another owner; the others, if it
        would have written numbered fires of theirs, or their mark, are taken over again.
        """
        self.drop(stale)
        match effect:
            case ReadDue(shards):
                self._looks.end(shards)
            case ReadWaiting():
                self._releasing = False
            case CountPredecessors(fires):
                self._count_later(fires)
            case ReadUnstarted():
                self._walk.end()
            case Claim(epochs, _, shards):
                self._looks.end(shards)
                self._outstanding.numbering.remove(epochs)
                return self._take_again(epochs)
            case Release(epochs):
                self._releasing = False
                self._outstanding.numbering.remove(epochs)
                return self._take_again(epochs)
            case SendAgain(epochs):
                self._walk.end()
                self._outstanding.numbering.remove(epochs)
                return self._take_again(epochs)
            case Record(epochs):
                self._marks.recorded(self._clock.monotonic())
                return self._take_again(epochs)
            case Settle(epochs):
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
            self._wheel.remove_if(lambda fire: fire.work.shard in leaves)
            self._outstanding.drop_counts(leaves)
        return self._take_again(stays)

    # -- time ---------------------------------------------------------------------------------------------------

    def look_now(self) -> None:
        """A hint: something became due."""
        self._looks.now()
        self._wait_at = 0.0

    def next_wake(self) -> float:
        """When ``advance`` has something to do, monotonic seconds, unless an event comes before."""
        now = self._clock.monotonic()
        wakes = [now + IDLE_S, self._marks.next_record_at(), self._leaving.next_at()]
        if (shards := self._staying) and self._may_act(now):
            wakes += [self._upkeep.next_at(), self._looks.next_at(shards), self._walk.next_at()]
            if not self._releasing:
                wakes.append(self._wait_at)
            if (tick := self._wheel.next_deadline()) is not None:
                wakes.append(tick / 1000)
        return min(wakes)

    def advance(self) -> list[Effect]:
        """What the passing of time demands."""
        now = self._clock.monotonic()
        effects: list[Effect] = []
        if self._may_act(now):
            if due := self._wheel.advance(tick_of(now)):
                effects += self._dispatch(due, now)
            effects += self._polls(now)
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
        shards = self._staying
        if not shards:
            return effects
        takes_more = len(self._outstanding.in_flight) < self._limits.backlog and now >= self._gates.opens_at(BROKER)
        effects += self._walk.begin(shards, now)
        for half in self._looks.begin(shards, now, every_s=self._limits.poll_s):
            room = min(self._limits.batch, self._limits.ahead - len(self._wheel) - len(self._outstanding.in_flight))
            if room > 0 and takes_more:
                self._looks.start(half)
                until = self._clock.job_time(now + self._limits.window_s)
                effects.append(ReadDue(half, until, room))
        if now >= self._wait_at and not self._releasing:
            self._wait_at = now + WAIT_S
            if takes_more:
                self._releasing = True
                effects.append(ReadWaiting(shards, self._clock.now(), self._limits.batch))
        effects += self._upkeep.begin(shards, now)
        return effects

    # -- claim --------------------------------------------------------------------------------------------------

    def due_read(self, effect: ReadDue, jobs: Sequence[DueJob]) -> list[Effect]:
        """Plans a claim for the jobs of the shards that are still ours."""
        shards = self._staying
        mine = [job for job in jobs if job.work.shard in shards]
        now = self._clock.monotonic()
        if not mine or not self._may_act(now):
            self._looks.succeed(effect.shards, now)
            return []
        plans = plan_jobs(mine, until=effect.until, clock=self._clock, number=self._marks.number, room=effect.limit)
        if len(jobs) > effect.limit // 2 or len(plans) < len(mine):
            self._looks.expect_more(effect.shards)
        epochs = self._marks.epochs({plan.due.work.shard for plan in plans})
        self._outstanding.numbering.append(epochs)
        return [Claim(epochs, plans, effect.shards)]

    def claimed(self, effect: Claim, fences: Mapping[UUID, int]) -> list[Effect]:
        """``fences`` has the fires that are now claimed; every other number of the plan has no claimed row."""
        self._looks.succeed(effect.looked_at, self._clock.monotonic())
        self._outstanding.numbering.remove(effect.epochs)
        for plan in effect.plans:
            for row in plan.rows:
                fire = row.fire
                if not self._marks.holds(fire):
                    continue  # its shard was dropped meanwhile
                if (fence := fences.get(fire.id)) is None:
                    self._marks.done(fire)
                else:
                    fire.fence = fence
                    self._await(fire)
        return []

    def waiting_read(self, fires: Sequence[Fire]) -> list[Effect]:
        shards, now = self._staying, self._clock.monotonic()
        mine = self._admitted([fire for fire in fires if fire.work.shard in shards], now)
        if not mine or not self._may_act(now):
            self._releasing = False
            return []
        return [Release(self._numbered_anew(mine), mine)]

    def _admitted(self, fires: Sequence[Fire], now: float) -> list[Fire]:
        """Without the retries that would crowd out first attempts: beyond half of what may be in flight, or where their
        tenant's queue is full.
        """
        room = max(1, self._limits.backlog // 2) - self._outstanding.retries
        admitted: list[Fire] = []
        for fire in fires:
            if fire.attempt:
                if room <= 0 or self._gates.opens_at(lane_of(fire)) > now:
                    continue
                room -= 1
            admitted.append(fire)
        return admitted

    def _numbered_anew(self, fires: Sequence[Fire]) -> Mapping[int, int]:
        """Gives the epochs under which their new numbers are to be written."""
        for fire in fires:
            fire.epoch, fire.seq = self._marks.number(fire.work.shard)
        epochs = self._marks.epochs_of(fires)
        self._outstanding.numbering.append(epochs)
        return epochs

    def released(self, effect: Release, ids: Collection[UUID]) -> list[Effect]:
        self._releasing = False
        if len(effect.fires) >= self._limits.batch:
            self._wait_at = 0.0
        self._await_written(effect, ids)
        return []

    def _await_written(self, effect: Release | SendAgain, ids: Collection[UUID]) -> None:
        """Of the fires that were numbered anew these are claimed under their numbers; nothing is, under the others."""
        self._outstanding.numbering.remove(effect.epochs)
        for fire in effect.fires:
            if self._marks.holds(fire):
                if fire.id in ids:
                    self._await(fire)
                else:
                    self._marks.done(fire)

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

    # -- dispatch -----------------------------------------------------------------------------------------------

    def _dispatch(self, due: Sequence[Fire], now: float) -> list[Effect]:
        """Everything that came due passes the misfire policy, its gate, and the overlap policy of its job."""
        publish: list[Fire] = []
        count: list[Fire] = []
        job_now = self._clock.now()
        fires, settlements = judge_fires(due, self._clock)
        for fire in fires:
            if fire.fire_at > job_now and fire.attempt == 0:
                self._await(fire)  # job time runs behind what the wheel was told
            elif (opens_at := self._gates.opens_at(BROKER, lane_of(fire))) > now:
                self._hold(fire, opens_at, settlements, now)
            elif fire.may_overlap:
                publish.append(fire)
            else:
                self._outstanding.counting[number_of(fire)] = fire
                count.append(fire)
        effects = self._publish(publish) + self._settle(settlements)
        if count:
            effects.append(CountPredecessors(count))  # behind Settle: what is skipped is ahead of nobody
        return effects

    def predecessors_counted(self, effect: CountPredecessors, counts: Mapping[UUID, Predecessors]) -> list[Effect]:
        """Those whose shard was dropped meanwhile, or is leaving, are left out."""
        if not self._may_act(self._clock.monotonic()):
            self._count_later(effect.fires)
            return []
        counting = self._outstanding.counting
        mine = [fire for fire in effect.fires if counting.pop(number_of(fire), None) is not None]
        turns = judge_overlaps(mine, counts, self._clock)
        effects = self._settle(turns.settlements)
        if turns.newest:  # behind Settle: they are parked when the end of what runs wakes them
            effects.append(CancelRunning(self._marks.epochs_of(turns.newest), turns.newest))
        return effects + self._publish(turns.publish)

    def _count_later(self, fires: Iterable[Fire]) -> None:
        """Back into the wheel: their predecessors could not be read, or it is not for us to publish now."""
        again_at = self._clock.monotonic() + RECHECK_S
        for fire in fires:
            if self._outstanding.counting.pop(number_of(fire), None) is not None:
                self._wheel.add(tick_of(again_at) + 1, fire)

    def _hold(self, fire: Fire, opens_at: float, settlements: list[Settlement], now: float) -> None:
        """Its gate is closed: wait in the wheel, or be parked if it has waited for its turn long enough."""
        if fire.work.shard in self._leaving:
            return  # its next owner recovers it
        if late_s(fire, self._clock, opens_at) > TURN_S:
            settlements.append(parked(fire, "turn", self._clock, RECHECK_S))
        else:
            self._wheel.add(tick_of(max(opens_at, now)) + 1, fire)

    def _settle(self, settlements: Sequence[Settlement]) -> list[Effect]:
        if not settlements:
            return []
        self._outstanding.settling.update((number_of(settlement.fire), settlement.fire) for settlement in settlements)
        return [Settle(self._marks.epochs_of([s.fire for s in settlements]), settlements)]

    def settled(self, effect: Settle) -> list[Effect]:
        for settlement in effect.settlements:
            if self._outstanding.settling.pop(number_of(settlement.fire), None) is not None:
                self._marks.done(settlement.fire)
        return []

    # -- publish ------------------------------------------------------------------------------------------------

    def _publish(self, fires: Sequence[Fire]) -> list[Effect]:
        self._outstanding.in_flight.update((number_of(fire), fire) for fire in fires)
        return [Publish(fires)] if fires else []

    def published(self, outcomes: Iterable[Outcome]) -> list[Effect]:
        now = self._clock.monotonic()
        settlements: list[Settlement] = []
        for outcome in outcomes:
            fire = outcome.fire
            if self._outstanding.in_flight.pop(number_of(fire), None) is None:
                continue  # its shard was dropped meanwhile
            match outcome.verdict:
                case Verdict.CONFIRMED:
                    self.confirmed += 1
                    if fire.attempt == 0:
                        self.latency.record(max(0.0, now - self._clock.real_time(fire.fire_at)))
                    if not self._gates.all_open:
                        self._gates.succeed(lane_of(fire), now)
                        self._gates.succeed(BROKER, now)
                    self._marks.done(fire)
                    continue
                case Verdict.NACKED:
                    fire.published = True
                    self._gates.close(lane_of(fire), now)
                case Verdict.LOST | Verdict.UNSENT:
                    fire.published |= outcome.verdict is Verdict.LOST
                    self._gates.close(BROKER, now)
            self._hold(fire, self._gates.opens_at(BROKER, lane_of(fire)), settlements, now)
        return self._settle(settlements)

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

    # -- the wheel ----------------------------------------------------------------------------------------------

    def _await(self, fire: Fire) -> None:
        """Into the wheel, until job time gets to ``fire_at``; a retry is due already."""
        if fire.work.shard in self._leaving:
            return  # its next owner recovers it
        due_at = self._clock.real_time(fire.fire_at) if fire.attempt == 0 else 0.0
        if due_at == inf:  # job time stands still: ask again
            due_at = self._clock.monotonic() + RECHECK_S
        self._wheel.add(tick_of(due_at) + 1, fire)
