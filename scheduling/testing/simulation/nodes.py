"""Nodes: the real engine and a node's real decisions, with its threads, its lease and its deaths played.

A process ends by a crash, at any instant, or by SIGTERM, which hands over; another of the same id follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf
from traceback import format_exc
from typing import Any, cast

from scheduling.coordination.memory import Fleet, MemoryCoordinator
from scheduling.coordination.port import Assignment
from scheduling.core.engine import Engine
from scheduling.core.engine_limits import EngineLimits
from scheduling.core.errors import FairbeatError
from scheduling.core.fire import Fire, Outcome
from scheduling.core.gates import lane_of
from scheduling.node.inbox import Event, Inbox
from scheduling.node.steering import Steering
from scheduling.node.storekeeper import Order, Storekeeper
from scheduling.store.port import ScheduleStore
from scheduling.testing.clock import ManualClock
from scheduling.testing.simulation.broker import Broker, Connection
from scheduling.testing.simulation.faults import Fault, Faults
from scheduling.testing.simulation.link import COORDINATOR, NO_REPLY, STORE, Link
from scheduling.testing.simulation.process import Process
from scheduling.testing.simulation.shares import NodeShares, Shares
from scheduling.testing.simulation.world import World

LEASE_S, RENEW_S = 2.0, 0.5
LIFE_S = 0.5  # how often fate looks at a node
DOWN_S = 0.05, 3.0
FREEZES_S = 0.05, 5.0
PARTITIONS_S = 0.3, 6.0
HINT_S = 0.001, 0.01
LOOKS_S = 0.001, 0.3  # at the broker's queues
PAUSE_S = 0.05  # the least between two renewals
DRAIN_S = 2.0
SKEW_S = 0.02  # of job time, at most: a node samples the database's clock over a network
SHORTEST_S = 0.0005  # a thread's turn


class NodeClock:
    """The world's time as one node knows it."""

    speed = 1.0

    def __init__(self, clock: ManualClock, skew_s: float) -> None:
        self._clock, self._skew = clock, timedelta(seconds=skew_s)
        self._skew_s = skew_s

    def now(self) -> datetime:
        return self._clock.now() + self._skew

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def job_time(self, monotonic: float) -> datetime:
        return self._clock.job_time(monotonic) + self._skew

    def real_time(self, job_time: datetime) -> float:
        return self._clock.real_time(job_time) - self._skew_s


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all nodes share."""

    world: World
    faults: Faults
    store: ScheduleStore
    broker: Broker
    fleet: Fleet
    limits: EngineLimits
    shares: Shares | None = None


class Session:
    """The store as a node's session has it, which may be cut. What raises what it should not is told: the storekeeper
    would take it for one more failure.
    """

    def __init__(self, store: ScheduleStore, world: World) -> None:
        self._store, self._world = store, world
        self.is_cut = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def called(*args: Any, **options: Any) -> Any:
            if self.is_cut:
                raise NO_REPLY
            try:
                return method(*args, **options)
            except Exception as problem:
                if not isinstance(problem, FairbeatError):
                    self._world.violate("error", format_exc())
                raise

        return called


class NodeProcess:
    """One process of a node, from its start to its end. ``on_end`` is called once."""

    def __init__(self, name: str, around: Surroundings, on_end: Callable[[], None]) -> None:
        self._name, self._around, self._on_end = name, around, on_end
        self._world, self._faults, self._random = around.world, around.faults, around.world.random
        self.process = Process(around.world, name)
        self._clock = NodeClock(around.world.clock, self._random.uniform(-SKEW_S, SKEW_S))
        self._engine = Engine(self._clock, around.limits)
        self.connection = Connection(self.process, around.broker, around.faults)
        self._store_link = Link(self.process, around.faults, STORE)
        self.lease_link = Link(self.process, around.faults, COORDINATOR)
        self._coordinator = MemoryCoordinator(around.fleet, node=name, lease_s=LEASE_S)
        self._shares = None
        if around.shares is not None:
            self._shares = NodeShares(around.shares, self.process, around.faults, self._engine, self._happen)
        self._steering = Steering(
            self._engine,
            self._clock,
            publish=self.connection.publish,
            order=self._order,
            release=self._release,
            renew_soon=self._hasten,
            look=self._look,
            limits=None if self._shares is None else self._shares.ask,
            exchange=None if self._shares is None else self._shares.tell,
        )
        self._session = Session(around.store, around.world)
        self._answers = Inbox()
        self._storekeeper = Storekeeper(
            cast(ScheduleStore, self._session),
            self._engine,
            self._answers,
            node=name,
            on_stale=lambda _: None,
            on_taken=self._steering.taken,
            on_not_taken=self._steering.not_taken,
        )
        self._wakes_at = inf
        self._renewed_at, self._renews_at = 0.0, inf
        self._is_renewing = self._is_draining = self._is_leaving = False

    def start(self) -> None:
        self._world.note(self._name, "starts")
        self.connection.start(self._outcomes)
        self._coordinator.join()
        self._coordinator.watch(lambda: self.process.after(self._random.uniform(*HINT_S), self._hasten))
        self._renew()
        if self._shares is not None:
            self._shares.start()

    # -- the engine's thread ------------------------------------------------------------------------------------

    def _happen(self, *events: Event) -> None:
        for event in events:
            self._steering.carry_out(event() or ())
        self._turn()

    def _turn(self) -> None:
        self._steering.carry_out(self._engine.advance())
        if self._is_draining and self._steering.drain():
            self._leave()
            return
        wakes_at = max(self._engine.next_wake(), self._world.now + SHORTEST_S)
        if wakes_at < self._wakes_at:
            self._wakes_at = wakes_at
            self.process.after(wakes_at - self._world.now, lambda: self._wake(wakes_at))

    def _wake(self, at: float) -> None:
        if at == self._wakes_at:  # and nothing has set an earlier one since
            self._wakes_at = inf
            self._turn()

    def hint(self, shard: int) -> None:
        def event() -> None:
            if shard in self._engine.shards:
                self._engine.look_now()

        self.process.after(self._random.uniform(*HINT_S), lambda: self._happen(event))

    def _outcomes(self, outcomes: Sequence[Outcome]) -> None:
        self._happen(lambda: self._engine.published(outcomes))

    def _look(self, fires: Sequence[Fire]) -> None:
        """At the queues of these, all of which are the broker's one."""

        def looked() -> None:
            empty = {lane_of(fire) for fire in fires} if self._around.broker.is_empty else set()
            self._happen(lambda: self._engine.queues_seen(empty))

        self.process.after(self._random.uniform(*LOOKS_S), looked)

    # -- the storekeeper's --------------------------------------------------------------------------------------

    def _order(self, order: Order) -> None:
        self._store_link.call(lambda: self._served(order), lambda reply: self._answered(order, reply))

    def _served(self, order: Order, *, is_cut: bool = False) -> list[Event]:
        self._session.is_cut = is_cut
        self._storekeeper.serve(order)
        return list(self._answers.take(0))

    def _answered(self, order: Order, reply: list[Event] | FairbeatError) -> None:
        self._happen(*(self._served(order, is_cut=True) if isinstance(reply, FairbeatError) else reply))

    # -- the lease keeper's -------------------------------------------------------------------------------------

    def _renew(self) -> None:
        """As the lease keeper's one thread: not while another renewal is under way."""
        self._is_renewing = True
        self._renewed_at, self._renews_at = self._world.now, inf
        self._renew_at(self._renewed_at + RENEW_S)
        began = self._renewed_at

        def renewed(reply: Assignment | FairbeatError) -> None:
            self._is_renewing = False
            if isinstance(reply, Assignment):
                self._hasten(reply.look_at)
                self._happen(lambda: self._steering.assigned(replace(reply, lease_until=began + LEASE_S)))
            self._renew_if_due()

        self.lease_link.call(self._coordinator.renew, renewed)

    def _hasten(self, to: float = 0.0) -> None:
        self._renew_at(max(to, self._renewed_at + PAUSE_S))

    def _renew_at(self, at: float) -> None:
        """Then, unless that is due sooner."""
        if at < self._renews_at:
            self._renews_at = at
            self.process.after(max(0.0, at - self._world.now), self._renew_if_due)

    def _renew_if_due(self) -> None:
        if self._world.now >= self._renews_at and not self._is_renewing:
            self._renew()

    def _release(self, shards: frozenset[int], then: Callable[[], None]) -> None:
        def told(_: object) -> None:
            then()
            self._hasten()  # to find what could not be released
            self._turn()

        self._world.note(self._name, "releases", sorted(shards))
        self.lease_link.call(lambda: self._coordinator.release(shards), told)

    # -- the end ------------------------------------------------------------------------------------------------

    def terminate(self) -> None:
        """SIGTERM: hand over, then leave; or leave when that takes too long."""
        self._world.note(self._name, "is to end")
        self.process.after(0.0, self._drain)
        self.process.after(DRAIN_S, self._leave)

    def _drain(self) -> None:
        self._is_draining = True
        self._turn()

    def _leave(self) -> None:
        """The lease runs out by itself where the coordinator cannot be told."""
        if not self._is_leaving:
            self._is_leaving = True
            self.lease_link.call(self._coordinator.leave, lambda _: self.die())

    def die(self) -> None:
        if self.process.is_alive:
            self.process.die()
            self._on_end()


class Node:
    """One id: a process, and when that has ended, another."""

    def __init__(self, name: str, around: Surroundings) -> None:
        self._name, self._around, self._random = name, around, around.world.random
        self._start()

    def _start(self) -> None:
        self._node = NodeProcess(self._name, self._around, self._ended)
        self._node.start()

    def _ended(self) -> None:
        self._around.world.after(self._random.uniform(*DOWN_S), self._start)

    def hint(self, shard: int) -> None:
        self._node.hint(shard)

    def live(self) -> None:
        """Fate looks at it, again and again."""
        node, random, faults = self._node, self._random, self._around.faults
        if node.process.is_alive:
            if faults.strikes(Fault.NODE_CRASH):
                node.die()
            elif faults.strikes(Fault.NODE_DRAIN):
                node.terminate()
            elif faults.strikes(Fault.NODE_FREEZE):
                node.process.freeze(random.uniform(*FREEZES_S))
            if faults.strikes(Fault.PARTITION):
                node.lease_link.cut(random.uniform(*PARTITIONS_S))
            if faults.strikes(Fault.CONNECTION_BREAKS):
                node.connection.break_off()
        self._around.world.after(LIFE_S * random.uniform(0.5, 1.5), self.live)
