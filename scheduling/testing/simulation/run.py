"""One run: a world drawn from a seed, faults, healing, rest; then the checks."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from traceback import format_exc
from uuid import UUID

from scheduling.coordination.memory import Fleet
from scheduling.core.engine_limits import EngineLimits
from scheduling.testing.clock import NOON
from scheduling.testing.simulation.audit import Audit, AuditedLedger, AuditedStore
from scheduling.testing.simulation.broker import Broker
from scheduling.testing.simulation.checks import check
from scheduling.testing.simulation.faults import Fault, Faults
from scheduling.testing.simulation.jobs import TENANTS, Chronicle, drawn_jobs
from scheduling.testing.simulation.nodes import Node, Surroundings
from scheduling.testing.simulation.people import People
from scheduling.testing.simulation.planted import Bug
from scheduling.testing.simulation.shares import Shares, drawn_shares
from scheduling.testing.simulation.workers import Workers
from scheduling.testing.simulation.world import Log, World

FAULTS_S = 8.0
SCHEDULES_S = FAULTS_S + 1.5  # a little is due after everything has healed
REST_S = 40.0  # from the healing until everything must have come to its end
LOOK_S = 0.5  # how often it is asked whether all is at rest
AFTERMATH_S = 1.5  # what is late may still strike, and must find nothing to spoil
SHARDS = 4
FIRE_LEASE_S = 1.5
START_PATIENCE_S = 3.0


@dataclass(frozen=True, slots=True)
class Result:
    """``violations``: what must not be, most often one; ``lasted_s`` is virtual."""

    seed: int
    violations: tuple[str, ...]
    fires: int
    effects: int
    lasted_s: float
    faults: str
    struck: Counter[Fault]


class Run:
    """The world is drawn when it is made, and ``play`` plays it, once."""

    def __init__(self, seed: int, *, bug: Bug | None = None, log: Log | None = None) -> None:
        self._seed = seed
        self.world = world = World(seed, log=log)
        self.faults = Faults(world.random)
        self.audit = Audit(world)
        owners: dict[int, str] = {}
        self._store = AuditedStore(
            self.audit,
            world.clock,
            shards=range(SHARDS),
            owners=owners,
            bug=bug,
            random=world.random,
        )
        self.rows = self._store.rows
        self._broker = Broker(world, self.faults)
        self.chronicles: dict[UUID, Chronicle] = {}
        self._add_jobs()
        slots = self._add_workers(bug)
        shares = drawn_shares(world, TENANTS, slots=slots)
        around = Surroundings(
            world,
            self.faults,
            self._store,
            self._broker,
            Fleet(world.clock, shards=SHARDS, owners=owners),
            self._limits(shares),
            shares,
        )
        self._nodes = [Node(f"node-{number}", around) for number in range(world.random.choice((2, 2, 3)))]
        self._people = People(
            world,
            self.faults,
            self.rows,
            self.chronicles,
            until=NOON + timedelta(seconds=SCHEDULES_S),
            on_change=self._hint,
        )

    def _add_jobs(self) -> None:
        random = self.world.random
        for job in drawn_jobs(random, random.randrange(2, 8), shards=SHARDS, until_s=SCHEDULES_S):
            self._store.add(job)
            self.rows.guarded.add(job.work.task)
            self.chronicles[job.work.job_id] = Chronicle([(NOON, job.schedule)])

    def _add_workers(self, bug: Bug | None) -> int:
        """How many tasks they run at once."""
        ledger = AuditedLedger(
            self.audit, self.rows, self.world.clock, lease_s=FIRE_LEASE_S, bug=bug, rand=self.world.random.random
        )
        workers = Workers(self.world, self.faults, self._broker, ledger, self.audit, lease_s=FIRE_LEASE_S)
        slots = self.world.random.choice((2, 4))
        for _ in range(slots):
            workers.bear()
        return slots

    def _limits(self, shares: Shares | None) -> EngineLimits:
        random = self.world.random
        return EngineLimits(
            window_s=1.0,
            poll_s=0.25,
            batch=random.choice((2, 1000)),
            ahead=random.choice((5, 1000)),
            backlog=random.choice((3, 1000)),
            start_patience_s=START_PATIENCE_S,
            fairness=None if shares is None else shares.limits,
        )

    def _hint(self, shard: int) -> None:
        for node in self._nodes:
            node.hint(shard)

    def play(self) -> Result:
        """To its end, or to the first thing that must not be."""
        world, described = self.world, str(self.faults)
        world.note("world", "faults:", described)
        try:
            with _silenced():
                self._play()
        except Exception:  # noqa: BLE001  (whatever it is, its seed is to be told)
            world.violate("error", format_exc())
        return Result(
            self._seed,
            tuple(world.violations),
            len(self.rows.fires),
            self.audit.effects.total(),
            world.now,
            described,
            self.faults.struck,
        )

    def _play(self) -> None:
        world = self.world
        for node in self._nodes:
            world.after(0.1, node.live)
        self._people.start()
        world.run_until(FAULTS_S)
        if not world.violations:
            self._heal()
        if not world.violations:
            for invariant, what in check(self.rows, self.chronicles, self.audit):
                world.violate(invariant, what)

    def _heal(self) -> None:
        """And let all come to its end."""
        world = self.world
        world.note("world", "heals")
        self.faults.heal()
        self._people.settle_down()
        until = world.now + REST_S
        while not world.violations and not self._is_at_rest() and world.now < until:
            world.run_until(world.now + LOOK_S)
        world.run_until(world.now + AFTERMATH_S)

    def _is_at_rest(self) -> bool:
        return not (
            any(fire.is_unfinished for fire in self.rows.fires.values())
            or any(job.next_fire_at is not None or job.paused_at is not None for job in self.rows.jobs.values())
        )


@contextmanager
def _silenced() -> Iterator[None]:
    """Nodes warn of what goes wrong: here that is all the time."""
    logger = logging.getLogger("scheduling")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
