"""What a node does so that every tenant gets its share: beside the turns themselves (``fair_turns``) the looks at what
is in flight, the depth of lanes, the exchange with other nodes, and what looks for due jobs owe to them (``looks``).

::

    workers' reports ─> depth ─> what each lane may take of it ─> Exchange ─> places of this node ─> turns ─> Publish, …
    LookAtRuns ─> runs_seen ─> places are free
    looks for due jobs ─> who is left out is held ─> Hold

Times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from fairness.core.depth import Depth, Report
from fairness.core.exchange import Settled, Told
from fairness.core.lanes import LaneLoad, Lanes
from fairness.core.node import UNIT
from fairness.core.terms import Terms
from scheduling.core.clock import Clock
from scheduling.core.dispatch import Dispatch
from scheduling.core.effects import (
    Effect,
    Epochs,
    Exchange,
    Hold,
    Keep,
    LetGo,
    LookAtRuns,
    ReadHeld,
    ReadTerms,
    Release,
    Settlement,
    StoreEffect,
)
from scheduling.core.fair_looks import FairLooks
from scheduling.core.fair_turns import FairTurns
from scheduling.core.fire import Fire, State
from scheduling.core.gates import BROKER, Gates
from scheduling.core.held_reads import HeldReads
from scheduling.core.marks import Marks
from scheduling.core.run_looks import LATEST_S, STILL, RunLooks
from scheduling.core.runs import Held, RunSeen

AT_ONCE = 1000  # turns, and fires that are stored
STORED_S = 30.0  # at least, until what is stored is looked for again, if its turn has not come before
LONGEST_S = 300.0  # however far off its turn is, or its gate opens: terms change, and so do owners
SOON_S, LATER_S = 0.05, 0.1  # between two exchanges, while something waits, and while something is in flight
KEEP_S = 5.0
CROWDS_S = 0.1
LATEST_WAY = 0.05  # what the latest counts for in the mean


class Sharing:
    """The engine's. One thread owns it."""

    def __init__(
        self,
        clock: Clock,
        turns: FairTurns,
        *,
        marks: Marks,
        gates: Gates,
        dispatch: Dispatch,
        number: Callable[[Sequence[Fire]], Epochs],
    ) -> None:
        self._clock, self.turns, self._dispatch = clock, turns, dispatch
        self._marks, self._gates, self._number = marks, gates, number
        self.looks = FairLooks(clock, turns)
        self._run_looks = RunLooks()
        self._usual_way_s = self._run_looks.every_s
        self._depth, self._lanes = Depth(), Lanes()
        self._exchanged_at = 0.0
        self._is_exchanging = False
        self._told_nothing = True  # that it has anything waiting or in flight
        self._of_all: dict[str, Settled] = {}  # the last answer
        self._keep_at = self._crowds_at = 0.0
        self._held_reads = HeldReads()

    # -- shards ------------------------------------------------------------------------------------------------

    @property
    def untouched(self) -> Collection[int]:
        """Shards of which it is not known yet what they have with the workers."""
        return self._held_reads.untouched

    def take(self, shards: Collection[int], recovered: Iterable[Fire]) -> list[Effect]:
        self._held_reads.take(shards, recovered)
        return self._read_held(self._clock.monotonic())

    def _read_held(self, now: float) -> list[Effect]:
        """Not before terms are known: nor is then, which places under which limits anything has."""
        return [*self._held_reads.begin(now, self._marks.shards)] if self.turns.terms.is_known else []

    def held_read(self, effect: ReadHeld, held: Held, now: float) -> tuple[list[Fire], list[Effect]]:
        """Returns what was recovered of these shards, which may go on now."""
        known, recovered = self._held_reads.known(effect, held, self._marks.shards)
        self.turns.held(known.in_flight, now)
        self.looks.holds.known(known.since)
        self._keep_at = 0.0
        return recovered, self._keep(now)

    def drop(self, shards: Collection[int]) -> None:
        self.turns.drop(shards, self._clock.monotonic())
        self.looks.drop(shards)
        self._held_reads.forget(shards)

    def leave(self, shards: Collection[int]) -> None:
        """Nothing of these begins any more."""
        self.turns.leave(shards, self._clock.monotonic())
        self._held_reads.forget(shards)

    # -- what others say ---------------------------------------------------------------------------------------

    def set_terms(self, terms: Mapping[int, Terms], guarded: Collection[str]) -> None:
        if self.turns.terms.set(terms, guarded):
            self._held_reads.count_anew()
        if self.turns.count_in():
            self._keep_at = 0.0  # before anybody else is asked for

    def reported(self, reports: Sequence[Report], now: float) -> None:
        """What each worker said last."""
        if not self.turns.limits.bounds_lanes:
            return
        was_bounded = self._depth.depth is not None
        self._depth.look(
            now,
            reports,
            is_ready=any(self.turns.is_ready(lane) for lane in self.turns.rooms),
            round_trip_s=self._way_s,
            in_flight=self._in_flight_of_all(),
        )
        self.turns.queue.capacity = float(self._depth.slots)
        self._open_lanes(now)
        if self._depth.depth is not None and not was_bounded:
            self._held_reads.count_anew()

    @property
    def _way_s(self) -> float:
        """From the end of a fire until that is seen, and the next is with the broker."""
        return self.turns.round_trip_s + self._run_looks.every_s

    def _in_flight_of_all(self) -> int:
        return sum(self._load(lane).in_flight for lane in self.turns.rooms)

    def _load(self, lane: str) -> LaneLoad:
        """Of all nodes, as they have told, and of this one as it is now."""
        room, of_all = self.turns.rooms[lane], self._of_all.get(lane)
        if of_all is None:
            return LaneLoad(room.in_flight, room.waiting)
        return LaneLoad(max(room.in_flight, of_all.in_flight), max(room.waiting, of_all.wants))

    def _open_lanes(self, now: float) -> None:
        """Of the depth each lane may have what the other leaves it."""
        if not self.turns.limits.exchanges:
            for lane, depth in self._depths(now).items():
                self.turns.set_room(lane, depth)
        elif self._depth.depth is not None:
            for lane, room in self.turns.rooms.items():
                if room.limit is None:  # until the others have said how many places are ours
                    self.turns.set_room(lane, 0)

    def _depths(self, now: float) -> Mapping[str, int | None]:
        if self._depth.depth is None:
            return dict.fromkeys(self.turns.rooms)
        return self._lanes.depths(now, self._depth.depth, {lane: self._load(lane) for lane in self.turns.rooms})

    def exchanged(self, settled: Iterable[Settled], now: float) -> None:
        """How many places this node has, and what all nodes have charged to whom."""
        self._is_exchanging = False
        for one in settled:
            if one.is_shared:
                before, self._of_all[one.lane] = self._of_all.get(one.lane), one
                if before is None or (before.in_flight, before.wants) != (one.in_flight, one.wants):
                    self.turns.stirred_at = now  # with others
                self.turns.queue.adopt(one.lane, one.tags, one.virtual_time)
            else:
                self._of_all.pop(one.lane, None)
            self.turns.set_room(one.lane, 0 if self._told_nothing else one.places)
        self._exchanged_at = now

    def runs_seen(self, runs: Iterable[RunSeen], now: float) -> None:
        self.turns.seen(runs, now)
        self.looked(now)

    def looked(self, now: float) -> None:
        """A look at what is in flight is over, well or not."""
        still_s = now - self.turns.stirred_at
        self._run_looks.end(now, does_anybody_wait=self.turns.waiting > 0, still_s=still_s)
        self._usual_way_s += LATEST_WAY * (self._way_s - self._usual_way_s)

    def failed(self, effect: StoreEffect, now: float) -> None:
        match effect:
            case LookAtRuns():
                self.looked(now)
            case Hold():
                self.looks.holds.not_written(effect, now)
            case ReadHeld():
                self._held_reads.failed(effect, now)

    # -- time --------------------------------------------------------------------------------------------------

    def next_at(self, *, may_act: bool) -> float:
        wakes = [self._run_looks.next_at(is_anything_in_flight=self.turns.has_in_flight)]
        if self.turns.has_freed:
            wakes.append(0.0)
        if may_act:
            wakes += [self.turns.next_at(), self.looks.holds.next_at(), self._exchanges_at()]
            if self.turns.is_limited:
                wakes.append(self._keep_at)
            if self.turns.terms.has_to_read:
                wakes.append(0.0)
            if self.turns.terms.is_known:
                wakes.append(self._held_reads.next_at())
        return min(wakes)

    def advance(self, now: float, *, may_act: bool) -> list[Effect]:
        effects: list[Effect] = []
        self.turns.broker_opens_at = self._gates.opens_at(BROKER)
        for fire in self.turns.worthless():
            if self._marks.holds(fire):
                self._marks.done(fire)
        if may_act:
            effects += self._give_turns(now)
        freed = self.turns.freed()  # before anybody is asked for
        if freed.over:
            effects.append(LetGo(freed.over))
        if freed.unspent:
            effects.append(LetGo(freed.unspent, unspent=True))
        if may_act:
            effects += self._keep(now)
            effects += [*self.turns.to_admit(), *self.turns.to_lease()]
            effects += self.looks.holds.write(now, self._marks.epochs(self._marks.shards))
            effects += self._exchange(now)
            if self.turns.terms.has_to_read:
                self.turns.terms.has_to_read = False
                effects.append(ReadTerms())
            effects += self._read_held(now)
        if fires := self._run_looks.begin(self.turns.in_flight, now, is_anything_in_flight=self.turns.has_in_flight):
            effects.append(LookAtRuns(fires))
        return effects

    def _give_turns(self, now: float) -> list[Effect]:
        if self._crowds_at <= now and self._depth.depth is not None:
            self._crowds_at = now + CROWDS_S
            self.turns.hold_back(self._crowds_at, self._depth.slots, self._way_s)
        called = self.turns.call(now, AT_ONCE)
        effects = self._dispatch.send(called.publish)
        if called.release:
            effects.append(Release(self._number(called.release), called.release, is_turn=True))
        effects += self._dispatch.settle([self._stored(*overdue, now) for overdue in self.turns.overdue(now, AT_ONCE)])
        return effects

    def _stored(self, fire: Fire, reason: str, until: float, now: float) -> Settlement:
        turn_s = self.turns.waiting / max(self.turns.granted_in_a_second(now), 1)
        gate_s = until - now if until < inf else 0.0
        after_s = min(max(STORED_S, turn_s, gate_s), LONGEST_S)
        return Settlement(fire, State.PARKED, reason, self._clock.job_time(now + after_s))

    def _keep(self, now: float) -> list[Effect]:
        if not self.turns.is_limited or now < self._keep_at:
            return []
        self._keep_at = now + KEEP_S
        return [Keep(self.turns.kept())]

    def _exchanges_at(self) -> float:
        if self._is_exchanging or self._depth.depth is None or not self.turns.limits.exchanges:
            return inf
        if self._told_nothing:
            return inf if self._is_at_rest else 0.0
        still_s = self._exchanged_at - self.turns.stirred_at  # below 0: who came since is to be told
        return self._exchanged_at + max(SOON_S if self.turns.waiting else LATER_S, min(STILL * still_s, LATEST_S))

    @property
    def _is_at_rest(self) -> bool:
        return not self.turns.waiting and not any(room.in_flight for room in self.turns.rooms.values())

    def _exchange(self, now: float) -> list[Effect]:
        if now < self._exchanges_at():
            return []
        self._is_exchanging = True
        self._told_nothing = self._is_at_rest
        depths = self._depths(now)
        return [Exchange([self._told(lane, depths[lane] or 0) for lane in self.turns.rooms])]

    def _told(self, lane: str, depth: int) -> Told:
        """Until the answer no more is in flight than we tell."""
        queue, room = self.turns.queue, self.turns.rooms[lane]
        self.turns.set_room(lane, room.in_flight)
        way = self._usual_way_s if self.turns.limits.by_time else 0.0
        rows = [
            replace(row, cost=self.turns.cost((lane, row.tenant_id), self._clock.monotonic()), way=way)
            for row in queue.rows(lane)
        ]
        return Told(
            lane,
            queue.charges(lane),
            rows,
            queue.virtual_time((lane,)) / UNIT,
            room.in_flight,
            room.waiting if rows else 0,
            depth,
        )
