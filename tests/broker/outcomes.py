"""Fires to publish, and what a publisher says of them."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from scheduling.broker.port import Publisher
from scheduling.core.fire import Fire, Lane, Outcome, Verdict, Work
from scheduling.core.identity import fire_id, uuid7
from tests.processes import PATIENCE_S

START = datetime(2026, 3, 8, 7, tzinfo=UTC)
_numbers = itertools.count()


def unknown(task: str) -> bool | None:
    """The `ignore_result` of a process that has no task registered."""
    return None


def work(**changes: Any) -> Work:
    plain = Work(
        job_id=uuid7(),
        shard=3,
        tenant_id=1,
        tenant="acme",
        history_days=30,
        name="send the mail",
        task="tests.broker.echo",
        lane=Lane.BULK,
        args='[1, "two"]',
        kwargs='{"three": 3.5}',
    )
    return replace(plain, **changes)


def fire(of: Work | None = None, **changes: Any) -> Fire:
    number = next(_numbers)
    of = of or work()
    moment = changes.pop("scheduled_for", START + timedelta(milliseconds=number))
    values = {"origin": "", "fence": 1, "attempt": 0, "epoch": 1, "seq": number, **changes}
    return Fire(work=of, id=fire_id(of.job_id, moment), scheduled_for=moment, fire_at=moment, **values)


def fires(count: int, of: Work | None = None) -> list[Fire]:
    of = of or work()
    return [fire(of) for _ in range(count)]


class Outcomes:
    """The `report` of a test: keeps what it is told, and lets the test wait for it."""

    def __init__(self) -> None:
        self.all: list[Outcome] = []
        self.threads: set[int] = set()
        self._changed = threading.Condition()

    def report(self, outcomes: Sequence[Outcome]) -> None:
        with self._changed:
            self.all.extend(outcomes)
            self.threads.add(threading.get_ident())
            self._changed.notify_all()

    def wait(self, count: int, *, timeout_s: float = PATIENCE_S) -> Counter[Verdict]:
        """Wait until there are `count` outcomes; how many of each verdict."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.all) >= count, timeout_s):
                raise AssertionError(f"{len(self.all)} of {count} outcomes within {timeout_s} s: {self.verdicts}")
            return self.verdicts

    @property
    def verdicts(self) -> Counter[Verdict]:
        return Counter(outcome.verdict for outcome in self.all)

    def of(self, one: Fire) -> list[Verdict]:
        return [outcome.verdict for outcome in self.all if outcome.fire is one]

    def per_fire(self) -> Counter[UUID]:
        return Counter(outcome.fire.id for outcome in self.all)

    def publish(
        self, publisher: Publisher, batch: Sequence[Fire], *, timeout_s: float = PATIENCE_S
    ) -> Counter[Verdict]:
        """Publish, wait for the outcome of each, and count the verdicts on these."""
        before = len(self.all)
        publisher.publish(batch)
        self.wait(before + len(batch), timeout_s=timeout_s)
        return Counter(outcome.verdict for outcome in self.all[before:])

    def publish_until(self, publisher: Publisher, verdict: Verdict, *, attempts: int = 2000) -> None:
        """Publish single fires until one ends with `verdict`: how a test waits for a change that nothing announces."""
        for _ in range(attempts):
            if self.publish(publisher, fires(1))[verdict]:
                return
        raise AssertionError(f"no {verdict} in {attempts} publications: {self.verdicts}")
