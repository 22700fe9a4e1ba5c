"""What the services can do under a fire path that costs nothing: the ceilings that ours is measured against.

    python -m benchmarks.ceilings publisher --seconds 10
    python -m benchmarks.ceilings postgres --seconds 10

``publisher``: a bare confirmed publisher, our own (persistent messages, ``mandatory``, batches, a window of confirms),
into as many quorum queues of the same shape as the fire path has, which are purged every second as there. Nothing is
claimed and nothing is recorded. ``postgres``: the store that ``SCHEDULING`` selects, through its port: due, plan,
claim, record, one batch after the other, of jobs that are due once a second; job time is moved on as soon as a second
is done. Nothing is published. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections import Counter
from datetime import timedelta
from itertools import cycle
from typing import Any

import kombu

from benchmarks.fire_path import settings_in_force
from benchmarks.harness import create_jobs, create_tenants, given_settings, installation, parser, selected_store
from benchmarks.machine import commit_mode
from benchmarks.meters import READ, cpu_of, listener, postmaster
from scheduling.core.effects import ReadDue

BATCH = 1000
AHEAD = 4 * BATCH  # handed to the publisher and not yet confirmed
WARM_UP_S = 1.0
ANSWER_S = 30.0
RECORD_S = 0.05  # a node writes its watermarks no oftener


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("which", choices=("publisher", "postgres"))
    arguments.add_argument("--seconds", type=float, default=10.0)
    arguments.add_argument("--jobs", type=int, default=10_000, help="postgres: due once a second each")
    arguments.add_argument("--batch", type=int, default=BATCH, help="postgres: jobs in one claim")
    options = arguments.parse_args()
    figures = publisher(options) if options.which == "publisher" else postgres(options)
    print(json.dumps(figures | {"seconds": options.seconds}))


# -- RabbitMQ -------------------------------------------------------------------------------------------------------


def publisher(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.publisher import Tally, fires, works
    from fairness.queues import QueuePlan
    from scheduling.broker.rabbitmq import RabbitMQPublisher
    from scheduling.core.fire import Fire

    plan = QueuePlan(prefix=f"bench{os.getpid()}")
    of = works(options.tenants)
    tally, batches = Tally(), fires(of, 20 * BATCH)
    names = [plan.queue(work.tenant, work.lane).name for work in of]

    def queue_for(fire: Fire) -> Any:
        return plan.queue(fire.work.tenant, fire.work.lane)

    ours = RabbitMQPublisher(options.amqp, origin="gen1@bench", ignore_result=lambda _: None, queue_for=queue_for)
    ours.start(tally.report)
    purger = multiprocessing.get_context("spawn").Process(target=purge_on, args=(options.amqp, names), daemon=True)
    try:
        handed = len(of)
        ours.publish(batches[:handed])  # declares the queues
        tally.wait(handed, ANSWER_S)
        purger.start()
        parts = cycle([batches[at : at + BATCH] for at in range(0, len(batches), BATCH)])
        broker = listener(options.amqp)

        def publish_for(seconds: float) -> None:
            nonlocal handed
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                ours.publish(next(parts))
                handed += BATCH
                tally.wait(handed - AHEAD, ANSWER_S)

        publish_for(WARM_UP_S)
        before, cpu, broker_cpu, began = (
            tally.verdicts["confirmed"],
            time.process_time(),
            _cpu(broker),
            time.monotonic(),
        )
        publish_for(options.seconds)
        confirmed, elapsed_s = tally.verdicts["confirmed"] - before, time.monotonic() - began
        cpu_us = {"publisher": (time.process_time() - cpu) / confirmed * 1e6}
        if broker is not None:
            cpu_us["rabbitmq"] = (_cpu(broker) - broker_cpu) / confirmed * 1e6
    finally:
        purger.terminate()
        ours.stop(timeout_s=5)
        _delete(options.amqp, [*names, plan.dead_letters("bulk").queue], exchange=plan.dead_letters("bulk").exchange)
    return {
        "confirmed_per_s": round(confirmed / elapsed_s),
        "cpu_us_per_message": {name: round(spent, 1) for name, spent in cpu_us.items()},
        "queues": options.tenants,
        "verdicts": dict(Counter(tally.verdicts)),
    }


def purge_on(amqp: str, names: list[str]) -> None:
    """In a process of its own, until it is ended."""
    with kombu.Connection(amqp) as broker:
        channel: Any = broker.channel()
        while True:
            time.sleep(1)
            for name in names:
                channel.queue_purge(name)


def _delete(amqp: str, names: list[str], *, exchange: str) -> None:
    with kombu.Connection(amqp) as broker:
        channel: Any = broker.channel()
        for name in names:
            channel.queue_delete(name)
        channel.exchange_delete(exchange)


def _cpu(pid: int | None) -> float:
    return 0.0 if pid is None else cpu_of(pid)


# -- Postgres -------------------------------------------------------------------------------------------------------


def postgres(options: argparse.Namespace) -> dict[str, Any]:
    with installation(options.amqp, given_settings(options.set)) as installed:
        create_jobs(options.jobs, create_tenants(options.tenants))
        with selected_store("bench-ceiling") as store, installed.connection() as connection:
            claims = Claims(store, batch=options.batch)
            claims.go_on(WARM_UP_S)
            server = postmaster(connection)
            wal = _wal(connection)
            before, cpu, server_cpu, began = claims.fires, time.process_time(), _cpu(server), time.monotonic()
            claims.go_on(options.seconds)
            fires, elapsed_s = claims.fires - before, time.monotonic() - began
            cpu_us = {"client": (time.process_time() - cpu) / fires * 1e6}
            if server is not None:
                cpu_us["postgres"] = (_cpu(server) - server_cpu) / fires * 1e6
            return {
                "claimed_per_s": round(fires / elapsed_s),
                "cpu_us_per_fire": {name: round(spent, 1) for name, spent in cpu_us.items()},
                "wal_bytes_per_fire": round((_wal(connection) - wal) / fires),
                "jobs": options.jobs,
                "batch": options.batch,
                "settings": settings_in_force(),
                "commit_mode": commit_mode(installed.url),
            }


def _wal(connection: Any) -> int:
    return int(connection.execute(READ).fetchone()[1])


class Claims:
    """Claims one second of jobs after the other, as fast as the store takes them."""

    def __init__(self, store: Any, *, batch: int) -> None:
        from django.conf import settings

        from scheduling.conf import scheduling_settings
        from scheduling.models import JobClock
        from scheduling.testing.clock import ManualClock

        self.fires = 0
        self._store, self._batch = store, batch
        self._shards = frozenset(range(scheduling_settings(settings).SHARDS))
        self._epochs, _ = store.take_over(self._shards, "bench-ceiling")
        self._seqs: Counter[int] = Counter()
        self._until = JobClock.objects.now()
        self._clock = ManualClock(self._until)
        self._recorded_at = 0.0

    def go_on(self, seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            self._claim_a_batch()
        self._record()

    def _claim_a_batch(self) -> None:
        from scheduling.core.planning import plan_jobs

        jobs = self._store.due(ReadDue(self._shards, self._until, self._batch)).jobs
        if jobs:
            plans = plan_jobs(jobs, until=self._until, clock=self._clock, number=self._number, room=len(jobs))
            epochs = {job.work.shard: self._epochs[job.work.shard] for job in jobs}
            self.fires += len(self._store.claim(epochs, plans))
        if len(jobs) < self._batch // 2:
            self._until += timedelta(seconds=1)
            self._clock.advance(1)
        if time.monotonic() - self._recorded_at > RECORD_S:
            self._record()

    def _number(self, shard: int) -> tuple[int, int]:
        self._seqs[shard] += 1
        return self._epochs[shard], self._seqs[shard]

    def _record(self) -> None:
        self._store.record({shard: self._epochs[shard] for shard in self._seqs}, dict(self._seqs))
        self._recorded_at = time.monotonic()


if __name__ == "__main__":
    main()
