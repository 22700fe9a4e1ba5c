"""The ledger in memory against the one in Postgres: what random workers ask is answered alike, and leaves the same
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest

from scheduling.core.errors import InvalidField, LeaseLost
from scheduling.core.fire import OverlapPolicy
from scheduling.store.ledger import PostgresLedger
from scheduling.store.ledger_port import Acquired, Delivery, Ending, Failure, Ledger, Renewal
from scheduling.store.memory_ledger import MemoryLedger
from scheduling.testing.clock import NOON
from tests.claims import SECOND, job_id
from tests.store.backends import Backend, MemoryBackend, PostgresBackend

MINUTE = timedelta(minutes=1)
JOBS, FIRES, STEPS = 3, 6, 60
LOOK = 4  # after each so many steps, by turns of the seeds, all rows are compared: that takes longer than the steps
BOOM = Failure("boom: it\nbroke")
STEP_NAMES = ["charge", "mail", "charge"]
RESULTS = [None, 7, {"at": [1.5, "x"]}, ""]
HISTORY_DAYS = 30
Step = tuple[str, dict[str, Any]]


def half() -> float:
    """Both draw it for every retry."""
    return 0.5


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
    names = ["acquire"] * 12 + ["complete", "fail", "heartbeat", "claim_again"] * 3
    names += ["give_up", "snooze", "cancel", "lose", "begin_step", "ask_to_stop"] * 2
    names += ["finish_step", "undo_step", "is_completed", "bury", "change", "ask_to_stop", "ask_to_stop"]
    for _ in range(STEPS):
        name, said = random.choice(names), {"which": random.randrange(100)}
        if name == "acquire":
            said |= {"holder": random.randrange(3), "fence": random.choice([0, 0, 0, 1, 2])}
            said |= {"tenant": random.choice([1] * 9 + [2, 99])}
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
        return [
            (name, step, getattr(self, name)(**step), None if number % LOOK else self._rows())
            for number, (name, step) in enumerate(drawn(seed), start=seed)
        ]

    def _rows(self) -> list[Any]:
        see = self._world
        return [(see.row(fire), see.runs(fire), see.letter(fire), see.steps(fire)) for fire, _, _ in self._fires]

    def job(self, number: int, policy: dict[str, Any]) -> None:
        self._world.add(number, 86_400, **policy)

    def fire(self, job: int, at_s: float, **columns: Any) -> None:
        self._fires.append((self._world.put(job, at_s, max_attempts=2, **columns), job, at_s))

    def acquire(self, which: int, holder: int, fence: int, tenant: int) -> Any:
        """``fence`` 0: the row's own. The jobs are tenant 1's."""
        fire, job, at_s = self._fires[which % FIRES]
        row = self._world.row(fire)
        assert row is not None
        delivery = Delivery(
            fire_id=fire,
            job_id=job_id(job),
            tenant=f"tenant-{tenant}",
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

    def complete(self, which: int) -> Any:
        return self._asked(which, lambda run: self._ledger.complete(run, worker="w", result=""))

    def fail(self, which: int) -> Any:
        return self._asked(which, lambda run: self._ledger.fail(run, BOOM, worker="w", delay=SECOND * which))

    def give_up(self, which: int) -> Any:
        reason = ["gave_up", "attempts_exhausted"][which % 3 == 0]
        return self._asked(which, lambda run: self._ledger.fail(run, BOOM, worker="w", delay=None, reason=reason))

    def snooze(self, which: int) -> Any:
        return self._asked(which, lambda run: self._ledger.snooze(run, worker="w", delay=SECOND * which))

    def cancel(self, which: int) -> Any:
        return self._asked(which, lambda run: self._ledger.cancel(run, worker="w", reason="enough\nof it"))

    def begin_step(self, which: int) -> Any:
        return self._asked(which, lambda run: self._ledger.begin_step(run, STEP_NAMES[which % 3]))

    def finish_step(self, which: int) -> Any:
        return self._asked(which, lambda run: self._ledger.finish_step(run, STEP_NAMES[which % 3], RESULTS[which % 4]))

    def undo_step(self, which: int) -> Any:
        return self._asked(which, lambda run: self._ledger.undo_step(run, STEP_NAMES[which % 3]))

    def _asked(self, which: int, ask: Callable[[Acquired], Any]) -> Any:
        """What an acquired one is told."""
        if not self._acquired:
            return ""
        try:
            return ask(self._one(which))
        except (LeaseLost, InvalidField) as refusal:
            return type(refusal)

    def lose(self, which: int) -> Any:
        if not self._deliveries:
            return ""
        how: Ending = "lost" if which % 3 else "timed_out"
        delivery = self._deliveries[-1 if which % 2 else which % len(self._deliveries)]
        return self._ledger.lose(delivery, worker="parent", error="signal 9", run_state=how)

    def ask_to_stop(self, which: int) -> None:
        """Mostly one that runs."""
        fire = self._one(which).delivery.fire_id if self._acquired else self._fires[which % FIRES][0]
        self._world.ask_to_stop(fire, "somebody said so")

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
        return self._ledger.bury(self._deliveries[which % len(self._deliveries)], "unknown_task", error="no task")

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
@pytest.mark.parametrize("seed", range(12))
def test_both_ledgers_answer_random_workers_alike(seed: int) -> None:
    memory, postgres = MemoryBackend(), PostgresBackend()
    memory.clock.set_job_time(NOON + MINUTE)  # as the stopped clock of the database
    in_memory = Teller(memory, MemoryLedger(memory.store.rows, memory.clock, lease_s=30, rand=half))
    in_postgres = Teller(postgres, PostgresLedger("default", lease=timedelta(seconds=30), rand=half))

    for one, other in zip(in_memory.told(seed), in_postgres.told(seed), strict=True):
        assert one == other
