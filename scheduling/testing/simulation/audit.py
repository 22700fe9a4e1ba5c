"""Watches every write that the store and the ledger accept, and holds it against what an onlooker knows: who took which
shard over last, who was lent which fire and until when, and what has been done for good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from scheduling.core.effects import Epochs, Settlement
from scheduling.core.fire import Fire, State
from scheduling.core.lost_lease import LostRun
from scheduling.core.plans import JobPlan
from scheduling.store.ledger_port import Acquired, Delivery, Ending, Failure, Refused, Renewal
from scheduling.store.memory_rows import Rows, StoredFire
from scheduling.testing.simulation.planted import PlantedLedger, PlantedStore
from scheduling.testing.simulation.world import World


@dataclass(slots=True)
class Loan:
    """A fire in a worker's hands. ``until`` is monotonic seconds."""

    holder: UUID
    until: float
    is_over: bool = False  # by its holder's own word


class Audit:
    """The onlooker's books."""

    rows: Rows  # of the store that it watches

    def __init__(self, world: World) -> None:
        self.world = world
        self.epochs: dict[int, int] = {}
        self.fences: dict[UUID, int] = {}  # the highest under which a fire was lent
        self.loans: dict[UUID, Loan] = {}
        self.effects: Counter[UUID] = Counter()  # written through a commit, by fire
        self.completed: dict[UUID, UUID] = {}  # fire → the holder whose completion was accepted

    def wrote(self, epochs: Epochs, what: str) -> None:
        """The store accepted a write under these epochs."""
        for shard, epoch in epochs.items():
            if self.epochs.get(shard) != epoch:
                known = self.epochs.get(shard)
                self.world.violate("I3", f"{what} of shard {shard} under epoch {epoch}, where {known} is the newest")

    def lent(self, fire: StoredFire, delivery: Delivery, *, is_new: bool) -> None:
        """The ledger lets this delivery run the fire; ``is_new``: it did not before."""
        violate, now = self.world.violate, self.world.now
        if delivery.fence != fire.fence or delivery.fence < self.fences.get(fire.id, 0):
            violate("I3", f"fire {fire.id} was lent under fence {delivery.fence}; {fire.fence} is the newest")
        self.fences[fire.id] = delivery.fence
        before = self.loans.get(fire.id)
        if is_new and before is not None and not before.is_over and before.until > now:
            violate("I2", f"fire {fire.id} has two holders whose leases have not run out")
        if fire.id in self.completed:
            violate("I2", f"fire {fire.id} runs after it was completed")
        self.loans[fire.id] = Loan(delivery.holder, fire.lease_until or now)

    def renewed(self, fire: StoredFire, holder: UUID) -> None:
        loan = self.loans.get(fire.id)
        if loan is not None and loan.holder == holder and fire.lease_until is not None:
            loan.until = fire.lease_until

    def ended(self, fire: StoredFire, delivery: Delivery, was: tuple[State, int, UUID | None]) -> None:
        """The ledger accepted an end of the run; ``was``: state, fence and holder just before it."""
        if was != (State.RUNNING, delivery.fence, delivery.holder):
            self.world.violate("I3", f"the end of fire {fire.id} under fence {delivery.fence}, where it was {was}")
        if (loan := self.loans.get(fire.id)) is not None and loan.holder == delivery.holder:
            loan.is_over = True
        if fire.state is State.RETRY_WAIT and fire.cancel_reason:
            self.world.violate("I7", f"fire {fire.id} was asked to stop, and is to be tried again")
        if fire.state is not State.SUCCEEDED:
            return
        if self.completed.setdefault(fire.id, delivery.holder) != delivery.holder:
            self.world.violate("I2", f"fire {fire.id} was completed twice")

    def has_ended(self, delivery: Delivery) -> bool:
        """Whether this delivery's run is history, and no success."""
        run = self.rows.runs.get((delivery.fire_id, delivery.fence))
        return run is not None and run.holder == delivery.holder and run.state != State.SUCCEEDED

    def has_died(self, delivery: Delivery) -> bool:
        """Whether the fire's dead letter is of this delivery's run, or of what came after."""
        letter = self.rows.letters.get(delivery.fire_id)
        return letter is not None and letter.fence > delivery.fence

    def took_effect(self, fire: UUID) -> None:
        self.effects[fire] += 1
        if self.effects[fire] > 1:
            self.world.violate("I2", f"fire {fire} has {self.effects[fire]} effects")


