"""The engine against a world that answers when it likes, and refuses what it likes: a model of all that is promised."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from math import inf
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core.due import DueJob
from scheduling.core.effects import (
    Claim,
    CountPredecessors,
    Effect,
    Expire,
    HandOver,
    LookAtQueues,
    Promote,
    Publish,
    ReadDue,
    ReadUnstarted,
    ReadWaiting,
    Reap,
    Record,
    Redrive,
    Release,
    SendAgain,
    Settle,
    TakeAgain,
)
from scheduling.core.engine import Engine
from scheduling.core.fire import Fire, Outcome, OverlapPolicy, State, Verdict
from scheduling.core.gates import lane_of
from scheduling.core.hand_over import HAND_OVER_S
from scheduling.core.marks import Number, number_of
from scheduling.core.overlap import Predecessors
from scheduling.core.unstarted import Unstarted
from scheduling.core.waiting import Waiting
from scheduling.testing.clock import NOON, ManualClock
from tests.claims import SECOND, every, make_due, make_fire, make_work
from tests.engine_desk import LIMITS, saw

UPKEEP = (Reap, Promote, Expire, Redrive)  # nobody waits for an answer
SHARDS = (1, 2)
JOBS = 6


class World:
    """Answers the engine's effects in any order, and keeps its own account of what is outstanding."""

    def __init__(self, seed: int, *, stops_after_s: float | None = None) -> None:
        self.random = random.Random(seed)
        self.is_kind = False
        self.clock = ManualClock(speed=self.random.choice((0.5, 1, 60)), stops_after_s=stops_after_s)
        patience_s = self.random.choice((inf, 2.0))
        limits = replace(LIMITS, batch=8, ahead=40, backlog=self.random.choice((3, 50)), start_patience_s=patience_s)
        self.engine = Engine(self.clock, limits)
        self.epochs: dict[int, int] = {}
        self.outstanding: dict[tuple[int, int], set[int]] = defaultdict(set)  # (shard, epoch) -> numbers
        self.next_at: dict[int, datetime] = dict.fromkeys(range(JOBS), NOON)
        self.waiting: dict[Number, Fire] = {}  # parked rows, by the number they had
        self.orders: list[Effect] = []  # asked, and not answered yet
        self.sent: list[Fire] = []
        self.unstarted: dict[UUID, Fire] = {}  # confirmed, and not acquired
        self.leaving: dict[int, float] = {}  # since when
        self.published = self.sent_again = 0
        self.engine.lease_until = 2.0
        self.take(frozenset(SHARDS))

    # -- what the world does ----------------------------------------------------------------------------------------

    def step(self) -> None:
        act = self.random.choice(
            [self.tick, self.tick, self.tick, self.answer, self.answer, self.answer, self.confirm, self.upset]
        )
        act()
        effects = self.engine.advance()
        for shard in {shard for effect in effects if isinstance(effect, HandOver) for shard in effect.shards}:
            self.check_hand_over(shard)
        self.receive(effects)
        assert self.engine.next_wake() > self.clock.monotonic(), "it would wake at once, and have nothing to do"

    def tick(self) -> None:
        if self.random.random() < 0.5:
            self.clock.advance(self.random.choice((0.0, 0.0004, 0.02, 0.3)))
        else:
            self.clock.advance_to(min(self.engine.next_wake(), self.clock.monotonic() + 2))
        if self.random.random() < 0.7:
            self.engine.lease_until = self.clock.monotonic() + 2

    def upset(self) -> None:
        """Something that happens once in a while."""
        what = self.random.random()
        if what < 0.4:
            self.engine.look_now()
        elif what < 0.6 and self.orders:
            order = self.orders.pop(0)
            stale = [shard for shard in SHARDS if self.random.random() < 0.2]
            for shard in stale:
                self.lose(shard)
                self.leaving.pop(shard, None)
            self.receive(self.engine.failed(order, stale=stale))  # type: ignore[arg-type]
        elif what < 0.8:
            missing = frozenset(SHARDS) - self.engine.shards
            if missing:
                self.take(missing)
        elif what < 0.85:
            shard = self.random.choice(SHARDS)
            self.lose(shard)
            self.leaving.pop(shard, None)
            self.engine.drop([shard])
        elif what < 0.93:
            leaves = [shard for shard in SHARDS if self.random.random() < 0.5]
            now, mine = self.clock.monotonic(), self.engine.shards
            self.leaving = {shard: self.leaving.get(shard, now) for shard in leaves if shard in mine}
            self.receive(self.engine.hand_over(leaves))

    def lose(self, shard: int) -> None:
        self.epochs.pop(shard, None)

    def take(self, shards: frozenset[int]) -> None:
        """A take-over: what was outstanding is recovered under new numbers, or is gone."""
        recovered = []
        for shard in shards:
            self.leaving.pop(shard, None)
            old = self.epochs.get(shard, 0)
            self.epochs[shard] = epoch = max([old, *(e for s, e in self.outstanding if s == shard)]) + 1
            for seq in range(1, self.random.randrange(3)):
                at = self.clock.now() + SECOND * self.random.uniform(-40, 2)
                work = make_work(50 + seq, shard=shard, misfire=self.random.choice(("latest", "skip")))
                recovered.append(make_fire(work, at, seq=seq, epoch=epoch, fence=2))
                self.outstanding[shard, epoch].add(seq)
            self.outstanding.setdefault((shard, epoch), set())
        self.engine.taken({shard: self.epochs[shard] for shard in shards}, recovered)

    def confirm(self) -> None:
        """Some of what was sent gets its outcome."""
        self.random.shuffle(self.sent)
        for _ in range(self.random.randrange(1, 4)):
            if self.sent:
                fire = self.sent.pop()
                verdict = self.random.choices(list(Verdict), (6, 1, 1, 1))[0] if not self.is_kind else Verdict.CONFIRMED
                if verdict is Verdict.CONFIRMED:
                    self.settle(fire)
                    self.unstarted[fire.id] = fire
                self.receive(self.engine.published([Outcome(fire, verdict)]))

    def unkind(self, chance: float) -> float:
        return 0.0 if self.is_kind else chance

    def settle(self, fire: Fire) -> None:
        self.outstanding[fire.work.shard, fire.epoch].discard(fire.seq)

    # -- what the engine asks ---------------------------------------------------------------------------------------

    def receive(self, effects: list[Effect]) -> None:
        now = self.clock.monotonic()
        for effect in effects:
            match effect:
                case Publish(fires):
                    self.check_publication(fires, now)
                    self.sent += fires
                case TakeAgain(shards):
                    assert not shards & self.engine.shards
                    assert not shards & self.leaving.keys()
                    self.take(shards)
                case HandOver(shards):
                    assert not shards & self.engine.shards
                    for shard in shards:
                        del self.leaving[shard]
                case Record(epochs, marks):
                    for shard, mark in marks.items():
                        assert min(self.outstanding[shard, epochs[shard]], default=mark + 1) > mark
                    self.orders.append(effect)
                case LookAtQueues(fires):
                    empty = {lane_of(fire) for fire in fires if self.random.random() < 0.7}
                    self.receive(self.engine.queues_seen(empty))
                case Claim() | Release() | SendAgain():
                    assert now < self.engine.lease_until
                    self.check_numbers(effect)
                    self.orders.append(effect)
                case _:
                    self.orders += [] if isinstance(effect, UPKEEP) else [effect]

    def check_numbers(self, effect: Claim | Release | SendAgain) -> None:
        assert not effect.epochs.keys() & self.leaving.keys(), "numbered for a shard that leaves"
        for fire in _numbered(effect):
            assert fire.seq not in self.outstanding[fire.work.shard, fire.epoch]
            self.outstanding[fire.work.shard, fire.epoch].add(fire.seq)

    def check_publication(self, fires: Any, now: float) -> None:
        assert now < self.engine.lease_until, "published without a lease"
        for fire in fires:
            self.published += 1
            assert fire.work.shard not in self.leaving, "published for a shard that leaves"
            assert self.epochs[fire.work.shard] == fire.epoch, "published under an epoch that is not ours"
            assert fire.attempt or fire.fire_at <= self.clock.now(), "published before its time"
            assert fire.seq in self.outstanding[fire.work.shard, fire.epoch], "published though it is settled"
            assert all(fire is not other for other in self.sent), "published twice at once"

    def check_hand_over(self, shard: int) -> None:
        """Unless it took too long: nothing of the shard is in flight, and no write under its epoch has no answer."""
        if self.clock.monotonic() < self.leaving[shard] + HAND_OVER_S:
            epoch = self.epochs[shard]
            assert not [fire for fire in self.sent if (fire.work.shard, fire.epoch) == (shard, epoch)]
            writes = [o for o in self.orders if isinstance(o, Claim | Release | Settle | Record | SendAgain)]
            assert not [order for order in writes if order.epochs.get(shard) == epoch]

    def answer(self) -> None:
        """The store carries orders out one after the other."""
        if not self.orders:
            return
        order = self.orders.pop(0)
        answers: dict[type, Callable[[Any], list[Effect]]] = {
            ReadDue: self._due,
            Claim: self._claimed,
            ReadWaiting: self._waiting,
            Release: self._released,
            ReadUnstarted: self._unstarted,
            SendAgain: self._sent_again,
            CountPredecessors: self._counted,
            Settle: self._settled,
            Record: lambda _: self.engine.recorded(),
        }
        self.receive(answers[type(order)](order))

    def _due(self, read: ReadDue) -> list[Effect]:
        jobs: list[DueJob] = []
        for number, at in self.next_at.items():
            if at <= read.until and SHARDS[number % 2] in read.shards:
                overlap = OverlapPolicy.BUFFER_ONE if number % 3 else OverlapPolicy.ALLOW
                work = make_work(number, shard=SHARDS[number % 2], tenant_id=number % 2, overlap=overlap)
                jobs.append(make_due(work, at, schedule=every(0.5 * self.clock.speed, anchor=NOON)))
        return self.engine.due_read(read, saw(read, *jobs[: read.limit]))

    def _claimed(self, claim: Claim) -> list[Effect]:
        fences = {}
        for plan in claim.plans:
            changed = self.random.random() < 0.1  # edited, or taken over meanwhile
            if plan.next_scheduled_for is not None and not (changed or self.is_kind):
                self.next_at[plan.due.work.job_id.int] = plan.next_scheduled_for
            for row in plan.rows:
                if changed or row.state is not State.CLAIMED:
                    self.settle(row.fire)
                else:
                    fences[row.fire.id] = 1
        return self.engine.claimed(claim, fences)

    def _waiting(self, read: ReadWaiting) -> list[Effect]:
        rows = [fire for fire in self.waiting.values() if fire.work.shard in read.shards][: read.limit]
        copies = [
            make_fire(f.work, f.scheduled_for, seq=0, epoch=0, attempt=f.attempt, claimed_at=f.claimed_at) for f in rows
        ]
        self.waiting.clear()
        return self.engine.waiting_read(Waiting(copies))

    def _released(self, release: Release) -> list[Effect]:
        ids = {fire.id for fire in release.fires if self.random.random() >= self.unkind(0.2)}
        for fire in release.fires:
            if fire.id not in ids:
                self.settle(fire)
        return self.engine.released(release, ids)

    def _unstarted(self, read: ReadUnstarted) -> list[Effect]:
        """Some of what was confirmed is suspected, some of it overtaken; some was acquired meanwhile."""
        for fire in list(self.unstarted.values()):
            if self.random.random() < 0.3:
                del self.unstarted[fire.id]
        rows = [fire for fire in self.unstarted.values() if fire.work.shard in read.after]
        suspects = [
            make_fire(f.work, f.scheduled_for, seq=f.seq, epoch=f.epoch, attempt=f.attempt, claimed_at=f.claimed_at)
            for f in rows
        ]
        overtaken = {fire.id for fire in suspects if self.random.random() < 0.2}
        return self.engine.unstarted_read(Unstarted(suspects, overtaken, {}))

    def _sent_again(self, send: SendAgain) -> list[Effect]:
        ids = {fire.id for fire in send.fires if self.random.random() >= self.unkind(0.2)}
        for fire in send.fires:
            if fire.id not in ids:
                self.settle(fire)
            self.unstarted.pop(fire.id, None)
        self.sent_again += len(ids)
        return self.engine.sent_again(send, ids)

    def _counted(self, count: CountPredecessors) -> list[Effect]:
        ahead = {fire.id: Predecessors(1, 0) for fire in count.fires if self.random.random() < self.unkind(0.4)}
        return self.engine.predecessors_counted(count, ahead)

    def _settled(self, settle: Settle) -> list[Effect]:
        for settlement in settle.settlements:
            self.settle(settlement.fire)
            if settlement.state is State.PARKED:
                self.waiting[number_of(settlement.fire)] = settlement.fire
        return self.engine.settled(settle)


