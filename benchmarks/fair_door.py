"""The workers' side of fairness: shares of flooded queues, throughput, and tasks that run long, against stock Celery.

    python -m benchmarks.fair_door
    python -m benchmarks.fair_door --quick

Method: a database and queues of the run's own; the messages are Celery's own, in the tenants' quorum queues before a
worker starts. ``fair`` is a worker with FAIRNESS=queues that follows the queues in use; ``stock`` is Celery alone, with
``-Q``: it has none of this project's steps. Both acknowledge late.

``shares``: tenants of weights 1, 3 and 6 are flooded with tasks that sleep; shares of slot-time between two and twelve
seconds after the first task began. ``throughput``: one queue of tasks that do nothing, drained by one worker; tasks a
second from the first fifth to the last tenth, fair and stock by turns, the median; ``flood``: the same of five queues
of weights 1, 2, 3, 6 and 12; ``flood_10_ms``: with tasks that sleep for 10 ms. ``ratios``: fair to stock in each
round, and ``ratio`` their median; where they lie far apart the machine was not quiet. ``cpu_us``: what the worker's
processes, and of them its main one, took of each task.
``lone``: the part of all slots that one tenant of small weight takes beside nine that are idle. ``long``: two workers,
and one queue of tasks of 0.8 and 0.2 s by turns, four for each slot: ``waited_beside_idle_s`` are the slot-seconds that
were idle while not all had begun. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import amqp
import kombu
import psutil

from benchmarks.fair_measures import Ran, slot_time
from benchmarks.harness import installation
from benchmarks.machine import hardware
from benchmarks.meters import cpu_of

WEIGHTS = {"one": 1.0, "three": 3.0, "six": 6.0}
FIVE = {f"weight-{weight}": float(weight) for weight in (1, 2, 3, 6, 12)}
FLOODS = {  # weights, task_s, messages
    "throughput": ({"lone": 1.0}, 0.0, 20_000),
    "flood": (FIVE, 0.0, 20_000),
    "flood_10_ms": (FIVE, 0.01, 5_000),
}
QUICK = 3_000  # messages
POOLS = {"prefork": ("-P", "prefork", "-c", "4"), "threads": ("-P", "threads", "-c", "4")}
SLOTS = 4
NAP_S = 0.05
LONGS_S = (0.8, 0.2)  # by turns, and so delivered by turns: to one worker the longer ones
WARM_UP_S, MEASURED_S = 2.0, 10.0
PATIENCE_S = 90.0
LANE = "bulk"


class Nap(NamedTuple):
    ran: Ran
    worker: str


class Speed(NamedTuple):
    per_s: float
    cpu_us: float  # of all processes of the worker, for each task
    main_cpu_us: float


class Bench:
    """Queues that are filled, and workers that empty them."""

    def __init__(self, options: argparse.Namespace, broker: kombu.Connection, folder: Path) -> None:
        from project.celery import queue_plan

        self.options, self._plan, self._folder = options, queue_plan(), folder
        self._channel: Any = broker.channel()
        self._runs = 0
        self.worker_pid = 0  # of the latest
        self._slugs: list[str] = []

    def tenants(self, weights: Mapping[str, float]) -> dict[str, str]:
        """New ones of these weights: slug → queue, which is in use and exists. Those before are gone."""
        from django.utils import timezone

        from fairness.models import Tenant, TenantQueue

        self.forget()
        self._runs += 1
        queues = {}
        for name, weight in weights.items():
            slug = f"{name}-{self._runs}"
            spec = self._plan.queue(slug, LANE)
            tenant, now = Tenant.objects.create(slug=slug, weight=weight), timezone.now()
            TenantQueue.objects.create(name=spec.name, tenant=tenant, lane=LANE, made_at=now, used_at=now)
            if dead := spec.dead_letters:
                self._channel.exchange_declare(dead.exchange, "direct", durable=True, auto_delete=False)
            self._channel.queue_declare(spec.name, durable=True, auto_delete=False, arguments=dict(spec.arguments))
            queues[slug] = spec.name
        self._slugs = [*queues]
        return queues

    def forget(self) -> None:
        from fairness.models import Tenant, TenantQueue

        TenantQueue.objects.all().delete()
        Tenant.objects.filter(slug__in=self._slugs).delete()
        for slug in self._slugs:
            self._channel.queue_delete(self._plan.queue(slug, LANE).name)
        self._slugs = []

    def fill(self, slug: str, queue: str, count: int, nap_s: float) -> None:
        """Before anybody consumes it."""
        self.send(slug, queue, count, nap_s)
        until(lambda: self.ready(queue) == count, f"{count} messages of {slug}")

    def send(self, slug: str, queue: str, count: int, nap_s: float) -> None:
        for _ in range(count):
            task_id = str(uuid4())
            headers = {"task": "bench.nap", "id": task_id, "fb_tenant": slug, "lang": "py"}
            message = amqp.Message(
                json.dumps([[slug, nap_s], {}, None]),
                content_type="application/json",
                content_encoding="utf-8",
                delivery_mode=2,
                application_headers=headers,
                correlation_id=task_id,
            )
            self._channel.basic_publish(message, routing_key=queue)

    def ready(self, queue: str) -> int:
        return int(self._channel.queue_declare(queue, passive=True).message_count)

    def consumers(self, queue: str) -> int:
        return int(self._channel.queue_declare(queue, passive=True).consumer_count)

    @contextmanager
    def workers(self, count: int, pool: str, queues: Iterable[str], *, is_fair: bool) -> Iterator[Path]:
        """While they run, the file in which they note what they have run."""
        file = self._folder / f"naps-{uuid4()}"
        file.touch()
        told = [] if is_fair else ["-Q", ",".join(queues)]
        with ExitStack() as stack:
            for number in range(count):
                stack.enter_context(self._worker(f"w{number}", file, [*POOLS[pool], *told], is_fair=is_fair))
            yield file

    @contextmanager
    def _worker(self, name: str, file: Path, options: Sequence[str], *, is_fair: bool) -> Iterator[None]:
        command = [sys.executable, "-m", "celery", "-A", "benchmarks.fair_door_tasks", "worker"]
        command += ["-n", f"{name}-{self._runs}@bench", "-l", "INFO" if self.options.log != os.devnull else "WARNING"]
        command += ["--without-gossip", "--without-mingle", "--without-heartbeat", *options]
        environ = os.environ | {"BENCH_NAPS": str(file), "BENCH_WORKER": name}
        environ |= {"BENCH_TENANTS": "" if is_fair else ",".join(self._slugs)}
        environ |= {"FAIRBEAT_STOP": "3", "FAIRBEAT_FAIRNESS": "queues" if is_fair else "limits"}
        with open(self.options.log, "ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environ, start_new_session=True)
            self.worker_pid = process.pid
            try:
                yield
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def has_run(file: Path) -> int:
    return file.read_bytes().count(b"\n")


def naps(file: Path) -> list[Nap]:
    lines = [line.split() for line in file.read_text().splitlines()]
    return [Nap(Ran(tenant, float(began), float(ended)), worker) for tenant, began, ended, worker in lines]


def shares(bench: Bench, pool: str, *, is_fair: bool) -> dict[str, Any]:
    """Each tenant's share of slot-time."""
    queues = bench.tenants(WEIGHTS)
    enough = int((WARM_UP_S + MEASURED_S + 4) / NAP_S * SLOTS)
    for slug, queue in queues.items():
        bench.fill(slug, queue, enough, NAP_S)
    with bench.workers(1, pool, queues.values(), is_fair=is_fair) as file:
        until(lambda: has_run(file), "the first task")
        since = naps(file)[0].ran.began + WARM_UP_S
        until(lambda: time.time() > since + MEASURED_S + 4 * NAP_S, "the last of them has ended, and has said so")
        served = slot_time([nap.ran for nap in naps(file)], since, since + MEASURED_S)
    total = sum(served.values())
    found = {slug.rpartition("-")[0]: round(served.get(slug, 0.0) / total, 3) for slug in queues}
    return found | {"busy": round(total / (SLOTS * MEASURED_S), 3)}