class AuditedStore(PlantedStore):
    """Tells the audit what it accepts."""

    def __init__(self, audit: Audit, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._audit = audit
        audit.rows = self.rows

    def take_over(self, shards: Collection[int], node: str) -> tuple[Epochs, list[Fire]]:
        epochs, fires = super().take_over(shards, node)
        for shard, epoch in epochs.items():
            if epoch <= self._audit.epochs.get(shard, 0):
                self._audit.world.violate("I3", f"shard {shard} was taken over under the old epoch {epoch}")
            self._audit.epochs[shard] = epoch
        return epochs, fires

    def claim(self, epochs: Epochs, plans: Sequence[JobPlan]) -> dict[UUID, int]:
        jobs = {plan.due.work.job_id: self.rows.jobs[plan.due.work.job_id] for plan in plans}
        before = {job_id: (job.version, job.next_scheduled_for) for job_id, job in jobs.items()}
        fences = super().claim(epochs, plans)
        self._audit.wrote(epochs, "a claim")
        for job_id, job in jobs.items():
            version, was = before[job_id]
            if was and job.next_scheduled_for and version == job.version and job.next_scheduled_for < was:
                self._audit.world.violate("I4", f"{job.work.name} went back from {was} to {job.next_scheduled_for}")
        return fences

    def release(self, epochs: Epochs, fires: Sequence[Fire]) -> set[UUID]:
        released = super().release(epochs, fires)
        self._audit.wrote(epochs, "a release")
        return released

    def send_again(self, epochs: Epochs, fires: Sequence[Fire]) -> set[UUID]:
        sent = super().send_again(epochs, fires)
        self._audit.wrote(epochs, "a sending again")
        return sent

    def settle(self, epochs: Epochs, settlements: Sequence[Settlement]) -> None:
        super().settle(epochs, settlements)
        self._audit.wrote(epochs, "a settlement")

    def record(self, epochs: Epochs, marks: Mapping[int, int]) -> None:
        super().record(epochs, marks)
        self._audit.wrote(epochs, "a mark")

    def reap(self, epochs: Epochs, *, now: datetime) -> list[LostRun]:
        reaped = super().reap(epochs, now=now)
        self._audit.wrote(epochs, "a reap")
        return reaped


class AuditedLedger(PlantedLedger):
    """Tells the audit what it accepts. (Its workers know their fences, whatever bug is planted beneath.)"""

    def __init__(self, audit: Audit, rows: Rows, *args: Any, **options: Any) -> None:
        super().__init__(rows, *args, **options)
        self._audit = audit

    def acquire(self, delivery: Delivery) -> Acquired | Refused:
        fire = self._rows.fires.get(delivery.fire_id)
        is_new = fire is None or (fire.state, fire.holder) != (State.RUNNING, delivery.holder)
        answer = super().acquire(delivery)
        if isinstance(answer, Acquired) and fire is not None:
            job = self._rows.jobs[delivery.job_id]
            if is_new and not fire.origin and job.is_paused_at(self._clock.now()):
                self._audit.world.violate("I9", f"fire {fire.id} of {job.work.name}, which is paused, starts")
            self._audit.lent(fire, delivery, is_new=is_new)
            return Acquired(
                delivery=delivery,
                attempt=answer.attempt,
                counted=answer.counted,
                max_attempts=answer.max_attempts,
                exclusive=answer.exclusive,
                retry_base=answer.retry_base,
                retry_cap=answer.retry_cap,
            )
        return answer

    def heartbeat(self, deliveries: Collection[Delivery]) -> Renewal:
        renewal = super().heartbeat(deliveries)
        for delivery in deliveries:
            if delivery.holder not in renewal.lost:
                self._audit.renewed(self._rows.fires[delivery.fire_id], delivery.holder)
        return renewal

    def complete(self, acquired: Acquired, *, worker: str, result: str) -> None:
        fire = self._rows.fires[acquired.delivery.fire_id]
        was = fire.state, fire.fence, fire.holder
        super().complete(acquired, worker=worker, result=result)
        if was[0] is not State.SUCCEEDED:
            self._audit.ended(fire, acquired.delivery, was)

    def commit(self, acquired: Acquired, *, worker: str) -> None:
        """The task's own writes and the completion in one transaction. Raises LeaseLost, and nothing was written."""
        self.complete(acquired, worker=worker, result="")
        self._audit.took_effect(acquired.delivery.fire_id)

    def fail(
        self, acquired: Acquired, failure: Failure, *, worker: str, delay: timedelta | None, reason: str = "gave_up"
    ) -> State:
        with self._watched(acquired.delivery):
            return super().fail(acquired, failure, worker=worker, delay=delay, reason=reason)

    def snooze(self, acquired: Acquired, *, worker: str, delay: timedelta) -> State:
        with self._watched(acquired.delivery):
            return super().snooze(acquired, worker=worker, delay=delay)

    def cancel(self, acquired: Acquired, *, worker: str, reason: str) -> State:
        with self._watched(acquired.delivery):
            return super().cancel(acquired, worker=worker, reason=reason)

    def lose(self, delivery: Delivery, *, worker: str, error: str, run_state: Ending) -> State | None:
        with self._watched(delivery):
            return super().lose(delivery, worker=worker, error=error, run_state=run_state)

    @contextmanager
    def _watched(self, delivery: Delivery) -> Iterator[None]:
        """Whatever ends this delivery's run, without success, is told to the audit."""
        fire = self._rows.fires[delivery.fire_id]
        was = fire.state, fire.fence, fire.holder
        yield
        if (fire.state, fire.fence, fire.holder) != was:
            self._audit.ended(fire, delivery, was)
