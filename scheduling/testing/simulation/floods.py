"""Tenants that all flood: whether each has its share of the slots while it does (I8). Nothing else goes wrong here.

Real are the engines, with their turns, depth and exchange; the tasks of each tenant last as long as they like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from fairness.core.depth import Report
from fairness.core.terms import Terms
from scheduling.coordination.memory import Fleet
from scheduling.core.definition import Kind, ScheduleFields
from scheduling.core.engine_limits import EngineLimits
from scheduling.core.fire import Lane, Work
from scheduling.core.turn import FairLimits
from scheduling.store.ledger_port import Delivery
from scheduling.store.memory_rows import StoredJob
from scheduling.testing.clock import NOON
from scheduling.testing.simulation.audit import Audit, AuditedLedger, AuditedStore
from scheduling.testing.simulation.broker import Broker
from scheduling.testing.simulation.faults import Faults
from scheduling.testing.simulation.nodes import Node, Surroundings
from scheduling.testing.simulation.shares import TASK, Shares
from scheduling.testing.simulation.workers import Workers
from scheduling.testing.simulation.world import World

WEIGHTS = 1.0, 2.0, 3.0, 6.0
MEANS_S = 0.02, 0.05, 0.1, 0.2
SHARDS = 4
# Until costs are known, nodes have found their depth, and whoever had less until then has it back: a tenant of 20 ms
# beside one of 200 ms has had .36 of .5 after 3 s, and .57 in the next three. That is its due, and no share of its own.
SETTLES_S = 6.0
LOOK_S = 0.01
BOUND = 0.02  # of all slot-time: what a share may be off
NEVER_S = 3600.0  # a run ends long before its lease


@dataclass(frozen=True, slots=True)
class Shared:
    """``shares`` and ``wanted`` by tenant, of the slot-time that all had; ``idle`` of all that there was."""

    seed: int
    shares: Mapping[int, float]
    wanted: Mapping[int, float]
    idle: float
    went: int
    violations: Sequence[str]

    @property
    def problems(self) -> tuple[str, ...]:
        """What must not be."""
        if self.furthest > BOUND:
            told = f"shares {self.shares}, where {self.wanted} were wanted"
            return (*self.violations, f"I8: {told}")
        return tuple(self.violations)

    @property
    def furthest(self) -> float:
        """By how much the worst of them is off."""
        return max(abs(self.shares[tenant] - share) for tenant, share in self.wanted.items())


class Flooded:
    """A fleet and its floods, drawn from a seed."""

    def __init__(self, seed: int, *, lasts_s: float = 10.0, slots: int = 8, exchanges: bool = True) -> None:
        self.world = world = World(seed)
        self._seed, self._until, self._slots = seed, SETTLES_S + lasts_s, slots
        random = world.random
        self._faults = Faults(random)
        self._faults.heal()
        self._runs: list[tuple[int, float, float]] = []  # tenant, begin, length
        self._idle: list[int] = []
        tenants = random.choice((2, 3, 4))
        self._means = {tenant: random.choice(MEANS_S) for tenant in range(tenants)}
        self._weights = {tenant: random.choice(WEIGHTS) for tenant in range(tenants)}
        terms = [Terms(tenant, f"tenant-{tenant}", weight) for tenant, weight in self._weights.items()]
        audit, owners = Audit(world), dict[int, str]()
        self._store = AuditedStore(audit, world.clock, shards=range(SHARDS), owners=owners, bug=None, random=random)
        self._store.rows.guarded.add(TASK)
        for tenant in range(tenants):
            self._add_flood(tenant)
        self._broker = broker = Broker(world, self._faults)
        self._look()
        ledger = AuditedLedger(audit, self._store.rows, world.clock, lease_s=NEVER_S, bug=None, rand=random.random)
        workers = Workers(world, self._faults, broker, ledger, audit, lease_s=NEVER_S, run_s=self._run_s)
        for _ in range(slots):
            workers.bear()
        shares = Shares(world, terms, slots=slots, limits=FairLimits(exchanges=exchanges))
        shares.report = self._report  # type: ignore[method-assign]
        limits = EngineLimits(window_s=1.0, poll_s=0.1, batch=1000, ahead=10_000, backlog=4000, fairness=shares.limits)
        fleet = Fleet(world.clock, shards=SHARDS, owners=owners)
        around = Surroundings(world, self._faults, self._store, broker, fleet, limits, shares)
        self._nodes = [Node(f"node-{number}", around) for number in range(random.choice((1, 2, 4)))]

    def _add_flood(self, tenant: int) -> None:
        """More than could ever be done, due now; where its jobs lie is for chance to say."""
        random = self.world.random
        of_all = self._weights[tenant] / sum(self._weights.values())
        shards = random.sample(range(SHARDS), random.randrange(1, SHARDS + 1))
        for number in range(int(1.5 * of_all * self._slots * self._until / self._means[tenant]) + 100):
            job_id = UUID(int=tenant * 1_000_000 + number + 1)
            work = Work(
                job_id=job_id,
                shard=random.choice(shards),
                tenant_id=tenant,
                tenant=f"tenant-{tenant}",
                history_days=30,
                name=f"job {number}",
                task=TASK,
                lane=Lane.BULK,
                args="[]",
                kwargs="{}",
            )
            schedule = ScheduleFields(kind=Kind.ONCE, at=NOON)
            self._store.add(StoredJob(work, schedule, NOON, NOON, NOON - timedelta(days=1)))

    def _run_s(self, delivery: Delivery) -> float:
        tenant = int(delivery.tenant.removeprefix("tenant-"))
        run_s = self.world.random.uniform(0.5, 1.5) * self._means[tenant]
        self._runs.append((tenant, self.world.now, run_s))
        return run_s

    def _look(self) -> None:
        """How many slots have nothing to do, again and again."""
        self._idle.append(self._broker.idle)
        self.world.after(LOOK_S, self._look)

    def _report(self) -> Report:
        """Of the last second, as a worker has it."""
        now = self.world.now
        since = max(0.0, now - 1.0)
        ended = [run_s for _, begun, run_s in self._runs if since < begun + run_s <= now]
        return Report(
            slots=self._slots,
            busy=self._slots - self._broker.idle,
            waiting=0,
            idle_s=sum(self._idle[-int(1 / LOOK_S) :]) * LOOK_S,
            interval_s=1.0,
            ran=len(ended),
            ran_s=sum(ended),
        )

    def _served(self, since: float, until: float) -> dict[int, float]:
        """Slot-seconds by tenant, as the ledger has them."""
        served = dict.fromkeys(self._means, 0.0)
        rows = self._store.rows
        for fire in rows.fires.values():
            if fire.started_at is not None:
                run = rows.runs.get((fire.id, fire.fence))
                ended_at = until if run is None or run.ran_s is None else fire.started_at + run.ran_s
                served[fire.work.tenant_id] += max(0.0, min(until, ended_at) - max(since, fire.started_at))
        return served

    def play(self) -> Shared:
        self.world.run_until(self._until)
        served = self._served(SETTLES_S, self._until)
        idle = self._idle[int(SETTLES_S / LOOK_S) :]
        all_s, weights = sum(served.values()), sum(self._weights.values())
        return Shared(
            self._seed,
            {tenant: of_tenant / all_s for tenant, of_tenant in served.items()} if all_s else served,
            {tenant: weight / weights for tenant, weight in self._weights.items()},
            sum(idle) / len(idle) / self._slots,
            len(self._runs),
            tuple(self.world.violations),
        )
