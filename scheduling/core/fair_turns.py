"""Whose turn it is on this node: what may be published waits here until its tenant's share and limits let it go.

::

    go ──┬─ its lane has no bound, its tenant no limit, or a token is in hand: straight on ─────┐
         └─ a ticket waits in the fair queue ── call ─┬─ stored: Release ─> go ─┐               │
              │  ^                                    └─ in our hands ──────────┴─ Admit? ─> Publish ─> confirmed
              │  └── refused: it waits on, and its tenant is parked ───────────────┘            │
              └─ longer than a second: parked in the store, its ticket waits on               runs_seen: it is over

Invariants: a fire has at most one ticket. What waits is claimed and in our hands, or stored with a wake time. What was
granted is in its lane's room until it is over, or was not taken; what was admitted is let go once, unless another owner
has its shard. Nothing is granted before the terms of tenants are known.

Does not do: number fires, or make effects of stores; judge misfires or overlaps. Times are monotonic seconds.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from math import inf
from operator import attrgetter
from uuid import UUID

from fairness.core.admission import Refusal
from fairness.core.node import TURN, Ticket
from fairness.core.terms import BoundKey
from scheduling.core.clock import Clock
from scheduling.core.effects import Admit, Asked, Lease, Settlement
from scheduling.core.fire import Fire
from scheduling.core.turn import BROKER, SHARE, Called, FairLimits, Path, Stage, Turn
from scheduling.core.turn_book import TurnBook
from scheduling.core.turn_gates import Asking

HEAD_START = 2  # fires of each lane, beyond its room
SPARE, AMPLE = 8, 4  # in flight of a tenant: so many, and so many times what its part of the slots can hold
PATIENCE_S = 1.0  # what waits longer is stored


class FairTurns(TurnBook):
    """The dispatch's. One thread owns it."""

    def __init__(self, clock: Clock, limits: FairLimits) -> None:
        super().__init__(clock, limits)
        self._patience: deque[tuple[float, Turn]] = deque()  # those in our hands, by when they began to wait
        self._to_admit: list[Turn] = []
        self._to_release: list[Turn] = []
        self._is_more = False
        self._granted = (0, 0, 0)  # number of the second, turns in it, turns in the one before
        self.broker_opens_at = 0.0

    def granted_in_a_second(self, now: float) -> int:
        """About so many have their turn in a second."""
        second, granted, before = self._granted
        return max({int(now): granted, int(now) - 1: granted}.get(second, 0), before if second == int(now) else 0)

    def lets_pass(self, fires: Iterable[Fire]) -> bool:
        """There is no bound, no limit, and nobody here; nor is any of these of a tenant that is not known yet."""
        return (
            self.terms.is_known
            and not self.terms.asking
            and not self._turns
            and all(room.limit is None for room in self.rooms.values())
            and self.terms.knows({fire.work.tenant_id for fire in fires})
        )

    # -- coming ------------------------------------------------------------------------------------------------

    def go(self, fires: Sequence[Fire], now: float) -> list[Fire]:
        """They may be published but for their turn. Returns those that need none, or have it."""
        if len({fire.id for fire in fires}) < len(fires):
            fires = self._newest(fires)
        publish: list[Fire] = []
        new = [fire for fire in fires if not self._has_turn(fire, publish, now)] if self._turns else fires
        waits: set[int] = set()
        for path, of_path in _by_path(new).items():
            for fire in of_path[self._let_pass(path, of_path, now) :]:
                self._offer(fire, path, now)
                waits.add(id(fire))
        publish += [fire for fire in new if id(fire) not in waits] if waits else new
        return publish

    def _newest(self, fires: Iterable[Fire]) -> list[Fire]:
        """Of two claims of one fire that come together, as of a job that was edited, the older is worth nothing."""
        newest: dict[UUID, Fire] = {}
        for fire in fires:
            other = newest.setdefault(fire.id, fire)
            if other is not fire:
                older, newest[fire.id] = sorted([other, fire], key=attrgetter("fence"))
                self._worthless.append(older)
        return list(newest.values())

    def _has_turn(self, fire: Fire, publish: list[Fire], now: float) -> bool:
        """Then it is seen to: it waits, or goes on, or is worth nothing."""
        turn = self._turns.get(fire.id)
        if turn is None:
            return False
        if turn.fire.fence > fire.fence:
            self._worthless.append(fire)  # what is claimed is a later attempt, or of a later schedule
            return True
        if turn.fire.fence < fire.fence:
            self._replace(turn, now)  # its attempt is over, which nobody has told us yet
            return False
        turn.fire = fire
        if turn.is_granted:
            self._go_on(turn, publish, now)
        else:
            self._keep(turn, now)
        return True

    def _let_pass(self, path: Path, fires: Sequence[Fire], now: float) -> int:
        """So many of these need no turn: their lane has no bound, and their tenant no limit; or tokens are in hand, and
        nothing of their tenant waits.
        """
        lane, tenant, _ = path
        if not self.terms.meet(tenant) or self.rooms[lane].limit is not None:
            return 0
        if not self.terms.is_asked_for(path):
            return len(fires)
        if self.terms.asking[tenant].asking or (self.queue and self.standings.do_wait(tenant)):
            return 0
        count = self.terms.spend(path, len(fires), now)
        if count:
            self.standings.of((lane, tenant), now).start([fire.id for fire in fires[:count]], now)
        return count

    def _offer(self, fire: Fire, path: Path, now: float) -> Turn:
        turn = Turn(fire, path)
        turn.ticket = self.queue.offer(turn, path, self._estimates.of(path) if self.limits.by_time else 1.0)
        self._turns[fire.id] = turn
        self._wait(turn, now)
        self._keep(turn, now)
        return turn

    def _keep(self, turn: Turn, now: float) -> None:
        """It is in our hands, and waits."""
        turn.stage, turn.since = Stage.HELD, now
        self._patience.append((now, turn))

    def _go_on(self, turn: Turn, publish: list[Fire], now: float) -> None:
        """It is its turn, and it is in our hands."""
        if not self._has_permit(turn, now):
            if turn.asking is not None and turn.stage is not Stage.ADMITTING:
                turn.asking.unanswered += 1
            turn.stage = Stage.ADMITTING
            turn.request = self.terms.request(turn)
            self._to_admit.append(turn)
        else:
            self._answered(turn)
            turn.stage = Stage.GOING
            self.standings.of(turn.tenant_lane, now).start([turn.fire.id], now)
            publish.append(turn.fire)

    def _has_permit(self, turn: Turn, now: float) -> bool:
        if turn.is_admitted or turn.purses or not self.terms.is_asked_for(turn.path):
            return True
        if turn.asking is not None and turn.asking.unanswered:
            return False  # it goes behind those
        turn.purses = self.terms.tokens(turn.path, now) or ()
        return bool(turn.purses)

    # -- turns -------------------------------------------------------------------------------------------------

    def call(self, now: float, limit: int) -> Called:
        """Those whose turn it is, at most ``limit``."""
        called = Called()
        self._is_more = False
        called.release = [turn.fire for turn in self._to_release if self._turns.get(turn.fire.id) is turn]
        self._to_release.clear()
        if not self.terms.is_known or now < self.broker_opens_at:
            return called
        taken = self.queue.take(now, limit)
        taken += self._head_starts(now)
        for ticket in taken:
            turn = ticket.item
            asking = self.terms.asking.get(turn.path[1])
            turn.asking = asking if asking is not None and asking in ticket.gates else None
            turn.granted_at = now
            self._wait_no_more(turn, now)
            self.standings.of(turn.tenant_lane, now).grant(now)
            if turn.stage is Stage.HELD:
                self._go_on(turn, called.publish, now)
            elif turn.stage is Stage.STORED:
                called.release.append(self._released(turn, now))
            elif turn.stage is Stage.COMING:
                turn.stage = Stage.RELEASED
            # one that is STORING goes on once it is stored
        second, granted, before = self._granted
        if taken:
            if second != int(now):
                granted, before = 0, granted if second == int(now) - 1 else 0
            self._granted = int(now), granted + len(taken), before
        self._is_more = len(taken) >= limit
        return called

    def _head_starts(self, now: float) -> list[Ticket[Turn]]:
        """Who has just come, or is owed, does not wait for a place among those of a flood."""
        full = [room for room in self.rooms.values() if room.limit is not None and room.waiting]
        for room in full:
            room.head_start = HEAD_START
            self.queue.gate_changed(room)
        taken = self.queue.take_behind(now, HEAD_START * len(full)) if full else []
        for room in full:
            room.head_start = 0
        return taken

    def hold_back(self, until: float, slots: int, way_s: float) -> None:
        """Of lanes without room: a tenant that has far more in flight than its part of the slots, and the way there,
        can hold waits. Its fires stand somewhere, and would take the places of the others, one by one: workers may
        have another notion of what they cost than we. Whoever a limit holds is none of these: he would not take them.
        """
        for lane, room in self.rooms.items():
            if room.limit is None or room.left > 0:
                continue
            waiting = [(tenant, each) for (of, tenant), each in self.standings if of == lane and each.waiting]
            if all(each.in_flight <= SPARE for _, each in waiting):
                continue
            crowd = [(tenant, each) for tenant, each in waiting if self._why((lane, tenant))[0] == SHARE]
            weights = sum(self.terms.weight((lane, tenant)) for tenant, _ in crowd)
            for tenant, standing in crowd if len(crowd) > 1 else ():
                part = slots * self.terms.weight((lane, tenant)) / weights
                way = way_s / self._estimates.of((lane, tenant, standing.task)) if self.limits.by_time else 1.0
                if standing.in_flight > SPARE + AMPLE * part * (1 + way) and self.queue.why((lane, tenant))[0] == TURN:
                    self.queue.park((lane, tenant), until, SHARE)

    def to_admit(self) -> list[Admit]:
        """Those that are to be asked for."""
        asked = [(turn.fire, turn.request) for turn in self._to_admit if turn.request and turn.stage is Stage.ADMITTING]
        self._to_admit.clear()
        return [Admit(asked)] if asked else []

    def to_lease(self) -> list[Lease]:
        """What is to be asked for ahead of need."""
        wanted = self.terms.leases.wanted()
        return [Lease(wanted)] if wanted else []

    def admitted(self, asked: Asked, answers: Sequence[Refusal | None], now: float) -> list[Fire]:
        """Returns those that are to be published."""
        publish: list[Fire] = []
        counts: dict[Asking, list[int]] = defaultdict(lambda: [0, 0])
        refusals: dict[BoundKey, Refusal] = {}
        for (fire, request), refusal in zip(asked, answers, strict=True):
            turn = self._turns.get(fire.id)
            if turn is None or turn.fire is not fire or turn.stage is not Stage.ADMITTING:
                if refusal is None:
                    self._freed.unspent.append((fire, request))  # it is ours no more
                continue
            if turn.asking is not None:
                counts[turn.asking][refusal is not None] += 1
            self._answered(turn)
            if refusal is None:
                turn.is_admitted = True
                self._go_on(turn, publish, now)
            else:
                self.standings.of(turn.tenant_lane, now).throttled += 1
                refusals[refusal.key] = refusal
                self._back(turn, now)
        for asking, (good, bad) in counts.items():
            asking.answered(good, bad)
            self.queue.gate_changed(asking)
        for refusal in refusals.values():
            self.terms.park(refusal, now)
        return publish

    def _back(self, turn: Turn, now: float) -> Turn:
        """It was not taken: it waits again, before all younger ones of its flow; one that begins anew, behind them."""
        standing = self.standings.of(turn.tenant_lane, now)
        self._in_flight.pop(turn.fire.id, None)
        self._free(turn, unspent=True)
        self._answered(turn)
        if turn.ticket is not None and self.queue.refund(turn.ticket):
            standing.ungrant()
            self._wait(turn, now)
            turn.stage = Stage.HELD
            self._patience.append((turn.since, turn))
            return turn
        self._end(turn, now)
        return self._offer(turn.fire, turn.path, now)

    # -- waiting -----------------------------------------------------------------------------------------------

    def overdue(self, now: float, limit: int) -> list[tuple[Fire, str, float]]:
        """Those in our hands that have waited too long and are to be stored; why they wait, and until when at least."""
        found: list[tuple[Fire, str, float]] = []
        while self._patience and self._patience[0][0] + PATIENCE_S <= now and len(found) < limit:
            since, turn = self._patience.popleft()
            is_waiting = self._turns.get(turn.fire.id) is turn and turn.stage is Stage.HELD and not turn.is_granted
            if is_waiting and turn.since == since:
                turn.stage = Stage.STORING
                turn.waits_for, until = self._why(turn.path)
                found.append((turn.fire, turn.waits_for, until))
        return found

    def settling(self, settlement: Settlement, now: float) -> None:
        """It is to be parked or skipped: then it has no turn any more, unless it is for that that it waits."""
        turn = self._turns.get(settlement.fire.id)
        if turn is None or turn.fire is not settlement.fire or turn.stage is Stage.STORING:
            return
        if turn.stage is Stage.GOING and settlement.reason == BROKER and turn.ticket is not None:
            self._back(turn, now).stage = Stage.STORING
        else:
            self._end(turn, now, unspent=True)

    def stored(self, fire: Fire, now: float) -> None:
        """It is parked; if its turn has come meanwhile, it is to be claimed again."""
        turn = self._turns.get(fire.id)
        if turn is not None and turn.fire is fire and turn.stage is Stage.STORING:
            turn.stage = Stage.STORED
            if turn.is_granted:
                self._released(turn, now)
                self._to_release.append(turn)

    def _released(self, turn: Turn, now: float) -> Fire:
        """It is its turn, and it is to be claimed again: what it has waited for that is not held against it."""
        turn.stage = Stage.RELEASED
        if turn.waits_for != BROKER:
            turn.fire.claimed_at = now
        return turn.fire

    def found(self, fires: Iterable[Fire], now: float) -> list[Fire]:
        """By a look, in the store: without those that are on their way already."""
        wanted: list[Fire] = []
        for fire in fires:
            turn = self._turns.get(fire.id)
            if turn is None or turn.fire.fence != fire.fence:
                wanted.append(fire)
            elif turn.stage is Stage.STORED:
                turn.fire, turn.stage = fire, Stage.COMING
                wanted.append(fire)
            elif fire.id in self._in_flight:
                self._replace(turn, now)  # it waits again, which nobody has told us yet
                wanted.append(fire)
        return wanted

    def gone(self, fire: Fire, now: float) -> None:
        """It was to be claimed again, and did not wait any more."""
        turn = self._turns.get(fire.id)
        if turn is not None and turn.fire is fire and turn.stage in (Stage.COMING, Stage.RELEASED):
            self._end(turn, now, unspent=True)

    def refused(self, fire: Fire, opens_at: float, now: float) -> bool:
        """By the broker, as its queue is full until then. False: it has no turn here."""
        turn = self._turns.get(fire.id)
        if turn is None or turn.fire is not fire:
            return False
        self.standings.of(turn.tenant_lane, now).refused += 1
        if turn.ticket is None or turn.stage is not Stage.GOING:
            self._end(turn, now)
            return False
        self.queue.park(turn.tenant_lane, opens_at, BROKER)
        self._back(turn, now)
        return True

    # -- time --------------------------------------------------------------------------------------------------

    def next_at(self) -> float:
        """When somebody may have a turn, or has waited too long."""
        if not self.terms.is_known or not self.queue:
            return inf
        patience = self._patience[0][0] + PATIENCE_S if self._patience else inf
        return min(patience, 0.0 if self._is_more else max(self.queue.next_wake(), self.broker_opens_at))


def _by_path(fires: Iterable[Fire]) -> dict[Path, list[Fire]]:
    found: dict[Path, list[Fire]] = {}
    for fire in fires:
        work = fire.work
        found.setdefault((work.lane.value, work.tenant_id, work.task), []).append(fire)
    return found
