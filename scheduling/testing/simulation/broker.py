"""The broker, and a node's connection to it: messages come late, twice, out of order; confirms come late, or never.

A message that is in a queue stays until a worker has acknowledged it (nothing purges a queue: see the package).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from scheduling.broker.port import Report
from scheduling.core.fire import Fire, Outcome, Verdict
from scheduling.store.ledger_port import Delivery
from scheduling.testing.simulation.faults import Fault, Faults
from scheduling.testing.simulation.process import Process
from scheduling.testing.simulation.world import World

QUICK_S = 0.0005, 0.003
SLOW_S = 0.05, 2.0
RECONNECT_S = 0.05, 0.3
DOWN_S = 0.5, 3.0

Consumer = Callable[[Delivery], None]


class Broker:
    """The queues of all tenants as one: their order is not promised, and fairness among them is not judged here."""

    def __init__(self, world: World, faults: Faults) -> None:
        self._world, self._faults = world, faults
        self._queue: list[Delivery] = []
        self._idle: list[Consumer] = []

    @property
    def is_empty(self) -> bool:
        return not self._queue

    @property
    def idle(self) -> int:
        """Workers that wait for a message."""
        return len(self._idle)

    def enqueue(self, message: Delivery) -> None:
        if self._faults.strikes(Fault.QUEUE_PURGED):
            self._world.note("broker", "is purged of", len(self._queue) + 1)
            self._queue.clear()
            return
        self._put(message)
        if self._faults.strikes(Fault.MESSAGE_TWICE):
            self._world.note("broker", "has it twice", message.fire_id)
            self._put(message)

    def consume(self, consumer: Consumer) -> None:
        """Give it the next message, when there is one."""
        self._idle.append(consumer)
        self._match()

    def cancel(self, consumer: Consumer) -> None:
        if consumer in self._idle:
            self._idle.remove(consumer)

    def redeliver(self, message: Delivery) -> None:
        """It was not acknowledged, and its worker is gone, or its connection is."""
        self._put(message)

    def _put(self, message: Delivery) -> None:
        self._queue.append(message)
        self._match()

    def _match(self) -> None:
        random = self._world.random
        while self._queue and self._idle:
            is_any = self._faults.strikes(Fault.OUT_OF_ORDER)
            message = self._queue.pop(random.randrange(len(self._queue)) if is_any else 0)
            consumer = self._idle.pop(random.randrange(len(self._idle)))
            delivery = replace(message, holder=UUID(int=random.getrandbits(128)))  # new for every delivery
            self._world.after(random.uniform(*QUICK_S), partial(consumer, delivery))


@dataclass(slots=True, eq=False)
class _Sent:
    fire: Fire
    is_open: bool = True  # has no outcome yet


class Connection:
    """A node's one connection: of ``Publisher``, what a node calls while it runs."""

    def __init__(self, process: Process, broker: Broker, faults: Faults) -> None:
        self._process, self._broker, self._faults = process, broker, faults
        self._random = process.world.random
        self._report: Report | None = None
        self._is_up = True
        self._open: list[_Sent] = []

    def start(self, report: Report) -> None:
        self._report = report

    def publish(self, fires: Sequence[Fire]) -> None:
        if not self._is_up:
            self._tell(fires, Verdict.UNSENT)
            return
        for fire in fires:
            sent = _Sent(fire)
            self._open.append(sent)
            message = message_of(fire)
            self._process.world.after(self._delay_s(Fault.MESSAGE_SLOW), partial(self._arrived, sent, message))

    def _arrived(self, sent: _Sent, message: Delivery) -> None:
        """In the broker. Of what was under way when the connection ended, or its node died, a part arrives."""
        if not (sent.is_open and self._process.is_alive):
            if self._random.random() < 0.5:
                self._broker.enqueue(message)
        elif self._faults.strikes(Fault.NACK):
            self._process.after(self._delay_s(Fault.CONFIRM_SLOW), lambda: self._decide(sent, Verdict.NACKED))
        else:
            self._broker.enqueue(message)
            self._process.after(self._delay_s(Fault.CONFIRM_SLOW), lambda: self._decide(sent, Verdict.CONFIRMED))

    def _decide(self, sent: _Sent, verdict: Verdict) -> None:
        if sent.is_open:
            sent.is_open = False
            self._open.remove(sent)
            self._tell([sent.fire], verdict)

    def break_off(self) -> None:
        """What has no confirm yet is lost, wherever it is."""
        self._process.world.note(self._process.name, "loses its connection with", len(self._open), "unconfirmed")
        lost, self._open = self._open, []
        for sent in lost:
            sent.is_open = False
        self._is_up = False
        self._tell([sent.fire for sent in lost], Verdict.LOST)
        down = DOWN_S if self._faults.strikes(Fault.CONNECTION_STAYS_DOWN) else RECONNECT_S
        self._process.after(self._random.uniform(*down), self._reconnect)

    def _reconnect(self) -> None:
        self._is_up = True

    def _tell(self, fires: Sequence[Fire], verdict: Verdict) -> None:
        """Soon, and never from within a call."""
        if fires:
            self._process.after(0.0, lambda: self._report_now([Outcome(fire, verdict) for fire in fires]))

    def _report_now(self, outcomes: list[Outcome]) -> None:
        if self._report is not None:
            self._report(outcomes)

    def _delay_s(self, slow: Fault) -> float:
        return self._random.uniform(*(SLOW_S if self._faults.strikes(slow) else QUICK_S))


def message_of(fire: Fire) -> Delivery:
    """As it is written now; its holder is the delivery's."""
    return Delivery(
        fire_id=fire.id,
        job_id=fire.work.job_id,
        tenant=fire.work.tenant,
        scheduled_for=fire.scheduled_for,
        history_days=fire.work.history_days,
        fence=fire.fence,
        holder=UUID(int=0),
    )
