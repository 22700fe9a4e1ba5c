"""What nodes have in common so that tenants get their shares: terms, workers that report, and what Redis would be.

One limiter and one board stand for Redis: whole, but slow at times, and at times it does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from fairness.core.admission import CAP, Refusal
from fairness.core.board import Board
from fairness.core.depth import Report
from fairness.core.exchange import Settled
from fairness.core.limits import LocalLimiter
from fairness.core.local_exchange import LocalExchange
from fairness.core.terms import Bound, Terms
from scheduling.core.effects import Admit, Exchange, Keep, Lease, LetGo, LimitsEffect
from scheduling.core.engine import Engine
from scheduling.core.turn import FairLimits
from scheduling.node.inbox import Event
from scheduling.testing.simulation.faults import Fault, Faults
from scheduling.testing.simulation.process import Process
from scheduling.testing.simulation.world import World

TASK = "simulation.none"
QUICK_S, SLOW_S = (0.0005, 0.003), (0.05, 0.5)
KNOWN_S = 0.01, 0.6  # until a node that starts has read the terms
REPORT_S = 0.5
AGAIN_S = 0.2
LEASE_S = 5.0


class Shares:
    """``slots`` is how many tasks all workers run at once."""

    def __init__(self, world: World, terms: Sequence[Terms], *, slots: int, limits: FairLimits) -> None:
        self.limits = limits
        self.terms = {one.tenant_id: one for one in terms}
        self.board = Board()
        self.limiter = LocalLimiter(node="redis", nodes=tuple, clock=world.clock.monotonic, lease_s=LEASE_S)
        self.slots = slots

    def report(self) -> Report:
        return Report(slots=self.slots, busy=self.slots, waiting=0, idle_s=0.0, interval_s=1.0, ran=10, ran_s=1.0)


class NodeShares:
    """One process's part: its threads that ask, exchange and read. ``happen`` runs an event in the engine's."""

    def __init__(
        self,
        shares: Shares,
        process: Process,
        faults: Faults,
        engine: Engine,
        happen: Callable[[Event], None],
    ) -> None:
        self._shares, self._process, self._faults = shares, process, faults
        self._engine, self._happen = engine, happen
        self._random: Random = process.world.random
        self._exchange = LocalExchange(shares.board, node=process.name, clock=process.world.clock.monotonic)
        self._asks_at = 0.0

    def start(self) -> None:
        self._process.after(self._random.uniform(*KNOWN_S), self._know)

    def _know(self) -> None:
        self._report()  # before: what may go then goes at once
        self._happen(lambda: self._engine.set_terms(self._shares.terms, frozenset({TASK})))

    def _report(self) -> None:
        report = self._shares.report()
        self._happen(lambda: self._engine.reported([report]))
        self._process.after(REPORT_S, self._report)

    def ask(self, effect: LimitsEffect) -> None:
        """One after the other, as its thread does."""
        world = self._process.world
        self._asks_at = max(self._asks_at, world.now) + self._delay_s()
        self._process.after(self._asks_at - world.now, lambda: self._asked(effect))

    def _asked(self, effect: LimitsEffect) -> None:
        limiter = self._shares.limiter
        match effect:
            case LetGo(asked, unspent):
                limiter.leave([request for _, request in asked], unspent=unspent)
            case Keep(asked):
                limiter.hold([request for _, request in asked])
            case Lease(wanted):
                tokens = [0] * len(wanted) if self._faults.strikes(Fault.REDIS_FAILS) else limiter.lease(wanted)
                self._process.after(self._delay_s(), lambda: self._happen(lambda: self._engine.leased(effect, tokens)))
            case Admit(asked):
                answers: Sequence[Refusal | None]
                if self._faults.strikes(Fault.REDIS_FAILS):
                    answers = [Refusal(CAP, (request.tenant_id, "", ""), AGAIN_S) for _, request in asked]
                else:
                    answers = limiter.admit([request for _, request in asked])
                self._process.after(
                    self._delay_s(), lambda: self._happen(lambda: self._engine.admitted(effect, answers))
                )

    def tell(self, effect: Exchange) -> None:
        self._process.after(self._delay_s(), lambda: self._told(effect))

    def _told(self, effect: Exchange) -> None:
        settled: Sequence[Settled] = self._exchange.exchange(effect.lanes)
        if self._faults.strikes(Fault.REDIS_FAILS):
            settled = ()  # its answer was lost
        self._process.after(self._delay_s(), lambda: self._happen(lambda: self._engine.exchanged(settled)))

    def _delay_s(self) -> float:
        return self._random.uniform(*(SLOW_S if self._faults.strikes(Fault.REDIS_SLOW) else QUICK_S))


def drawn_shares(world: World, tenants: int, *, slots: int) -> Shares | None:
    """No shares, limits alone, or all; one tenant may have a cap, or a rate."""
    random = world.random
    limited = FairLimits(bounds_lanes=False, exchanges=False)
    limits = random.choice((None, None, None, None, limited, FairLimits()))
    if limits is None:
        return None
    bounds = (None, None, Bound(max_in_flight=2), Bound(rate_per_s=40.0, burst=20), Bound(20.0, 5, 1))  # one is leased
    terms = []
    for tenant in range(tenants):
        bound = random.choice(bounds)
        whole = {} if bound is None else {("", ""): bound}
        terms.append(Terms(tenant, f"tenant-{tenant}", random.choice((0.5, 1.0, 3.0)), bounds=whole))
    return Shares(world, terms, slots=slots, limits=limits)
