"""The ledger in memory against the one in Postgres: what random workers ask is answered alike, and leaves the same
rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest

from scheduling.core.errors import LeaseLost
from scheduling.core.fire import OverlapPolicy
from scheduling.store.ledger import PostgresLedger
from scheduling.store.ledger_port import Acquired, Delivery, Failure, Ledger, Renewal
from scheduling.store.memory_ledger import MemoryLedger
from scheduling.testing.clock import NOON
from tests.claims import SECOND, job_id
from tests.store.backends import Backend, MemoryBackend, PostgresBackend

MINUTE = timedelta(minutes=1)
JOBS, FIRES, STEPS = 3, 6, 40
HISTORY_DAYS = 30
Step = tuple[str, dict[str, Any]]


def drawn(seed: int) -> Iterator[Step]:
    """What happens, in order; nothing in it depends on the ledger."""
    random = Random(seed)
    for number in range(JOBS):
        policy = {
            "overlap": random.choice([OverlapPolicy.ALLOW, *OverlapPolicy]),
            "expires_after": random.choice([None, None, SECOND * 59, MINUTE * 10]),
            "max_attempts": random.choice([1, 2, 3]),
        }
        yield "job", {"number": number, "policy": policy}
    for number in range(FIRES):
        state = random.choice(["claimed"] * 3 + ["parked", "retry_wait", "skipped"])
        wakes: dict[str, Any] = {} if state in ("claimed", "skipped") else {"wake_s": 3600}
        reason = "" if state == "claimed" else "overlap"
        origin = random.choice(["", "", "manual:1"])
        yield (
            "fire",
            {"job": number % JOBS, "at_s": number * 7, "state": state, "reason": reason, "origin": origin, **wakes},
        )
    names = ["acquire"] * 8 + ["complete", "fail"] * 3 + ["heartbeat", "is_completed", "bury", "change"]
    names += ["claim_again"] * 3
    for _ in range(STEPS):
        name, said = random.choice(names), {"which": random.randrange(100)}
        if name == "acquire":
            said |= {"holder": random.randrange(3), "fence": random.choice([0, 0, 0, 1, 2])}
        yield name, said


class Teller:
    """Each step is a method; it gives what the ledger answered."""

    def __init__(self, world: Backend, ledger: Ledger) -> None:
        self._world, self._ledger = world, ledger
        self._fires: list[tuple[UUID, int, float]] = []
        self._deliveries: list[Delivery] = []
        self._acquired: list[Acquired] = []

    def told(self, seed: int) -> list[tuple[Any, ...]]:
        """Each step, its answer, and all rows after it."""
        return [(name, step, getattr(self, name)(**step), self._rows()) for name, step in drawn(seed)]

    def _rows(self) -> list[Any]:
        return [self._world.row(fire) for fire, _, _ in self._fires]

    def job(self, number: int, policy: dict[str, Any]) -> None:
        self._world.add(number, 86_400, **policy)

    def fire(self, job: int, at_s: float, **columns: Any) -> None:
        self._fires.append((self._world.put(job, at_s, max_attempts=2, **columns), job, at_s))

    def acquire(self, which: int, holder: int, fence: int) -> Any:
        """``fence`` 0: the row's own."""
        fire, job, at_s = self._fires[which % FIRES]
        row = self._world.row(fire)
        assert row is not None
        delivery = Delivery(
            fire_id=fire,
            job_id=job_id(job),
            tenant="tenant-1",
            scheduled_for=NOON + SECOND * at_s,
            history_days=HISTORY_DAYS,
            fence=fence or row.fence,
            holder=UUID(int=which % FIRES * 10 + holder),
        )
        self._deliveries.append(delivery)
        answer = self._ledger.acquire(delivery)
        if isinstance(answer, Acquired):
            self._acquired.append(answer)
        return answer

    def complete(self, which: int) -> str:
        if not self._acquired:
            return ""
        try:
            self._ledger.complete(self._one(which), worker="w", result="")
        except LeaseLost:
            return "lost"
        return "completed"

    def fail(self, which: int) -> str:
        if not self._acquired:
            return ""
        try:
            return self._ledger.fail(self._one(which), Failure("boom"), worker="w", delay=SECOND * which)
        except LeaseLost:
            return "lost"

    def _one(self, which: int) -> Acquired:
        """Mostly the newest."""
        return self._acquired[-1 if which % 2 else which % len(self._acquired)]

    def heartbeat(self, which: int) -> Renewal:
        newest = {delivery.holder: delivery for delivery in self._deliveries}
        return self._ledger.heartbeat(list(newest.values())[which % 2 :: 2])

    def is_completed(self, which: int) -> bool | None:
        return self._ledger.is_completed(self._deliveries[which % len(self._deliveries)]) if self._deliveries else None

    def bury(self, which: int) -> bool | None:
        if not self._deliveries:
            return None
        return self._ledger.bury(self._deliveries[which % len(self._deliveries)], "unknown_task")

    def change(self, which: int) -> None:
        changes: list[dict[str, Any]] = [
            {"edited": True},
            {"deleted": True},
            {"paused": True},
            {"paused": True, "until_s": 30},
        ]
        self._world.change(which % JOBS, **changes[which % len(changes)])

    def claim_again(self, which: int) -> None:
        self._world.claim_again(self._fires[which % FIRES][0])


@pytest.mark.django_db
@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("seed", range(8))
def test_both_ledgers_answer_random_workers_alike(seed: int) -> None:
    memory, postgres = MemoryBackend(), PostgresBackend()
    memory.clock.set_job_time(NOON + MINUTE)  # as the stopped clock of the database
    in_memory = Teller(memory, MemoryLedger(memory.store.rows, memory.clock, lease_s=30))
    in_postgres = Teller(postgres, PostgresLedger("default", lease=timedelta(seconds=30)))

    for one, other in zip(in_memory.told(seed), in_postgres.told(seed), strict=True):
        assert one == other
