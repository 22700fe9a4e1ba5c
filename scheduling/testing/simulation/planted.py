"""Three bugs to plant in the store, by which the simulation shows that it would find them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from random import Random
from typing import Any
from uuid import UUID

from scheduling.core.due import DueJob
from scheduling.core.effects import Epochs
from scheduling.core.errors import StaleEpoch
from scheduling.core.plans import JobPlan, PlannedRow
from scheduling.store.ledger_port import Acquired, Delivery, Refused
from scheduling.store.memory import MemoryStore
from scheduling.store.memory_claims import MemoryClaims
from scheduling.store.memory_ledger import MemoryLedger
from scheduling.store.memory_rows import StoredFire, StoredJob


class Bug(StrEnum):
    """What the store forgets."""

    FENCE_UNCHECKED = "fence_unchecked"  # whoever asks for a fire, or ends it, is taken for its holder
    EPOCH_UNCHECKED = "epoch_unchecked"  # whoever writes is taken for the owner
    WINDOW_LOADED_TWICE = "window_loaded_twice"  # some claims are carried out twice, whatever became of their jobs


TWICE = 0.05  # of the claims


class PlantedStore(MemoryStore):
    """The store in memory, with this bug, or with none."""

    def __init__(self, *args: Any, bug: Bug | None, random: Random, **options: Any) -> None:
        super().__init__(*args, rand=random.random, **options)
        self._bug, self._random = bug, random
        if bug is Bug.WINDOW_LOADED_TWICE:
            self._claims = Anew(self.rows, self._clock)
        self._before: tuple[Epochs, Sequence[JobPlan]] | None = None

    def _hold(self, epochs: Epochs) -> None:
        if self._bug is not Bug.EPOCH_UNCHECKED:
            super()._hold(epochs)

    def claim(self, epochs: Epochs, plans: Sequence[JobPlan]) -> dict[UUID, int]:
        if self._bug is Bug.WINDOW_LOADED_TWICE:
            if self._before is not None and self._random.random() < TWICE:
                self._once_more(*self._before)
            self._before = epochs, plans
        return super().claim(epochs, plans)

    def _once_more(self, epochs: Epochs, plans: Sequence[JobPlan]) -> None:
        try:
            super().claim(epochs, plans)
        except StaleEpoch:
            self._before = None


class Anew(MemoryClaims):
    """Each claim is carried out as if there had been none."""

    def _advanced(self, plan: JobPlan) -> StoredJob | None:
        job = self._rows.jobs[plan.due.work.job_id]
        if not job.is_deleted:
            plan = replace(plan, due=DueJob(job.due().job, job.next_scheduled_for))  # as if it were as it was read
        return super()._advanced(plan)

    def _inserted(self, row: PlannedRow, job: StoredJob) -> StoredFire | None:
        self._rows.fires.pop(row.fire.id, None)  # as if no key kept an occurrence from having two rows
        return super()._inserted(row, job)


class PlantedLedger(MemoryLedger):
    """The ledger in memory, with this bug, or with none."""

    def __init__(self, *args: Any, bug: Bug | None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._bug = bug

    def acquire(self, delivery: Delivery) -> Acquired | Refused:
        return super().acquire(self._believed(delivery))

    def complete(self, acquired: Acquired, *, worker: str, result: str) -> None:
        believed = replace(acquired, delivery=self._believed(acquired.delivery))
        super().complete(believed, worker=worker, result=result)

    def _believed(self, delivery: Delivery) -> Delivery:
        fire = self._rows.fires.get(delivery.fire_id)
        if self._bug is not Bug.FENCE_UNCHECKED or fire is None:
            return delivery
        return replace(delivery, fence=fire.fence, holder=fire.holder or delivery.holder)
