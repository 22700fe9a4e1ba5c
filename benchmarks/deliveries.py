"""Every message three times, in random order, to workers that are killed all the while: what runs, and how often.

    python -m benchmarks.deliveries
    python -m benchmarks.deliveries --messages 1000 --workers 2 --concurrency 2

Method: jobs that are due once, and at once; a scheduler node claims and publishes them. Their messages are taken out of
the queues and put back three times each, all copies in one random order. Then four Celery workers (prefork, one process
each) consume them, of which one, taken at random, is killed (SIGKILL for the worker and its processes) every two
seconds, and started again at once. The node stays: it ends leases that have run out, and sends those fires again. The
task works for ``--work-ms`` and writes one row through ``commit()``.

- ``rows``, ``doubled``, ``missing``: rows that the tasks wrote, those beyond one a fire, fires without one
- ``overlapping_holders``: a log outside the ledger has when each run asked for its lease, began, and ended; a run that
  began within the lease of another one of its fire, which had not ended and whose process was not gone
- ``runs``: runs that began, those included that were killed; ``deliveries``: copies; the rest of them was refused

The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import amqp
import kombu
import psycopg

from benchmarks.harness import create_tenants, given_settings, installation, nodes, parser
from benchmarks.machine import commit_mode
from benchmarks.workers import Worker, workers
from tests.chaos import runlog
from tests.chaos.judge import two_at_once
from tests.chaos.runlog import Run

TASKS = "tests.chaos.tasks"
TASK = f"{TASKS}.effect"
LEASE_S = 5.0  # of a fire: the runs of a killed worker are back after so long
PATIENCE_S = 600.0
LOOK_S = 0.25
SHOWN = 10


def main() -> None:
    arguments = parser(__doc__)
    arguments.set_defaults(tenants=4)
    arguments.add_argument("--messages", type=int, default=10_000)
    arguments.add_argument("--copies", type=int, default=3)
    arguments.add_argument("--workers", type=int, default=4)
    arguments.add_argument("--concurrency", type=int, default=1, help="processes of each worker")
    arguments.add_argument("--kill-every", type=float, default=2.0, help="seconds")
    arguments.add_argument("--work-ms", type=float, default=20.0)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    settings = {"FIRE_LEASE_S": LEASE_S, "FIRE_GRACE_S": 2.0} | given_settings(options.set)
    with (
        installation(options.amqp, settings) as installed,
        installed.connection() as connection,
        tempfile.TemporaryDirectory() as folder,
        nodes(options.nodes, options.log),
    ):
        log = Path(folder) / "runs.log"
        log.touch()
        rng = random.Random(options.seed)
        prepare(options, rng)
        figures = deliver(options, rng, connection, str(log))
        figures |= judge(connection, log, settings["FIRE_LEASE_S"])
        print(json.dumps(figures | {"seed": options.seed, "commit_mode": commit_mode(installed.url)}))


def prepare(options: argparse.Namespace, rng: random.Random) -> None:
    """All messages are published, taken out, and put back as many times as is asked."""
    tenants = create_tenants(options.tenants)
    create_jobs(options, tenants)
    with Copies(options.amqp, [tenant.slug for tenant in tenants]) as copies:
        taken = copies.take(options.messages)
        shuffled = taken * options.copies
        rng.shuffle(shuffled)
        for queue, message in shuffled:
            copies.put(queue, message)


def create_jobs(options: argparse.Namespace, tenants: list[Any]) -> None:
    from scheduling.core.definition import JobDefinition
    from scheduling.models import Job, JobClock

    now, work = JobClock.objects.now(), {"work_s": options.work_ms / 1000}
    for number, tenant in enumerate(tenants):
        count = len(range(number, options.messages, len(tenants)))
        Job.objects.copy([JobDefinition.once_job(TASK, now, kwargs=work) for _ in range(count)], tenant=tenant)


class Copies:
    """Takes messages out of the tenants' queues, and puts copies of them back."""

    def __init__(self, url: str, slugs: list[str]) -> None:
        from project.celery import queue_plan
        from scheduling.core.fire import Lane

        self._queues = [queue_plan().queue_name(slug, Lane.BULK) for slug in slugs]
        self._broker = kombu.Connection(url)
        self._channel: Any = self._broker.channel()

    def __enter__(self) -> Copies:
        return self

    def __exit__(self, *_: object) -> None:
        self._broker.release()

    def take(self, count: int) -> list[tuple[str, Any]]:
        """Exactly so many, each with its queue."""
        taken: list[tuple[str, Any]] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(taken) < count:
            if time.monotonic() > deadline:
                raise SystemExit(f"only {len(taken)} of {count} messages were published; see --log")
            before = len(taken)
            for queue in self._queues:
                while (message := self._get(queue)) is not None:
                    taken.append((queue, message))
            if len(taken) == before:
                time.sleep(LOOK_S)
        return taken

    def put(self, queue: str, message: Any) -> None:
        copy = amqp.Message(message.body, **(dict(message.properties) | {"delivery_mode": 2}))
        self._channel.basic_publish(copy, routing_key=queue)

    def left(self) -> int:
        """Messages that wait; not those that a worker has."""
        return sum(self._channel.queue_declare(queue, passive=True).message_count for queue in self._queues)

    def _get(self, queue: str) -> Any:
        try:
            return self._channel.basic_get(queue, no_ack=True)
        except self._broker.channel_errors:  # nothing was published there yet; py-amqp opens the channel again
            return None