def throughput(
    bench: Bench, pool: str, weights: Mapping[str, float], nap_s: float, messages: int, *, is_fair: bool
) -> Speed:
    """Of queues that hold as much as is their weight's."""
    queues = bench.tenants(weights)
    counts = [round(messages * weight / sum(weights.values())) for weight in weights.values()]
    for (slug, queue), count in zip(queues.items(), counts, strict=True):
        bench.fill(slug, queue, count, nap_s)
    total = sum(counts)
    with bench.workers(1, pool, queues.values(), is_fair=is_fair) as file:
        seen = []
        for wanted in (total // 5, total - total // 10):
            until(lambda wanted=wanted: has_run(file) >= wanted, f"{wanted} tasks", every_s=0.2)
            seen.append((time.monotonic(), has_run(file), *cpu_s(bench.worker_pid)))
    (since, before, *spent), (end, after, *spent_then) = seen
    count = after - before
    cpu_us = [1e6 * (then - first) / count for first, then in zip(spent, spent_then, strict=True)]
    return Speed(count / (end - since), *cpu_us)


def cpu_s(pid: int) -> tuple[float, float]:
    """What this process and its children have used so far, and what it has itself."""
    own = psutil.Process(pid).cpu_times()
    return cpu_of(pid), own.user + own.system


def lone(bench: Bench, pool: str) -> float:
    """The part of the slots that one tenant takes while nine heavier ones are idle."""
    queues = bench.tenants({"lone": 1.0} | {f"idle{number}": 10.0 for number in range(9)})
    slug = next(iter(queues))
    bench.fill(slug, queues[slug], int((WARM_UP_S + MEASURED_S + 2) / NAP_S * SLOTS), NAP_S)
    with bench.workers(1, pool, queues.values(), is_fair=True) as file:
        until(lambda: has_run(file), "the first task")
        since = naps(file)[0].ran.began + WARM_UP_S
        until(lambda: time.time() > since + MEASURED_S + 4 * NAP_S, "the last of them has ended, and has said so")
        return sum(slot_time([nap.ran for nap in naps(file)], since, since + MEASURED_S).values()) / (
            SLOTS * MEASURED_S
        )


def long(bench: Bench, pool: str, *, is_fair: bool) -> dict[str, Any]:
    """How long a slot stood idle while a message waited, of two workers."""
    slots, count = 2 * SLOTS, 8 * SLOTS
    ((slug, queue),) = bench.tenants({"long": 1.0}).items()
    bench.fill(slug, queue, slots, LONGS_S[0])
    with bench.workers(2, pool, [queue], is_fair=is_fair) as file:
        until(lambda: has_run(file) == slots and bench.consumers(queue) == (0 if is_fair else 2), "both workers")
        for number in range(count):
            bench.send(slug, queue, 1, LONGS_S[number % len(LONGS_S)])
        until(lambda: has_run(file) == slots + count, "all tasks")
        ran = naps(file)[slots:]
    begun = {worker: min(nap.ran.began for nap in ran if nap.worker == worker) for worker in ("w0", "w1")}
    since, until_last = max(begun.values()), max(nap.ran.began for nap in ran)
    busy_s = sum(slot_time([nap.ran for nap in ran], since, until_last).values())
    return {
        "waited_beside_idle_s": round(slots * (until_last - since) - busy_s, 3),
        "took_s": round(max(nap.ran.ended for nap in ran) - min(nap.ran.began for nap in ran), 2),
        "ideal_s": count * statistics.mean(LONGS_S) / slots,
    }


def until(condition: Callable[[], Any], what: str, *, every_s: float = 0.1) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not there after {PATIENCE_S:g} s; see --log")
        time.sleep(every_s)


def compare(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    figures: dict[str, Any] = {"ideal": {name: weight / sum(WEIGHTS.values()) for name, weight in WEIGHTS.items()}}
    for pool in options.pool:
        found: dict[str, Any] = {}
        if "shares" in options.only:
            found["shares"] = {"fair": shares(bench, pool, is_fair=True), "stock": shares(bench, pool, is_fair=False)}
        found |= {part: _by_turns(bench, pool, *FLOODS[part]) for part in FLOODS if part in options.only}
        if "lone" in options.only:
            found["lone"] = round(lone(bench, pool), 3)
        if "long" in options.only:
            found["long"] = {"fair": long(bench, pool, is_fair=True), "stock": long(bench, pool, is_fair=False)}
        print(f"{pool}: {json.dumps(found)}", file=sys.stderr)
        figures[pool] = found
    return figures | {"hardware": hardware()}


def _by_turns(bench: Bench, pool: str, weights: Mapping[str, float], nap_s: float, messages: int) -> dict[str, Any]:
    messages = bench.options.messages or messages
    speeds: dict[str, list[Speed]] = {"fair": [], "stock": []}
    for number in range(bench.options.rounds):
        for name in ("fair", "stock") if number % 2 else ("stock", "fair"):
            speeds[name].append(throughput(bench, pool, weights, nap_s, messages, is_fair=name == "fair"))
    medians = {name: Speed(*map(statistics.median, zip(*each, strict=True))) for name, each in speeds.items()}
    found: dict[str, Any] = {
        field: {name: round(getattr(speed, field)) for name, speed in medians.items()} for field in Speed._fields
    }
    ratios = sorted(fair.per_s / stock.per_s for fair, stock in zip(speeds["fair"], speeds["stock"], strict=True))
    return found | {"ratio": round(statistics.median(ratios), 3), "ratios": [round(ratio, 2) for ratio in ratios]}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--pool", choices=[*POOLS], action="append", help="only this one")
    parts = ["shares", *FLOODS, "lone", "long"]
    arguments.add_argument("--only", choices=parts, action="append", help="only this part")
    arguments.add_argument("--rounds", type=int, help="of throughput (5; quick: 1)")
    arguments.add_argument("--messages", type=int, help="of throughput (20,000, of 10 ms 5,000; quick: 3,000)")
    arguments.add_argument("--quick", action="store_true", help="prefork only")
    arguments.add_argument("--amqp", default=os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//"))
    arguments.add_argument("--log", default=os.devnull)
    options = arguments.parse_args()
    options.pool = options.pool or (["prefork"] if options.quick else [*POOLS])
    options.only = options.only or parts
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.messages = options.messages or (QUICK if options.quick else 0)
    os.environ["FAIRBEAT_FAIRNESS"] = "fair"
    with (
        installation(options.amqp),
        kombu.Connection(options.amqp) as broker,
        tempfile.TemporaryDirectory() as folder,
    ):
        bench = Bench(options, broker, Path(folder))
        try:
            print(json.dumps(compare(bench, options)))
        finally:
            bench.forget()


if __name__ == "__main__":
    main()
