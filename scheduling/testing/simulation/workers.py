"""Workers: each takes one message at a time, acquires its fire, runs it, and writes its end, as ``worker.attempt``
does.

A worker dies or freezes between any two steps; a run may outlive its lease. Where it is only a child that dies, killed
or at its time limit, its parent says so to the ledger before a new child takes the next message.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from scheduling.core.errors import FairbeatError, LeaseLost
from scheduling.core.fire import State
from scheduling.core.retry import backoff
from scheduling.store.ledger_port import Acquired, Delivery, Ending, Failure, Refused
from scheduling.testing.simulation.audit import Audit, AuditedLedger
from scheduling.testing.simulation.broker import Broker
from scheduling.testing.simulation.faults import Fault, Faults
from scheduling.testing.simulation.link import NO_REPLY, STORE, Link
from scheduling.testing.simulation.process import Process
from scheduling.testing.simulation.world import World

T = TypeVar("T")

RUN_S = 0.005, 0.2
LONG_RUNS = 0.5, 3.0  # leases
FREEZES = 0.3, 3.0  # leases
HEEDS = 0.7  # of the runs that hear that they are to stop, those that do
NOTICED_S = 0.05, 1.0  # until the broker sees that a worker is gone
BORN_S = 0.2
TRIED_AGAIN_S = 0.1, 0.5
BOOM = Failure("boom")
SNOOZE = timedelta(seconds=0.3)


class Workers:
    """A pool: whoever dies is replaced. ``run_s``: how long one's task lasts; by chance, if it is not said."""

    def __init__(
        self,
        world: World,
        faults: Faults,
        broker: Broker,
        ledger: AuditedLedger,
        audit: Audit,
        *,
        lease_s: float,
        run_s: Callable[[Delivery], float] | None = None,
    ) -> None:
        self.world, self.faults, self.broker, self.ledger, self.audit = world, faults, broker, ledger, audit
        self.lease_s = lease_s
        self.run_s = run_s or (lambda _: world.random.uniform(*RUN_S))
        self._born = 0

    def bear(self) -> None:
        self._new().wait()

    def bear_after(self, message: Delivery) -> None:
        """In place of a child that died while it had this message."""
        self._new().report(message)

    def _new(self) -> Worker:
        self._born += 1
        return Worker(self, Process(self.world, f"worker-{self._born}"))


