"""How fast fires become confirmed messages in RabbitMQ's quorum queues, and what that costs the publishing process.

    .venv/bin/python benchmarks/publisher.py [--messages 50000] [--queues 4] [--url amqp://guest:guest@127.0.0.1:5672//]

Publishes fires without waiting for workers, into queues of its own that it deletes afterwards, and prints one line of
JSON: confirmed messages a second, CPU of this process per message, and how long single messages take at a light load.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import kombu

from fairness.queues import QueuePlan, QueueSpec
from scheduling.broker.rabbitmq import RabbitMQPublisher
from scheduling.core.fire import Fire, Lane, Outcome, Work
from scheduling.core.identity import fire_id, uuid7

START = datetime(2026, 3, 8, 7, tzinfo=UTC)


class Tally:
    """Counts outcomes; ``wait`` returns when as many as expected are in."""

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self._changed = threading.Condition()

    def report(self, outcomes: Sequence[Outcome]) -> None:
        with self._changed:
            self.verdicts.update(outcome.verdict.value for outcome in outcomes)
            self._changed.notify_all()

    def wait(self, total: int, timeout_s: float) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self.verdicts.total() >= total, timeout_s):
                raise TimeoutError(f"{self.verdicts.total()} of {total} outcomes after {timeout_s} s")


def works(tenants: int) -> list[Work]:
    return [
        Work(uuid7(), 0, n, f"tenant-{n}", 30, f"job of {n}", "app.tasks.send", Lane.BULK, '[1, "two"]', '{"three": 3}')
        for n in range(tenants)
    ]


def fires(of: list[Work], count: int) -> list[Fire]:
    moments = [START + timedelta(milliseconds=n) for n in range(count)]
    return [
        Fire(work := of[n % len(of)], fire_id(work.job_id, moment), moment, moment, "", 1, 0, 1, n)
        for n, moment in enumerate(moments)
    ]


def latencies_ms(publisher: RabbitMQPublisher, tally: Tally, singles: list[Fire]) -> list[float]:
    taken = []
    for one in singles:
        before, begun = tally.verdicts.total(), time.perf_counter()
        publisher.publish([one])
        tally.wait(before + 1, 10)
        taken.append((time.perf_counter() - begun) * 1000)
    return sorted(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="amqp://guest:guest@127.0.0.1:5672//")
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--queues", type=int, default=4)
    options = parser.parse_args()
    plan = QueuePlan(prefix=f"bench-{uuid4().hex[:8]}", max_length=10_000_000)
    specs: dict[str, QueueSpec] = {}

    def queue_for(fire: Fire) -> QueueSpec:
        spec = specs.get(fire.work.tenant)
        if spec is None:
            spec = specs[fire.work.tenant] = plan.queue(fire.work.tenant, fire.work.lane)
        return spec

    tally = Tally()
    publisher = RabbitMQPublisher(options.url, origin="gen1@bench", ignore_result=lambda _: None, queue_for=queue_for)
    publisher.start(tally.report)
    try:
        tenants = works(options.queues)
        publisher.publish(fires(tenants, options.queues))  # declares the queues
        tally.wait(options.queues, 30)
        single = latencies_ms(publisher, tally, fires(tenants, 300))
        batch = fires(tenants, options.messages)
        done = tally.verdicts.total() + len(batch)
        cpu, begun = time.process_time(), time.perf_counter()
        for at in range(0, len(batch), 1000):
            publisher.publish(batch[at : at + 1000])
        tally.wait(done, 120)
        wall_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu
    finally:
        publisher.stop(timeout_s=5)
        with kombu.Connection(options.url) as connection:
            channel: Any = connection.channel()
            for spec in specs.values():
                channel.queue_delete(spec.name)
            channel.queue_delete(plan.dead_letters("bulk").queue)
            channel.exchange_delete(plan.dead_letters("bulk").exchange)
    print(
        json.dumps(
            {
                "confirmed_per_s": round(len(batch) / wall_s),
                "client_cpu_us": round(cpu_s / len(batch) * 1e6, 1),
                "single_ms": {"p50": round(single[150], 2), "p99": round(single[297], 2)},
                "verdicts": dict(tally.verdicts),
            }
        )
    )


if __name__ == "__main__":
    main()
