"""From due to confirmed: what comes out of the wheel is judged, passes its gate, and is published.

::

    due ─┬─────────────────────────── its turn ──> Publish ─┬─ confirmed ──────────────────> its number is settled
         ├─ CountPredecessors ─┬────────┘                   └─ refused, lost ─> its gate closes
         │                     └─ not its turn ─┐                                    │
         ├─ too late, or cannot be sent ────────┴─> Settle ─> written ─> its number is settled
         └─ its gate is closed ─> back into the wheel, and parked (Settle) if it has waited too long
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from scheduling.core.clock import Clock
from scheduling.core.effects import CancelRunning, CountPredecessors, Effect, Publish, Settle, Settlement
from scheduling.core.fair_turns import FairTurns
from scheduling.core.fire import Fire, Outcome, Verdict
from scheduling.core.fire_wheel import FireWheel
from scheduling.core.gates import BROKER, Gates, lane_of
from scheduling.core.hand_over import HandOvers
from scheduling.core.judging import judge_fires, judge_overlaps, late_s, parked
from scheduling.core.latency import LatencyHistogram
from scheduling.core.marks import Marks, number_of
from scheduling.core.outstanding import Outstanding
from scheduling.core.overlap import RECHECK_S, Predecessors
from scheduling.core.waiting import WaitingLooks

TURN_S = 1.0  # a fire that waits longer for its turn is parked


class Dispatch:
    """The engine's, which shares the rest with it. Times are monotonic seconds. One thread owns it."""

    def __init__(
        self,
        clock: Clock,
        *,
        marks: Marks,
        outstanding: Outstanding,
        gates: Gates,
        wheel: FireWheel,
        leaving: HandOvers,
        waiting: WaitingLooks,
        turns: FairTurns | None = None,
    ) -> None:
        self._clock, self._marks, self._outstanding = clock, marks, outstanding
        self._gates, self._wheel, self._leaving, self._waiting = gates, wheel, leaving, waiting
        self._turns = turns
        self.confirmed = 0
        self.latency = LatencyHistogram()

    def due(self, due: Sequence[Fire], now: float) -> list[Effect]:
        """Everything that came due passes the misfire policy, its gate, and the overlap policy of its job."""
        publish: list[Fire] = []
        count: list[Fire] = []
        job_now = self._clock.now()
        fires, settlements = judge_fires(due, self._clock)
        for fire in fires:
            if fire.fire_at > job_now and fire.attempt == 0:
                self._wheel.add(fire)  # job time runs behind what the wheel was told
            elif (opens_at := self._gates.opens_at(BROKER, lane_of(fire))) > now:
                self._hold(fire, opens_at, settlements, now)
            elif fire.may_overlap:
                publish.append(fire)
            else:
                self._outstanding.counting[number_of(fire)] = fire
                count.append(fire)
        effects = self._publish(publish) + self.settle(settlements)
        if count:
            effects.append(CountPredecessors(count))  # behind Settle: what is skipped is ahead of nobody
        return effects

    def counted(self, fires: Iterable[Fire], counts: Mapping[UUID, Predecessors]) -> list[Effect]:
        """Those of them that are still to be judged."""
        counting = self._outstanding.counting
        mine = [fire for fire in fires if counting.pop(number_of(fire), None) is not None]
        turns = judge_overlaps(mine, counts, self._clock)
        effects = self.settle(turns.settlements)
        if turns.newest:  # behind Settle: they are parked when the end of what runs wakes them
            effects.append(CancelRunning(self._marks.epochs_of(turns.newest), turns.newest))
        return effects + self._publish(turns.publish)

    def count_later(self, fires: Iterable[Fire]) -> None:
        """Back into the wheel: their predecessors could not be read, or it is not for us to publish now."""
        again_at = self._clock.monotonic() + RECHECK_S
        for fire in fires:
            if self._outstanding.counting.pop(number_of(fire), None) is not None:
                self._wheel.hold(fire, again_at)

    def _hold(self, fire: Fire, opens_at: float, settlements: list[Settlement], now: float) -> None:
        """Its gate is closed: wait in the wheel, or be parked if it has waited for its turn long enough."""
        if fire.work.shard in self._leaving:
            return  # its next owner recovers it
        if late_s(fire, self._clock, opens_at) > TURN_S:
            settlements.append(parked(fire, "turn", self._clock, RECHECK_S))
        else:
            self._wheel.hold(fire, max(opens_at, now))

    def settle(self, settlements: Sequence[Settlement]) -> list[Effect]:
        """They are to be parked or skipped."""
        if not settlements:
            return []
        if self._turns is not None:
            for settlement in settlements:
                self._turns.settling(settlement, self._clock.monotonic())
        self._outstanding.settling.update((number_of(settlement.fire), settlement.fire) for settlement in settlements)
        return [Settle(self._marks.epochs_of([s.fire for s in settlements]), settlements)]

    def settled(self, settlements: Iterable[Settlement]) -> None:
        """They are written."""
        for settlement in settlements:
            if self._outstanding.settling.pop(number_of(settlement.fire), None) is not None:
                self._marks.done(settlement.fire)
                if self._turns is not None:
                    self._turns.stored(settlement.fire, self._clock.monotonic())
            if settlement.wake_at is not None:
                self._waiting.by(settlement.wake_at)

    def _publish(self, fires: Sequence[Fire]) -> list[Effect]:
        """Whoever does not have to wait for its turn."""
        if self._turns is not None and fires and not self._turns.lets_pass(fires):
            fires = self._turns.go(fires, self._clock.monotonic())
        return self.send(fires)

    def send(self, fires: Sequence[Fire]) -> list[Effect]:
        """It is their turn."""
        self._outstanding.in_flight.update((number_of(fire), fire) for fire in fires)
        return [Publish(fires)] if fires else []

    def send_later(self, fires: Iterable[Fire]) -> None:
        """It was their turn, and it is not for us to publish now."""
        for fire in fires:
            self._wheel.hold(fire, self._clock.monotonic() + RECHECK_S)

    def published(self, outcomes: Iterable[Outcome]) -> list[Effect]:
        """What the broker has said."""
        now = self._clock.monotonic()
        turns = self._turns if self._turns is not None and len(self._turns) else None
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
                    if turns is not None:
                        turns.confirmed(fire, now)
                    continue
                case Verdict.NACKED:
                    fire.published = True
                    self._gates.close(lane_of(fire), now)
                    stays = fire.work.shard not in self._leaving
                    if turns is not None and stays and turns.refused(fire, self._gates.opens_at(lane_of(fire)), now):
                        continue  # it waits for its turn again
                case Verdict.LOST | Verdict.UNSENT:
                    fire.published |= outcome.verdict is Verdict.LOST
                    self._gates.close(BROKER, now)
            self._hold(fire, self._gates.opens_at(BROKER, lane_of(fire)), settlements, now)
        return self.settle(settlements)