class Worker:
    def __init__(self, pool: Workers, process: Process) -> None:
        self._pool, self._process, self._random = pool, process, pool.world.random
        self._link = Link(process, pool.faults, STORE)
        self._heartbeat = Link(process, pool.faults, STORE)
        self._message: Delivery | None = None
        self._acquired: Acquired | None = None
        self._is_lost = self._is_cancelled = False  # as its heartbeat was told
        self._gives_up_at = 0.0

    # -- messages -----------------------------------------------------------------------------------------------

    def wait(self) -> None:
        self._message = self._acquired = None
        self._pool.broker.consume(self._delivered)

    def _delivered(self, message: Delivery) -> None:
        faults, broker = self._pool.faults, self._pool.broker
        self._message = message
        if faults.strikes(Fault.DELIVERED_AGAIN):
            self._pool.world.after(self._random.uniform(*NOTICED_S), lambda: broker.redeliver(message))
        self._then(self._acquire)

    def _then(self, step: Callable[[], None], delay_s: float = 0.0) -> None:
        """The next step, if it lives to see it."""
        faults, world = self._pool.faults, self._pool.world
        if faults.strikes(Fault.WORKER_FREEZES):
            self._process.freeze(self._pool.lease_s * self._random.uniform(*FREEZES))
        if faults.strikes(Fault.WORKER_DIES):
            self._process.die()
            if (message := self._message) is not None:
                world.after(self._random.uniform(*NOTICED_S), lambda: self._pool.broker.redeliver(message))
            world.after(BORN_S, self._pool.bear)
            return
        if self._message is not None and faults.strikes(Fault.CHILD_DIES):
            self._process.die()
            self._pool.bear_after(self._message)
            return
        self._process.after(delay_s, step)

    def _acknowledge(self) -> None:
        self.wait()

    def _put_back(self) -> None:
        assert self._message is not None
        self._pool.broker.redeliver(self._message)
        self.wait()

    # -- acquire ------------------------------------------------------------------------------------------------

    def _acquire(self) -> None:
        assert self._message is not None
        message, ledger = self._message, self._pool.ledger
        self._patiently(lambda: ledger.acquire(message), self._answered, or_else=self._put_back)

    def _answered(self, answer: Acquired | Refused | FairbeatError) -> None:
        assert self._message is not None
        if not isinstance(answer, Acquired):
            self._note("is refused", answer)
            self._acknowledge()
            return
        self._note("runs attempt", answer.attempt)
        self._acquired, self._is_lost, self._is_cancelled = answer, False, False
        self._beat_later(answer)
        is_long = self._pool.faults.strikes(Fault.TASK_LONG)
        run_s = self._pool.lease_s * self._random.uniform(*LONG_RUNS) if is_long else self._pool.run_s(answer.delivery)
        self._then(self._end, run_s)

    def _beat_later(self, acquired: Acquired) -> None:
        self._process.after(self._pool.lease_s / 3, lambda: self._beat(acquired))

    def _beat(self, acquired: Acquired) -> None:
        if self._acquired is not acquired:
            return
        ledger = self._pool.ledger

        def answered(renewal: Any) -> None:
            if self._acquired is acquired and renewal is not NO_REPLY:
                self._is_lost |= bool(renewal.lost)
                self._is_cancelled |= bool(renewal.cancelled)

        self._heartbeat.call(lambda: ledger.heartbeat([acquired.delivery]), answered)
        self._beat_later(acquired)

    # -- the end of the run -------------------------------------------------------------------------------------

    def _end(self) -> None:
        assert self._acquired is not None
        acquired, ledger, faults, name = self._acquired, self._pool.ledger, self._pool.faults, self._process.name
        if faults.strikes(Fault.TASK_FAILS):
            self._fail()
        elif faults.strikes(Fault.TASK_SNOOZES):
            self._leave("snoozes", lambda: ledger.snooze(acquired, worker=name, delay=SNOOZE))
        elif faults.strikes(Fault.TASK_CANCELS) or (self._is_cancelled and self._random.random() < HEEDS):
            self._leave("stops", lambda: ledger.cancel(acquired, worker=name, reason="it was asked to"))
        elif not commits(acquired.delivery.fire_id):
            write = lambda: ledger.complete(acquired, worker=name, result="")  # noqa: E731
            self._patiently(write, self._completed, or_else=self._acknowledge)
        elif self._is_lost:
            self._note("has lost the lease")
            self._acknowledge()
        else:
            self._link.call(lambda: ledger.commit(acquired, worker=name), self._committed)

    def _committed(self, reply: FairbeatError | None) -> None:
        assert self._acquired is not None
        if reply is NO_REPLY:
            delivery, ledger = self._acquired.delivery, self._pool.ledger
            self._then(lambda: self._link.call(lambda: ledger.is_completed(delivery), self._looked_up))
        else:
            self._completed(reply)

    def _looked_up(self, is_completed: bool | FairbeatError) -> None:
        if is_completed is True:
            self._completed(None)
        else:
            self._then(self._fail)

    def _completed(self, reply: FairbeatError | None) -> None:
        assert self._acquired is not None
        delivery, audit = self._acquired.delivery, self._pool.audit
        if isinstance(reply, LeaseLost):
            self._note("has lost the lease")
        else:
            self._note("has completed")
            if audit.completed.get(delivery.fire_id) != delivery.holder:
                self._pool.world.violate("I10", f"fire {delivery.fire_id}: a refused completion was called a success")
        self._then(self._acknowledge)

    def _fail(self) -> None:
        assert self._acquired is not None
        acquired, ledger, rand = self._acquired, self._pool.ledger, self._random.random
        delay: timedelta | None = backoff(acquired.counted, base=acquired.retry_base, cap=acquired.retry_cap, rand=rand)
        if self._pool.faults.strikes(Fault.TASK_GIVES_UP):
            delay = None
        self._leave("fails", lambda: ledger.fail(acquired, BOOM, worker=self._process.name, delay=delay))

    def _leave(self, how: str, write: Callable[[], State]) -> None:
        """It ends without success."""
        assert self._acquired is not None
        delivery = self._acquired.delivery

        def written(reply: State | FairbeatError) -> None:
            self._note(how, reply)
            if isinstance(reply, State):
                self._must_be_true(delivery, reply)
            self._then(self._acknowledge)

        self._patiently(write, written, or_else=self._acknowledge)

    def _must_be_true(self, delivery: Delivery, state: State) -> None:
        """I10: what the ledger said of the end of this delivery's run."""
        audit = self._pool.audit
        if state is State.SUCCEEDED:
            is_true = audit.completed.get(delivery.fire_id) == delivery.holder
        else:
            is_true = audit.has_ended(delivery) and (state is not State.DEAD or audit.has_died(delivery))
        if not is_true:
            self._pool.world.violate("I10", f"fire {delivery.fire_id}: the end of its run was called {state}")

    # -- the parent ---------------------------------------------------------------------------------------------

    def report(self, message: Delivery) -> None:
        """Tell the ledger of the child that is gone; what it did not hold goes back to the broker."""
        self._message, ledger = message, self._pool.ledger
        run_state: Ending = self._random.choice(("lost", "timed_out"))

        def told(reply: State | FairbeatError | None) -> None:
            self._note("says that it is", run_state, reply)
            if isinstance(reply, State):
                self._must_be_true(message, reply)
                self._acknowledge()
            else:
                self._put_back()

        self._patiently(
            lambda: ledger.lose(message, worker=self._process.name, error="gone", run_state=run_state),
            told,
            or_else=self._put_back,
        )

    # -- the ledger ---------------------------------------------------------------------------------------------

    def _patiently(
        self,
        write: Callable[[], T],
        then: Callable[[T | FairbeatError], None],
        *,
        or_else: Callable[[], None],
    ) -> None:
        """Ask again, for as long as a lease lasts, while there is no reply."""
        gives_up_at = self._pool.world.now + self._pool.lease_s

        def replied(reply: T | FairbeatError) -> None:
            if reply is not NO_REPLY:
                then(reply)
            elif self._pool.world.now > gives_up_at:
                self._then(or_else)
            else:
                self._then(ask, self._random.uniform(*TRIED_AGAIN_S))

        def ask() -> None:
            self._link.call(write, replied)

        ask()

    def _note(self, what: str, *about: object) -> None:
        if self._message is not None:
            self._pool.world.note(
                self._process.name, what, self._message.fire_id, f"fence {self._message.fence}", *about
            )


def commits(fire: UUID) -> bool:
    """Whether its task writes through commit()."""
    return fire.int % 4 != 0