def _numbered(effect: Claim | Release | SendAgain) -> list[Fire]:
    if isinstance(effect, Release | SendAgain):
        return list(effect.fires)
    return [row.fire for plan in effect.plans for row in plan.rows]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from((None, 8.0)))
def test_whatever_the_world_does_the_engine_keeps_its_promises_and_never_spins(
    seed: int, stops_after_s: float | None
) -> None:
    world = World(seed, stops_after_s=stops_after_s)
    for _ in range(250):
        world.step()


def test_the_world_is_one_in_which_something_happens() -> None:
    world = World(3)
    for _ in range(2000):
        world.step()
    assert world.published > 50


def test_the_world_is_one_in_which_messages_are_sent_again() -> None:
    sent = 0
    for seed in range(4):
        world = World(seed)
        for _ in range(600):
            world.step()
        sent += world.sent_again
    assert sent > 5


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_once_the_world_is_kind_every_number_that_was_given_out_is_settled(seed: int) -> None:
    world = World(seed)
    for _ in range(150):
        world.step()
    world.is_kind = True
    world.leaving.clear()
    world.receive(world.engine.hand_over([]))
    world.next_at.clear()
    world.take(frozenset(SHARDS) - world.engine.shards)
    for _ in range(1500):
        for act in (world.tick, world.answer, world.answer, world.confirm):
            act()
            world.receive(world.engine.advance())
        left = [world.outstanding[shard, epoch] for shard, epoch in world.epochs.items()]
        if not (any(left) or world.orders):
            return
    raise AssertionError(f"numbers that nothing settles: {left}, orders: {world.orders}")
