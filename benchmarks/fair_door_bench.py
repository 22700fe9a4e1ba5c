"""Queues that are filled and workers that empty them, for ``benchmarks.fair_door``."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import amqp
import kombu
import psutil

from benchmarks.fair_measures import Ran
from benchmarks.meters import cpu_of

SLOTS = 4
POOLS = {"prefork": ("-P", "prefork", "-c", str(SLOTS)), "threads": ("-P", "threads", "-c", str(SLOTS))}
LANE = "bulk"
PATIENCE_S = 90.0


class Nap(NamedTuple):
    ran: Ran
    worker: str


class Running(NamedTuple):
    """Workers, and the file in which they note what they have run."""

    notes: Path
    processes: Sequence[subprocess.Popen[bytes]]

    @property
    def count(self) -> int:
        return self.notes.read_bytes().count(b"\n")

    def naps(self) -> list[Nap]:
        lines = [line.split() for line in self.notes.read_text().splitlines()]
        return [Nap(Ran(tenant, float(began), float(ended)), worker) for tenant, began, ended, worker in lines]

    def cpu_s(self) -> tuple[float, float]:
        """What all processes of the first worker have used so far, and what its main one has."""
        own = psutil.Process(self.processes[0].pid).cpu_times()
        return cpu_of(self.processes[0].pid), own.user + own.system

    def stand_still(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for process in self.processes:
            os.killpg(process.pid, number)


class Bench:
    def __init__(self, options: argparse.Namespace, broker: kombu.Connection, folder: Path) -> None:
        from project.celery import queue_plan

        self._log, self._plan, self._folder = options.log, queue_plan(), folder
        self._channel: Any = broker.channel()
        self._runs = 0

    @contextmanager
    def tenants(self, weights: Mapping[str, float], *, are_in_use: bool = True) -> Iterator[dict[str, str]]:
        """New ones of these weights, for so long: slug → queue, which exists. In use: workers that follow, find it."""
        from django.utils import timezone

        from fairness.models import Tenant, TenantQueue

        self._runs += 1
        queues = {}
        for name, weight in weights.items():
            slug = f"{name}-{self._runs}"
            spec = self._plan.queue(slug, LANE)
            if are_in_use:
                tenant, now = Tenant.objects.create(slug=slug, weight=weight), timezone.now()
                TenantQueue.objects.create(name=spec.name, tenant=tenant, lane=LANE, made_at=now, used_at=now)
            if dead := spec.dead_letters:
                self._channel.exchange_declare(dead.exchange, "direct", durable=True, auto_delete=False)
            self._channel.queue_declare(spec.name, durable=True, auto_delete=False, arguments=dict(spec.arguments))
            queues[slug] = spec.name
        try:
            yield queues
        finally:
            TenantQueue.objects.filter(name__in=queues.values()).delete()
            Tenant.objects.filter(slug__in=queues).delete()
            for queue in queues.values():
                self._channel.queue_delete(queue)

    def fill(self, slug: str, queue: str, count: int, nap_s: float) -> None:
        """Before anybody consumes it."""
        self.send(slug, queue, count, nap_s)
        until(lambda: self._declared(queue).message_count == count, f"{count} messages of {slug}")

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

    def consumers(self, queue: str) -> int:
        return int(self._declared(queue).consumer_count)

    def _declared(self, queue: str) -> Any:
        return self._channel.queue_declare(queue, passive=True)

    @contextmanager
    def workers(self, count: int, pool: str, queues: Mapping[str, str], *, is_fair: bool) -> Iterator[Running]:
        """Of these tenants' queues, while it lasts."""
        notes = self._folder / f"naps-{uuid4()}"
        notes.touch()
        with ExitStack() as stack:
            processes = [
                stack.enter_context(self._worker(f"w{number}", notes, pool, queues, is_fair=is_fair))
                for number in range(count)
            ]
            yield Running(notes, processes)

    @contextmanager
    def _worker(
        self, name: str, notes: Path, pool: str, queues: Mapping[str, str], *, is_fair: bool
    ) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "celery", "-A", "benchmarks.fair_door_tasks", "worker", *POOLS[pool]]
        command += ["-n", f"{name}-{uuid4().hex}@bench", "-l", "INFO" if self._log != os.devnull else "WARNING"]
        command += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        environ = os.environ | {"BENCH_NAPS": str(notes), "BENCH_WORKER": name, "FAIRBEAT_STOP": "3"}
        if is_fair:
            environ |= {"FAIRBEAT_FAIRNESS": "queues", "BENCH_TENANTS": ""}
        else:
            environ |= {"FAIRBEAT_FAIRNESS": "limits", "BENCH_TENANTS": ",".join(queues)}
            command += ["-Q", ",".join(queues.values())]
        with open(self._log, "ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environ, start_new_session=True)
            try:
                yield process
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not there after {PATIENCE_S:g} s; see --log")
        time.sleep(0.1)
