"""A node without threads: the real engine, steering, storekeeper and store, driven until nothing is left to do.

It owns every shard, claims nothing ahead, and its lease does not run out: it ends by dying at a failpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from math import inf
from typing import Any, cast

from scheduling.conf import SchedulingSettings
from scheduling.coordination.single import SingleNode
from scheduling.core.effects import ReadDue, ReadWaiting
from scheduling.core.engine import Engine
from scheduling.core.engine_limits import EngineLimits
from scheduling.core.fire import Outcome
from scheduling.node.hooks import Hooks, News
from scheduling.node.inbox import Inbox
from scheduling.node.steering import Steering
from scheduling.node.storekeeper import Order, Storekeeper
from scheduling.signals import tell
from scheduling.store.port import ScheduleStore
from scheduling.store.redrive import redrive
from scheduling.testing.broker import MemoryBroker
from scheduling.testing.clock import ManualClock
from scheduling.testing.joined import JoinedStore, joins

NAME = "scheduling.testing"
TICK_S = 0.001  # of the wheel: what is due now comes out of it one later
QUIET_S = 0.1  # nothing to do for so long: whatever comes later comes with the clock
LOOKS = (ReadDue, ReadWaiting)  # which are repeated as what comes next draws near; the clock stands, and it never does


class PlayedNode:
    """One process of a node, from its start on."""

    def __init__(self, using: str, *, broker: MemoryBroker, clock: ManualClock, settings: SchedulingSettings) -> None:
        self._broker, self._clock = broker, clock
        limits = EngineLimits(
            window_s=0.0, poll_s=1.0, batch=settings.BATCH, ahead=settings.AHEAD, backlog=settings.BACKLOG
        )
        self._engine = Engine(clock, limits)
        self._inbox = Inbox()
        self._hooks = _Hooks()
        self._orders: deque[Order] = deque()
        self._steering = Steering(
            self._engine,
            clock,
            publish=broker.publish,
            order=self._orders.append,
            release=lambda _, then: self._inbox.put(then),  # it is never asked to
            renew_soon=lambda: None,
            redrive=lambda now: redrive(joins(using)(), now=now),
        )
        store = JoinedStore(using, grace=timedelta(seconds=settings.FIRE_GRACE_S), clock=clock)
        self._session = _Session(store)
        self._storekeeper = Storekeeper(
            cast(ScheduleStore, self._session),
            self._engine,
            self._inbox,
            node=NAME,
            on_stale=lambda _: None,
            on_taken=self._steering.taken,
            on_not_taken=self._steering.not_taken,
            on_lost=self._hooks.lost,
        )
        self._coordinator = SingleNode(
            joins(using), node=NAME, region="", shards=settings.SHARDS, lease_s=settings.LEASE_S
        )

    def start(self) -> None:
        """Take every shard over."""
        self._broker.start(self._published)
        self._coordinator.join()
        self._steering.assigned(replace(self._coordinator.renew(), lease_until=inf))
        self._serve()

    def settle(self) -> None:
        """Do all there is to do at this moment; job time does not pass.

        Raises Died, and what the store raises.
        """
        self._engine.reaped()  # as after something was ended: looks for everything, at once
        until = self._clock.monotonic() + QUIET_S
        while self._clock.monotonic() < until:
            self._steering.carry_out(self._engine.advance())
            if self._serve():
                until = self._clock.monotonic() + QUIET_S
            else:
                self._clock.stand(max(TICK_S, min(self._engine.next_wake(), until) - self._clock.monotonic()))

    def _published(self, outcomes: Sequence[Outcome]) -> None:
        self._inbox.put(lambda: self._engine.published(outcomes))
        self._hooks.fired([outcome.fire for outcome in outcomes])

    def _serve(self) -> bool:
        """Carry out what was ordered, and tell the engine; False if there was nothing, and nothing was found."""
        has_worked = False
        while True:
            if self._orders:
                order = self._orders.popleft()
                self._storekeeper.serve(order)
                self._session.tell()
                has_worked |= not isinstance(order, LOOKS)
            elif not (events := list(self._inbox.take(0))):
                return has_worked
            else:
                for event in events:
                    effects = event() or ()
                    self._steering.carry_out(effects)
                    has_worked |= bool(effects)


class _Hooks(Hooks):
    """Has no thread: receivers are told at once."""

    def _put(self, news: Sequence[News]) -> None:
        for signal, facts in news:
            tell(signal, facts)


class _Session:
    """The store; what it raises is kept for the test, since the storekeeper would only try again."""

    def __init__(self, store: ScheduleStore) -> None:
        self._store = store
        self._problem: Exception | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)

        def called(*args: Any, **options: Any) -> Any:
            try:
                return method(*args, **options)
            except Exception as problem:
                self._problem = problem
                raise

        return called

    def tell(self) -> None:
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem
