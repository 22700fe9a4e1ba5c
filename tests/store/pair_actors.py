"""Who may be at work on one shard at the same time: nodes, workers and people, each with the product's own code.

An actor is a step that gives its answer, and what that answer promises: a caller is told the truth (I10), so the rows
that it committed are those of which it was told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Any

from django.db import connection, transaction

from scheduling.core.effects import ReadDue, Settlement
from scheduling.core.fire import State
from scheduling.models import DeadLetter, Fire, Job, JobRun
from scheduling.services.backfill import backfill
from scheduling.services.cancel import cancel_fires
from scheduling.services.pause import pause
from scheduling.services.resume import resume
from scheduling.services.run_now import run_now
from scheduling.store.ledger import PostgresLedger
from scheduling.store.ledger_port import Failure
from scheduling.store.polling import PollingStore
from scheduling.testing.clock import NOON
from scheduling.worker.context import JobContext
from scheduling.worker.fired import Fired
from tests.store.ledger_plans import keep_all_plans
from tests.store.pair_stage import Seat, Write, stopped_at_its_end
from tests.store.pair_world import CLOCK, EPOCHS, GRACE, MINUTE, SHARD, World, at

LEASE = timedelta(seconds=30)
TENANT = 1001  # of both jobs
NOBODY: frozenset[int] = frozenset()
LONG_AFTER = NOON + timedelta(days=40, minutes=20)  # that day's history is over, and its minutes of the ring are idle

Writes = Sequence[Write]


class Role(Enum):
    OWNER = auto()  # does one thing at a time with its shard
    TAKER = auto()  # another node
    POLLER = auto()
    WORKER = auto()
    PERSON = auto()
    READER = auto()
    JANITOR = auto()


@dataclass(frozen=True)
class Actor:
    name: str
    role: Role
    act: Callable[[World, Seat], Any]
    holds: Callable[[World, Any, Writes], bool]  # whether what it was told is what it wrote; refusals are not asked


def fires(writes: Writes, *states: str) -> list[Write]:
    """The last that it wrote of each fire, where that is one of these states."""
    last = {write.id: write for write in writes if write.table == "fire"}
    return [write for write in last.values() if write.new["state"] in states]


def fences(writes: Writes) -> dict[Any, int]:
    return {write.id: write.new["fence"] for write in writes}


def anything(_world: World, _answer: Any, _writes: Writes) -> bool:
    """It is told nothing of what it wrote."""
    return True


# -- nodes -------------------------------------------------------------------------------------------------------------


def claim(world: World, seat: Seat) -> Any:
    return world.store(seat).claim(EPOCHS, world.plans)


def claimed_it(_world: World, answer: Any, writes: Writes) -> bool:
    return bool(answer == fences(fires(writes, "claimed")))


def take_over(world: World, seat: Seat) -> Any:
    return world.store(seat).take_over([SHARD], "node-2")


def took_it(_world: World, answer: Any, writes: Writes) -> bool:
    epochs, recovered = answer
    [shard] = [write.new for write in writes if write.table == "shard"]
    return epochs == {SHARD: shard["epoch"]} and {f.id: f.fence for f in recovered} == fences(fires(writes, "claimed"))


def release(world: World, seat: Seat) -> Any:
    return world.store(seat).release(EPOCHS, world.waiting)


def released_it(_world: World, answer: Any, writes: Writes) -> bool:
    return bool(answer == {write.id for write in fires(writes, "claimed")})


def settle(world: World, seat: Seat) -> Any:
    """All but number 2 wait for their turn; number 1 was sent, and its connection ended before the confirm."""
    held = [fire for fire in world.held if fire.seq != 2]
    return world.store(seat).settle(EPOCHS, [Settlement(fire, State.PARKED, "turn", NOON) for fire in held])


def record(world: World, seat: Seat) -> Any:
    return world.store(seat).record(EPOCHS, {SHARD: 2})


def reap(world: World, seat: Seat) -> Any:
    """The run whose lease is out, and the pause that is over."""
    return world.store(seat).reap(EPOCHS, now=NOON)


def reaped_it(_world: World, answer: Any, writes: Writes) -> bool:
    return len(answer) == len([write for write in writes if write.new.get("state") == "lost"])


def promote(world: World, seat: Seat) -> Any:
    return world.store(seat).promote(EPOCHS, now=NOON)


def hold(world: World, seat: Seat) -> Any:
    """Its tenant has enough under way."""
    return world.store(seat).hold(EPOCHS, begun={(TENANT, SHARD): NOON}, ended=[])


def look(world: World, seat: Seat) -> Any:
    store = world.store(seat)
    for full in (NOBODY, frozenset([TENANT])):
        store.due(ReadDue(frozenset({SHARD}), NOON, 10, full))
        store.waiting([SHARD], now=NOON, limit=10, full=full)
    store.predecessors(world.held)
    store.held([SHARD])
    store.runs(world.held)


def expire(world: World, seat: Seat) -> Any:
    """What is left of entries, and the day, where nothing of it is unfinished."""
    with stopped_at_its_end(seat):
        return world.store(seat).expire([SHARD], now=LONG_AFTER)


# -- stop 2 ------------------------------------------------------------------------------------------------------------


def _poller(seat: Seat) -> PollingStore:
    return PollingStore(seat.connect, shards=SHARD + 1, grace=GRACE, confirm_s=30)


def poll(_world: World, seat: Seat) -> Any:
    return _poller(seat).poll(CLOCK, limit=10)


def polled_it(_world: World, answer: Any, writes: Writes) -> bool:
    return {fire.id: fire.fence for fire in answer} == fences(fires(writes, "claimed"))


def confirm(world: World, seat: Seat) -> Any:
    """Number 2 in time, number 3 behind its deadline."""
    return _poller(seat).confirm([fire for fire in world.held if fire.seq != 1])


def adopt(_world: World, seat: Seat) -> Any:
    return _poller(seat).adopt()


# -- workers -----------------------------------------------------------------------------------------------------------


def ledger() -> PostgresLedger:
    return PostgresLedger("default", lease=LEASE)


def acquire(world: World, _seat: Seat) -> Any:
    return ledger().acquire(world.message())


def acquire_by_kept_plan(world: World, _seat: Seat) -> Any:
    return keep_all_plans(ledger()).acquire(world.message())


def acquired_it(_world: World, answer: Any, writes: Writes) -> bool:
    holders = [write.new["holder"] for write in fires(writes, "running")]
    return holders == [str(answer.delivery.holder)]


def complete(world: World, _seat: Seat) -> Any:
    return ledger().complete(world.run, worker="w", result="")


def completed_it(world: World, _answer: Any, _writes: Writes) -> bool:
    """Now, or by an earlier call of the same holder."""
    holder = world.run.delivery.holder
    return Fire.objects.filter(id=world.run.delivery.fire_id, state="succeeded", holder=holder).exists()


def commit(world: World, _seat: Seat) -> Any:
    fired = Fired(world.run.delivery, "job 1", "")
    context = JobContext(fired=fired, acquired=world.run, worker="w", database="default", _ledger=ledger())
    with context.commit(), connection.cursor() as cursor:
        cursor.execute("INSERT INTO pair_effect VALUES (%s)", [world.run.delivery.holder])


def committed_it(world: World, _answer: Any, writes: Writes) -> bool:
    return {write.id for write in fires(writes, "succeeded")} == {world.run.delivery.fire_id}


def fail(world: World, _seat: Seat) -> Any:
    return ledger().fail(world.run, Failure("x"), worker="w", delay=timedelta(0))


def failed_it(world: World, answer: Any, writes: Writes) -> bool:
    """Or it was told that its completion had been written."""
    if answer is State.SUCCEEDED:
        return completed_it(world, None, writes)
    return JobRun.objects.filter(fire_id=world.run.delivery.fire_id, state="failed").exists()


def give_up(world: World, _seat: Seat) -> Any:
    return ledger().fail(world.run, Failure("x"), worker="w", delay=None)


def given_up(world: World, answer: Any, writes: Writes) -> bool:
    """As ``failed_it``; and who is told that the fire is dead has left its dead letter."""
    has_died = DeadLetter.objects.filter(fire_id=world.run.delivery.fire_id).exists()
    return has_died == (answer is State.DEAD) and failed_it(world, answer, writes)


def lose(world: World, _seat: Seat) -> Any:
    return ledger().lose(world.run.delivery, worker="parent", error="signal 9", run_state="lost")


def lost_it(world: World, answer: Any, writes: Writes) -> bool:
    """Now, or by an earlier call of the same parent; it is told nothing of what it did not end."""
    if answer is None:
        return list(writes) == []
    return JobRun.objects.filter(fire_id=world.run.delivery.fire_id, state="lost", worker="parent").exists()


def begin_step(world: World, _seat: Seat) -> Any:
    return ledger().begin_step(world.run, "charge")


def begun_it(_world: World, answer: Any, writes: Writes) -> bool:
    return bool(answer.is_new == any(write.table == "step" for write in writes))


def heartbeat(world: World, _seat: Seat) -> Any:
    return ledger().heartbeat([world.run.delivery])


def beaten_it(world: World, answer: Any, _writes: Writes) -> bool:
    """Nobody is told that he lost what he has."""
    delivery = world.run.delivery
    has = Fire.objects.filter(id=delivery.fire_id, fence=delivery.fence, holder=delivery.holder).exists()
    return answer.lost == set() or not has


# -- people ------------------------------------------------------------------------------------------------------------


def _pause(_world: World, _seat: Seat) -> Any:
    return pause(Job.objects.all(), reason="x", by="y")


def paused_it(_world: World, answer: Any, writes: Writes) -> bool:
    jobs = {write.key for write in writes if write.table == "job"}
    return bool((answer.jobs, answer.skipped) == (len(jobs), len(fires(writes, "skipped"))))


def _resume(_world: World, _seat: Seat) -> Any:
    return resume(Job.objects.all(), by="y", catch_up="all")


def resumed_it(_world: World, answer: Any, writes: Writes) -> bool:
    jobs = {write.key for write in writes if write.table == "job"}
    return bool((answer.jobs, answer.fires) == (len(jobs), len(fires(writes, "retry_wait"))))


def save(_world: World, _seat: Seat) -> Any:
    """An edit: twice as rarely."""
    with transaction.atomic():
        for job in Job.objects.order_by("pk"):
            job.every = 2 * MINUTE
            job.save()


def update(_world: World, _seat: Seat) -> Any:
    return Job.objects.update(every=2 * MINUTE)


def updated_it(_world: World, answer: Any, writes: Writes) -> bool:
    return bool(answer == len(writes))


def delete(_world: World, _seat: Seat) -> Any:
    return Job.objects.all().delete()[0]


def deleted_it(_world: World, answer: Any, writes: Writes) -> bool:
    return bool(answer == len([write for write in writes if write.table == "job"]))


def _cancel(_world: World, _seat: Seat) -> Any:
    return cancel_fires(jobs=Job.objects.all(), by="y")


def cancelled_it(_world: World, answer: Any, writes: Writes) -> bool:
    """Whoever was asked before is told so again, and writes nothing."""
    told = len(fires(writes, "running"))
    return answer.at_once == len(fires(writes, "skipped", "dead")) and answer.asked >= told


def _run_now(_world: World, _seat: Seat) -> Any:
    return run_now(Job.objects.all(), by="y", request="r")


def started_it(_world: World, answer: Any, writes: Writes) -> bool:
    return {one.fire_id for one in answer if one.is_new} == {write.id for write in fires(writes, "retry_wait")}


def _backfill(_world: World, _seat: Seat) -> Any:
    with transaction.atomic():
        done = [backfill(job, start=at(-1), until=at(0), by="y", request="b") for job in Job.objects.order_by("pk")]
    return sum(one.made for one in done)


def filled_it(_world: World, answer: Any, writes: Writes) -> bool:
    return bool(answer == len(fires(writes, "retry_wait")))


ACTORS = {
    actor.name: actor
    for actor in (
        Actor("claim", Role.OWNER, claim, claimed_it),
        Actor("release", Role.OWNER, release, released_it),
        Actor("settle", Role.OWNER, settle, anything),
        Actor("record", Role.OWNER, record, anything),
        Actor("hold", Role.OWNER, hold, anything),
        Actor("reap", Role.OWNER, reap, reaped_it),
        Actor("promote", Role.OWNER, promote, anything),
        Actor("take_over", Role.TAKER, take_over, took_it),
        Actor("poll", Role.POLLER, poll, polled_it),
        Actor("confirm", Role.POLLER, confirm, anything),
        Actor("adopt", Role.POLLER, adopt, anything),
        Actor("expire", Role.JANITOR, expire, anything),
        Actor("look", Role.READER, look, anything),
        Actor("acquire", Role.WORKER, acquire, acquired_it),
        Actor("acquire_kept", Role.WORKER, acquire_by_kept_plan, acquired_it),
        Actor("complete", Role.WORKER, complete, completed_it),
        Actor("commit", Role.WORKER, commit, committed_it),
        Actor("fail", Role.WORKER, fail, failed_it),
        Actor("give_up", Role.WORKER, give_up, given_up),
        Actor("lose", Role.WORKER, lose, lost_it),
        Actor("begin_step", Role.WORKER, begin_step, begun_it),
        Actor("heartbeat", Role.WORKER, heartbeat, beaten_it),
        Actor("pause", Role.PERSON, _pause, paused_it),
        Actor("resume", Role.PERSON, _resume, resumed_it),
        Actor("save", Role.PERSON, save, anything),
        Actor("update", Role.PERSON, update, updated_it),
        Actor("delete", Role.PERSON, delete, deleted_it),
        Actor("cancel", Role.PERSON, _cancel, cancelled_it),
        Actor("run_now", Role.PERSON, _run_now, started_it),
        Actor("backfill", Role.PERSON, _backfill, filled_it),
    )
}
