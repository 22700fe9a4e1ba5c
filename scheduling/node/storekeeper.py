"""The thread that carries out the engine's store effects, one after the other, and brings the answers back.

One thread and one connection: so there is at most one transaction for each shard at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from queue import SimpleQueue
from threading import Thread
from typing import Any

from scheduling.core.effects import (
    CancelRunning,
    Claim,
    CountPredecessors,
    Effect,
    Epochs,
    Expire,
    Hold,
    LookAtRuns,
    Promote,
    ReadDue,
    ReadHeld,
    ReadUnstarted,
    ReadWaiting,
    Reap,
    Record,
    Release,
    SendAgain,
    Settle,
    StoreEffect,
)
from scheduling.core.engine import Engine
from scheduling.core.errors import StaleEpoch
from scheduling.core.fire import Fire
from scheduling.core.lost_lease import LostRun
from scheduling.failpoints import Point, failpoint
from scheduling.node.inbox import Event, Inbox
from scheduling.store.port import ScheduleStore, StoreUnavailable

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Take:
    """Take these shards over."""

    shards: frozenset[int]


@dataclass(frozen=True, slots=True)
class Report:
    """Write the node's figures."""

    fires: int
    latency: Mapping[str, Any]


Order = StoreEffect | Take | Report


class Storekeeper:
    """``on_stale`` is told which shards have another owner; ``on_taken`` and ``on_not_taken``, how a take-over that was
    ordered has ended; ``on_lost``, in its own thread, which runs and retries the store has ended.
    """

    def __init__(
        self,
        store: ScheduleStore,
        engine: Engine,
        inbox: Inbox,
        *,
        node: str,
        on_stale: Callable[[Collection[int]], None],
        on_taken: Callable[[frozenset[int]], None],
        on_not_taken: Callable[[frozenset[int]], None],
        on_lost: Callable[[Sequence[LostRun]], None] = lambda _: None,
    ) -> None:
        self._store, self._engine, self._inbox, self._node = store, engine, inbox, node
        self._on_lost = on_lost
        self._on_stale, self._on_taken, self._on_not_taken = on_stale, on_taken, on_not_taken
        self._orders: SimpleQueue[Order | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="storekeeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def order(self, order: Order) -> None:
        self._orders.put(order)

    def stop(self, timeout_s: float) -> None:
        """Carry out what was ordered, then end."""
        self._orders.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            self.serve(order)
        self._store.close()

    def serve(self, order: Order) -> None:
        """Carry it out, and put what the engine is to be told in the inbox."""
        try:
            answer = self._carry_out(order)
        except StaleEpoch as stale:
            logger.warning("%s", stale)
            answer = self._refused(order, stale.shards)
        except StoreUnavailable as problem:
            logger.warning("%s failed, its outcome is unknown: %s", type(order).__name__, problem)
            answer = self._refused(order, ())
        except Exception:
            logger.exception("%s failed", type(order).__name__)
            answer = self._refused(order, ())
        if answer is not None:
            self._inbox.put(answer)

    def _refused(self, order: Order, stale: Collection[int]) -> Event | None:
        match order:
            case Take(shards):
                return lambda: self._on_not_taken(shards)
            case Report():
                return None
        if stale:
            self._inbox.put(lambda: self._on_stale(stale))
        return lambda: self._engine.failed(order, stale=stale)

    def _carry_out(self, order: Order) -> Event | None:
        match order:
            case ReadDue() | ReadWaiting() | CountPredecessors() | ReadUnstarted() | ReadHeld() | LookAtRuns():
                return self._read(order)
            case Claim() | Release() | Settle() | Record() | SendAgain() | Hold():
                return self._write(order)
            case Take(shards):
                failpoint(Point.TAKE_OVER_BEFORE)
                epochs, recovered = self._store.take_over(shards, self._node)
                failpoint(Point.TAKE_OVER_COMMITTED)
                logger.info("took over %d shards, recovered %d fires", len(epochs), len(recovered))
                return lambda: self._taken(shards, epochs, recovered)
            case Report(fires, latency):
                self._store.report(self._node, fires=fires, latency=latency)
                return None
            case _:
                return self._keep_up(order)

    def _keep_up(self, order: Reap | CancelRunning | Promote | Expire) -> Event | None:
        match order:
            case Reap(epochs, now):
                if lost := self._store.reap(epochs, now=now):
                    logger.warning("%d runs outlived their lease and were ended", len(lost))
                    self._on_lost(lost)
                    return self._engine.reaped
            case CancelRunning(epochs, newest):
                self._on_lost(self._store.cancel_running(epochs, newest))
            case Promote(epochs, now):
                more = self._store.promote(epochs, now=now)
                return lambda: self._engine.promoted(more=more)
            case Expire(shards, now):
                for day in self._store.expire(shards, now=now):
                    logger.info("dropped the expired history %s", day)
        return None

    def _read(self, order: ReadDue | ReadWaiting | CountPredecessors | ReadUnstarted | ReadHeld | LookAtRuns) -> Event:
        store, engine = self._store, self._engine
        match order:
            case ReadDue():
                due = store.due(order)
                return lambda: engine.due_read(order, due)
            case ReadWaiting(shards, now, limit, full):
                waiting = store.waiting(shards, now=now, limit=limit, full=full)
                return lambda: engine.waiting_read(waiting)
            case CountPredecessors(fires):
                counts = store.predecessors(fires)
                return lambda: engine.predecessors_counted(order, counts)
            case ReadUnstarted(after, patience_s, limit):
                found = store.unstarted(after, patience=timedelta(seconds=patience_s), limit=limit)
                return lambda: engine.unstarted_read(found)
            case ReadHeld(shards):
                held = store.held(shards)
                return lambda: engine.held_read(order, held)
            case LookAtRuns(fires):
                runs = store.runs(fires)
                return lambda: engine.runs_seen(order, runs)

    def _write(self, order: Claim | Release | Settle | Record | SendAgain | Hold) -> Event:
        store, engine = self._store, self._engine
        match order:
            case Claim(epochs, plans):
                failpoint(Point.CLAIM_BEFORE)
                fences = store.claim(epochs, plans)
                failpoint(Point.CLAIM_COMMITTED)
                return lambda: engine.claimed(order, fences)
            case Release(epochs, fires):
                ids = store.release(epochs, fires)
                return lambda: engine.released(order, ids)
            case SendAgain(epochs, fires):
                sent = store.send_again(epochs, fires)
                logger.warning("%d messages that nobody acquired seem to be gone: sent again", len(sent))
                return lambda: engine.sent_again(order, sent)
            case Settle(epochs, settlements):
                store.settle(epochs, settlements)
                return lambda: engine.settled(order)
            case Record(epochs, marks):
                failpoint(Point.RECORD_BEFORE)
                store.record(epochs, marks)
                failpoint(Point.RECORD_COMMITTED)
                return engine.recorded
            case Hold(epochs, begun, ended):
                store.hold(epochs, begun=begun, ended=ended)
                return engine.holds_written

    def _taken(self, shards: frozenset[int], epochs: Epochs, recovered: Sequence[Fire]) -> Sequence[Effect]:
        effects = self._engine.taken(epochs, recovered)
        self._on_taken(shards)
        return effects
