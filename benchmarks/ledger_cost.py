"""What the ledger costs a run: its round trips to Postgres, and how long a worker waits for them.

    python -m benchmarks.ledger_cost --fires 4000

Method: jobs that are due once, and at once; a scheduler node claims and publishes their fires, and ends. One process
then takes their messages from the queue and does with each what a worker does: acquire, and complete with a result;
nothing runs in between, and nothing else uses the database. Each call is timed; the first tenth is not counted (there
statements are prepared). Every run has a job of its own, so both rows are read for the first time.

``floor_ms`` is an update of one row by its primary key, prepared, and committed: the least that a durable write takes
on this machine; it alternates with the others, and ``ratio_to_two_floors`` is what the ledger takes of two of them,
whatever else the disk has to do. ``round_trips`` are counted in libpq's own trace of the protocol.
``commit_ms``, of another half of the fires, is a transaction with one INSERT of the task's and the completion in it, as
``commit()`` makes it, in place of ``complete``. The last line is JSON.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import uuid4

import kombu
import psycopg

from benchmarks.harness import given_settings, installation, nodes, parser
from benchmarks.machine import commit_mode
from benchmarks.worker_path import HISTORY_DAYS, Queues, make_history, make_jobs, until

TENANT = "bench"
WARM_SHARE = 0.1
TRACED = 20
WORKER = "bench@bench"
RESULT = "42"


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--fires", type=int, default=4000)
    options = arguments.parse_args()
    os.environ["BENCH_TENANT"] = TENANT
    with (
        installation(options.amqp, given_settings(options.set)) as installed,
        installed.connection() as connection,
        kombu.Connection(options.amqp) as broker,
    ):
        queues = Queues(broker)
        publish(queues, connection, options)
        figures = measure(queues, options.fires)
        print(json.dumps(figures | {"commit_mode": commit_mode(installed.url)}))


def publish(queues: Queues, connection: psycopg.Connection[Any], options: Any) -> None:
    from benchmarks.worker_path_tasks import MAKE_FLOOR
    from fairness.models import Tenant

    Tenant.objects.create(slug=TENANT, history_days=HISTORY_DAYS)
    queues.declare(TENANT)
    make_history(connection)
    connection.execute(MAKE_FLOOR)
    make_jobs(TENANT, options.fires)
    with nodes(options.nodes, options.log):
        until(partial(queues.hold, TENANT, options.fires), "the fires")
    connection.execute("VACUUM ANALYZE")
    connection.execute("CHECKPOINT")


def measure(queues: Queues, fires: int) -> dict[str, Any]:
    half = Runs(queues)
    for _ in range(fires // 2 - TRACED):
        half.run(half.complete, "complete")
    trips = traced(lambda: half.acquire_and(half.complete))
    other = Runs(queues)
    for _ in range(fires // 2):
        other.run(other.commit, "commit")
    both = [sum(pair) for pair in zip(half.ms("acquire"), half.ms("complete"), strict=True)]
    return {
        "fires": fires,
        "round_trips": trips,
        "ledger_ms": spread(both),
        "ratio_to_two_floors": round(statistics.median(both) / (2 * statistics.median(half.ms("floor"))), 2),
        "acquire_ms": spread(half.ms("acquire")),
        "complete_ms": spread(half.ms("complete")),
        "commit_ms": spread(other.ms("commit")),
        "floor_ms": spread(half.ms("floor")),
    }


class Runs:
    """Runs of a task that does nothing, by a worker that does nothing else."""

    def __init__(self, queues: Queues) -> None:
        from scheduling.worker.process import worker_process

        self._queues = queues
        self._ledger = worker_process().ledger
        self._times: dict[str, list[float]] = {}

    def run(self, end: Callable[[Any], None], name: str) -> None:
        delivery = self._delivery()
        acquired = self._timed("acquire", lambda: self._ledger.acquire(delivery))
        self._timed(name, lambda: end(acquired))
        self._timed("floor", update_floor)

    def acquire_and(self, end: Callable[[Any], None]) -> None:
        end(self._ledger.acquire(self._delivery()))

    def complete(self, acquired: Any) -> None:
        self._ledger.complete(acquired, worker=WORKER, result=RESULT)

    def commit(self, acquired: Any) -> None:
        from django.db import transaction

        from project.demo.models import Effect

        with transaction.atomic(durable=True):
            Effect.objects.create(fire_id=acquired.delivery.fire_id, job_id=uuid4(), attempt=1, fence=1)
            self._ledger.complete(acquired, worker=WORKER, result="")

    def ms(self, name: str) -> list[float]:
        """What each took, but for the first ones."""
        times = self._times[name]
        return times[int(WARM_SHARE * len(times)) :]

    def _delivery(self) -> Any:
        from scheduling.worker.fired import fired

        message = self._queues.channel.basic_get(self._queues.name(TENANT), no_ack=True)
        fire = fired(message.headers["id"], message.headers, pid=os.getpid())
        assert fire is not None
        return fire.delivery

    def _timed(self, name: str, call: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        answer = call()
        self._times.setdefault(name, []).append((time.perf_counter() - began) * 1000)
        return answer


def update_floor() -> None:
    from django.db import connection

    from benchmarks.worker_path_tasks import FLOOR, FLOOR_ROWS, statements

    connection.ensure_connection()
    statements.run(connection.connection, FLOOR, {"id": random.randrange(FLOOR_ROWS)})


def traced(run: Callable[[], None]) -> float:
    """Waits for Postgres in a run, counted in this process."""
    from django.db import connection

    with tempfile.TemporaryFile() as trace:
        connection.connection.pgconn.trace(trace.fileno())
        for _ in range(TRACED):
            run()
        connection.connection.pgconn.untrace()
        trace.seek(0)
        return trace.read().count(b"ReadyForQuery") / TRACED


def spread(values: list[float]) -> dict[str, float]:
    values = sorted(values)
    return {"p50": round(statistics.median(values), 3), "p99": round(values[int(0.99 * len(values))], 3)}


if __name__ == "__main__":
    main()
