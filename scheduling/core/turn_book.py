"""The book of a node's turns: what waits, what is in flight, and what ends a turn.

Beneath ``FairTurns``, which says whose turn it is. Times are monotonic seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from uuid import UUID

from fairness.core.admission import Request
from fairness.core.estimates import Estimates
from fairness.core.fair_queue import FairQueue
from fairness.core.node import TURN
from fairness.core.standing import TenantStanding
from scheduling.core.clock import Clock
from scheduling.core.fire import Fire, Lane
from scheduling.core.runs import InFlight, RunSeen
from scheduling.core.standings import LEAST, MOST, Standings, Stock
from scheduling.core.tenant_terms import TenantTerms, is_capped
from scheduling.core.turn import SHARE, FairLimits, Freed, Path, Stage, TenantLane, Turn
from scheduling.core.turn_gates import Room

ROUND_TRIP = 0.05  # what the latest counts for in the mean
FIRST_COST_S = 0.1  # of a fire, while nothing is known
IN_FLIGHT = frozenset({Stage.GOING, Stage.SENT, Stage.RUNNING})
IN_HAND = frozenset({Stage.HELD, Stage.ADMITTING})  # and nowhere else: nobody but us settles its number


class TurnBook:
    """One thread owns it."""

    def __init__(self, clock: Clock, limits: FairLimits) -> None:
        self._clock, self.limits = clock, limits
        self.queue: FairQueue[Turn] = FairQueue()
        self._estimates = Estimates(first=FIRST_COST_S if limits.by_time else 1.0)
        self._turns: dict[UUID, Turn] = {}
        self._in_flight: dict[UUID, Turn] = {}  # whose end is looked for
        self._freed = Freed()
        self._worthless: list[Fire] = []
        self.standings = Standings()
        self.terms = TenantTerms(self.queue, follows_all=limits.follows_all)
        self.rooms = {lane.value: Room() for lane in Lane}
        for lane, room in self.rooms.items():
            self.queue.set_gates((lane,), [room])
            self.queue.share(lane)
        self.stirred_at = 0.0  # when something came, or ended
        self.round_trip_s = 0.0  # from a grant to the broker's confirm, lately

    def __len__(self) -> int:
        """Fires that wait for their turn, or have had it and are not over."""
        return len(self._turns)

    @property
    def waiting(self) -> int:
        return len(self.queue)

    @property
    def holds_up(self) -> bool:
        """Not everybody goes at once: a lane has a bound, or somebody waits for a limit."""
        return self.waiting > 0 or any(room.limit is not None for room in self.rooms.values())

    @property
    def is_limited(self) -> bool:
        """Whether any tenant has limits."""
        return bool(self.terms.asking)

    @property
    def is_short(self) -> bool:
        """Something waits for nothing but room."""
        return any(room.waiting and room.left <= 0 for room in self.rooms.values())

    def full(self, now: float, times: int = 1) -> frozenset[int]:
        """Tenants of which more waits here than they are served in about a second; or so many times as much. What a
        limit of its own holds, of a lane or a task, stands in the way of nothing else of its tenant: it counts once it
        is MOST.
        """
        return self._full(self.standings.stock(now), now, times)

    def full_and_most(self, now: float) -> tuple[frozenset[int], Mapping[int, int]]:
        """Those that are full; and for the others of whom something waits, how many more are enough for a second."""
        stock = self.standings.stock(now)
        full = self._full(stock, now, 1)
        return full, {
            tenant: enough
            for tenant, (_, enough) in stock.items()
            if tenant not in full and not self.terms.has_parts(tenant)
        }

    def _full(self, stock: Mapping[int, Stock], now: float, times: int) -> frozenset[int]:
        full = [tenant for tenant, (heads, enough) in stock.items() if heads >= times * enough]
        return frozenset(
            tenant for tenant in full if not self.terms.has_parts(tenant) or self._is_filled(tenant, now, times)
        )

    def _is_filled(self, tenant: int, now: float, times: int) -> bool:
        standings = [self.standings.of((lane, tenant), now) for lane in self.rooms]
        paths = Counter(turn.path for standing in standings for turn in standing.waiting.values())
        free = sum(count for path, count in paths.items() if not self.terms.is_apart(path))
        served = sum(standing.served_in_a_second(now) for standing in standings)
        return paths.total() >= times * MOST or free >= times * max(LEAST, served)

    def is_ready(self, lane: str) -> bool:
        """Whether something of it could go, were there room."""
        return self.rooms[lane].left <= 0 and bool(self.queue.rows(lane, 1))

    def set_room(self, lane: str, limit: int | None) -> None:
        """So many of this lane may be in flight; None: any number."""
        room = self.rooms[lane]
        room.limit = limit
        if room.left > 0:
            self.queue.gate_changed(room)

    def cost(self, key: TenantLane, now: float) -> float:
        """What a fire of this tenant is expected to cost, by what is known now; by the last that waited."""
        return self._estimates.of((*key, self.standings.of(key, now).task)) if self.limits.by_time else 1.0

    # -- waiting -----------------------------------------------------------------------------------------------

    def _wait(self, turn: Turn, now: float) -> None:
        self.stirred_at = now
        self.rooms[turn.path[0]].waiting += 1
        self.standings.of(turn.tenant_lane, now).wait(turn, now)

    def _wait_no_more(self, turn: Turn, now: float) -> None:
        self.rooms[turn.path[0]].waiting -= 1
        self.standings.of(turn.tenant_lane, now).wait_no_more(turn, now)

    def _answered(self, turn: Turn) -> None:
        if turn.asking is not None:
            turn.asking.asking -= 1
            turn.asking.unanswered -= turn.stage is Stage.ADMITTING
            self.queue.gate_changed(turn.asking)
            turn.asking = None

    def _why(self, path: tuple[str | int, ...]) -> tuple[str, float]:
        reason, until = self.queue.why(path)
        return (SHARE if reason == TURN and until == -inf else reason), until

    # -- in flight ---------------------------------------------------------------------------------------------

    def confirmed(self, fire: Fire, now: float) -> None:
        turn = self._turns.get(fire.id)
        if turn is None or turn.fire is not fire or turn.stage is not Stage.GOING:
            return
        turn.stage = Stage.SENT
        self.round_trip_s += ROUND_TRIP * (now - turn.granted_at - self.round_trip_s)
        is_seen = self.limits.follows_all or fire.work.task in self.terms.guarded
        if not is_seen or not (
            self.rooms[turn.path[0]].limit is not None or (turn.request and is_capped(turn.request))
        ):
            self._end(turn, now)
        else:
            self._in_flight[fire.id] = turn

    @property
    def has_in_flight(self) -> bool:
        return bool(self._in_flight)

    def in_flight(self) -> list[Fire]:
        """Those that are with the workers, or on their way there, and whose end will be seen."""
        return [turn.fire for turn in self._in_flight.values()]

    def count_in(self) -> bool:
        """Terms have changed: what is in flight has its place under caps that are new. Whether any has."""
        is_any = False
        for turn in self._turns.values() if self.is_limited else ():
            if turn.stage in IN_FLIGHT and self.terms.is_asked_for(turn.path):
                request = self.terms.request(turn)
                if is_capped(request) and request != turn.request:
                    turn.request, turn.is_admitted, is_any = request, True, True
        return is_any

    def kept(self) -> list[tuple[Fire, Request]]:
        """All that have a place under a limit."""
        return [(turn.fire, turn.request) for turn in self._turns.values() if turn.is_admitted and turn.request]

    def seen(self, runs: Iterable[RunSeen], now: float) -> None:
        for run in runs:
            turn = self._turns.get(run.fire_id)
            if turn is None or turn.fire.fence != run.fence or run.fire_id not in self._in_flight:
                continue
            if turn.stage is Stage.ADMITTING:
                continue  # it is to be sent again, under a number that has to be settled first
            if run.is_running:
                turn.stage = Stage.RUNNING
                if turn.ticket is not None:
                    self.queue.started(turn.ticket)
                    if run.ran_s is not None and self.limits.by_time:
                        self.queue.charge(turn.ticket, run.ran_s)
            else:
                if run.ran_s is not None and self.limits.by_time:
                    self._estimates.learn(turn.path, run.ran_s)
                self._end(turn, now, ran_s=run.ran_s)

    def held(self, fires: Iterable[InFlight], now: float) -> None:
        """Another owner granted these, and they are not over: they have their places."""
        for one in fires:
            work = one.fire.work
            path: Path = (work.lane.value, work.tenant_id, work.task)
            if one.fire.id in self._turns:
                continue
            turn = Turn(one.fire, path, stage=Stage.SENT if one.ran_s is None else Stage.RUNNING)
            request = self.terms.request(turn) if self.terms.is_asked_for(path) else None
            if request is not None and is_capped(request):
                turn.request, turn.is_admitted = request, True
            elif self.rooms[path[0]].limit is None and not self.limits.bounds_lanes:
                continue
            self._turns[one.fire.id] = self._in_flight[one.fire.id] = turn
            self.rooms[path[0]].enter(turn, now)
            self.standings.of(turn.tenant_lane, now).in_flight += 1

    # -- ends --------------------------------------------------------------------------------------------------

    def _replace(self, turn: Turn, now: float) -> None:
        """It is over, under the number that we know: its fire waits, or is claimed, under another."""
        if turn.stage in IN_HAND:
            self._worthless.append(turn.fire)
        self._end(turn, now)

    def worthless(self) -> list[Fire]:
        """Fires that were in our hands and go no further: nothing is claimed under their numbers."""
        worthless, self._worthless = self._worthless, []
        return worthless

    def _end(self, turn: Turn, now: float, *, ran_s: float | None = None, unspent: bool = False) -> None:
        """It is over, or is no business of ours any more."""
        self.stirred_at = now
        ticket, is_granted, standing = turn.ticket, turn.is_granted, self.standings.of(turn.tenant_lane, now)
        self._forget(turn, now, is_granted=is_granted, unspent=unspent)
        if ticket is None:
            room = self.rooms[turn.path[0]]
            room.leave(turn)
            self.queue.gate_changed(room)
        elif is_granted and turn.stage in IN_FLIGHT:
            cost = ran_s if self.limits.by_time else None
            self.queue.finished(ticket, cost)
            standing.serve(ticket.charged if ran_s is None else ran_s, now)
        elif not self.queue.withdraw(ticket):
            self.queue.finished(ticket)

    def _forget(self, turn: Turn, now: float, *, is_granted: bool, unspent: bool) -> None:
        del self._turns[turn.fire.id]
        self._in_flight.pop(turn.fire.id, None)
        self._answered(turn)
        if is_granted:
            self.standings.of(turn.tenant_lane, now).ungrant()
        else:
            self._wait_no_more(turn, now)
        self._free(turn, unspent=unspent)

    def _free(self, turn: Turn, *, unspent: bool) -> None:
        """Its place under its tenant's limits is free, if it has one; whoever waits for that asks again."""
        if turn.is_admitted and turn.request is not None:
            (self._freed.unspent if unspent else self._freed.over).append((turn.fire, turn.request))
            self.terms.left(turn.request)
        turn.is_admitted, turn.request = False, None
        if unspent:
            for purse in turn.purses:
                purse.give_back()
        turn.purses = ()

    @property
    def has_freed(self) -> bool:
        return bool(self._freed.over or self._freed.unspent)

    def freed(self) -> Freed:
        """Whose places are free since it was asked last."""
        freed, self._freed = self._freed, Freed()
        return freed

    def drop(self, shards: Collection[int], now: float) -> None:
        """These are no longer ours. What is in flight, or may be, keeps its place under limits: it is its next owner's
        to free, and has its permit if it is asked for again.
        """
        self.leave(shards, now)
        for turn in [turn for turn in self._turns.values() if turn.shard in shards]:
            turn.is_admitted = False
            self._end(turn, now)

    def leave(self, shards: Collection[int], now: float) -> None:
        """Nothing of these begins any more."""
        if not self._turns:
            return
        for turn in self.queue.remove_if(lambda turn: turn.shard in shards):
            self._forget(turn, now, is_granted=False, unspent=True)
        for turn in [turn for turn in self._turns.values() if turn.shard in shards and turn.stage not in IN_FLIGHT]:
            self._end(turn, now, unspent=True)

    # -- standings ---------------------------------------------------------------------------------------------

    def told(self, now: float) -> list[TenantStanding]:
        """How every lane of a tenant stands here."""
        self.standings.forget_idle(now)
        due_at: Callable[[Turn], float] = lambda turn: self._clock.real_time(turn.fire.fire_at)  # noqa: E731
        return [
            standing.told(
                key,
                now,
                weight=self.terms.weight(key),
                mean_s=self._estimates.of((*key, standing.task)),
                why=self._reason,
                due_at=due_at,
            )
            for key, standing in self.standings
        ]

    def _reason(self, key: TenantLane) -> tuple[str, float]:
        standing = self.standings.of(key, 0.0)
        first = next(iter(standing.waiting.values()))
        reason, until = self._why(first.path)
        return ("" if reason == SHARE else reason), until