def deliver(
    options: argparse.Namespace, rng: random.Random, connection: psycopg.Connection[Any], log: str
) -> dict[str, Any]:
    """Until all fires have succeeded, and nothing waits any more."""
    slugs = [f"bench-{number}" for number in range(options.tenants)]
    with (
        Copies(options.amqp, slugs) as copies,
        workers(
            options.workers,
            concurrency=options.concurrency,
            include=TASKS,
            log=options.log,
            **{runlog.VARIABLE: log},
        ) as fleet,
    ):
        began = time.monotonic()
        kills = killed_until(lambda: succeeded(connection) >= options.messages, fleet, rng, options.kill_every)
        all_ran_s = time.monotonic() - began
        kills += killed_until(lambda: copies.left() == 0, fleet, rng, options.kill_every)
        seconds = time.monotonic() - began
    return {
        "messages": options.messages,
        "deliveries": options.messages * options.copies,
        "workers": options.workers,
        "concurrency": options.concurrency,
        "kills": kills,
        "seconds": round(seconds, 1),
        "runs_per_s": round(options.messages / all_ran_s, 1),
    }


def killed_until(is_over: Any, fleet: list[Worker], rng: random.Random, every_s: float) -> int:
    """One after the other is killed, and started again; how many were."""
    kills, deadline = 0, time.monotonic() + PATIENCE_S
    kill_at = time.monotonic() + every_s
    while not is_over():
        if time.monotonic() > deadline:
            print(f"not over after {PATIENCE_S:g} s", file=sys.stderr)
            break
        if time.monotonic() >= kill_at:
            worker = rng.choice(fleet)
            worker.kill()
            worker.start()
            kills += 1
            kill_at += every_s
        time.sleep(max(0.0, min(LOOK_S, kill_at - time.monotonic())))
    return kills


def succeeded(connection: psycopg.Connection[Any]) -> int:
    (count,) = connection.execute("SELECT count(*) FROM scheduling_fire WHERE state = 'succeeded'").fetchone() or (0,)
    return int(count)


def judge(connection: psycopg.Connection[Any], log: Path, lease_s: float) -> dict[str, Any]:
    effects = [fire for (fire,) in connection.execute("SELECT fire_id FROM demo_effect")]
    fires = {fire for (fire,) in connection.execute("SELECT id FROM scheduling_fire")}
    runs = runlog.read(log.read_text().splitlines())
    for _, text in list(two_at_once(runs, lease_s))[:SHOWN]:
        print(text, file=sys.stderr)
    return account(effects, fires, runs, lease_s)


def account(effects: Sequence[UUID], fires: Collection[UUID], runs: Sequence[Run], lease_s: float) -> dict[str, Any]:
    """``effects``: the fire of each row that a task wrote; ``fires``: all that there are."""
    return {
        "rows": len(effects),
        "doubled": len(effects) - len(set(effects)),
        "missing": len(set(fires) - set(effects)),
        "overlapping_holders": sum(1 for _ in two_at_once(runs, lease_s)),
        "runs": len(runs),
        "lease_s": lease_s,
    }


if __name__ == "__main__":
    main()
