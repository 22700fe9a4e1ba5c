"""The processes under fault: scheduler nodes and workers, each on a host of its own, with its own way to each service.

A host is a place: it keeps its proxies and its wall clock while the processes on it come and go. Each process on it
has an id that no other has, so that what a dead one owned is not taken for what its successor owns.
"""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import psutil

from project.environment import process
from project.environment.process import Server
from tests.chaos.services import Services
from tests.processes import ROOT
from tests.proxy import Proxy

GUARD = ROOT / "project" / "demo" / "child.py"  # ends what it becomes when this process ends, however that ends
WRONG_CLOCK = Path(__file__).parent / "clock"
STOP_S = 10.0
CONCURRENCY = 4


class Host:
    """Where one process runs at a time. ``folder`` is for its logs and its clock."""

    def __init__(self, name: str, folder: Path, services: Services, environ: Mapping[str, str]) -> None:
        self.name, self._folder = name, folder
        self.postgres = Proxy(services.postgres.socket)
        self.rabbitmq = Proxy(("127.0.0.1", services.rabbitmq.port))
        self.etcd = [Proxy(("127.0.0.1", member.port)) for member in services.etcd.members]
        self._clock = folder / f"{name}.clock"
        self.set_clock(0.0)
        members = zip(self.etcd, services.etcd.members, strict=True)
        self._environ = {
            **environ,
            "DATABASE_URL": self.postgres.through(services.postgres.url),
            "AMQP_URL": self.rabbitmq.through(services.rabbitmq.url),
            "ETCD_URL": ",".join(proxy.through(member.url) for proxy, member in members),
            "REDIS_URL": services.redis.url,
        }
        self._started = 0
        self._server: Server | None = None
        self.is_wanted = False
        self.is_frozen = False

    @property
    def id(self) -> str:
        """Of the process that runs here, or did last."""
        return f"{self.name}.{self._started}"

    @property
    def proxies(self) -> tuple[Proxy, ...]:
        return (self.postgres, self.rabbitmq, *self.etcd)

    @property
    def is_running(self) -> bool:
        return self._server is not None and self._server.process.poll() is None

    def start(self, **environ: str) -> None:
        """Start its process, with these variables besides; it was stopped."""
        self._started += 1
        self.is_wanted, self.is_frozen = True, False
        command = [sys.executable, str(GUARD), str(os.getpid()), sys.executable, *self._arguments()]
        log = self._folder / f"{self.id}.log"
        self._server = process.start(self.id, command, log=log, environ=self._environ | self._variables() | environ)

    def tell(self, **environ: str) -> None:
        """What is started here from now on has these variables."""
        self._environ |= environ

    def kill(self) -> None:
        """SIGKILL for it and its children, at once."""
        self.is_wanted = False
        self._signal_all(signal.SIGKILL)
        if self._server is not None:
            self._server.process.wait()
            self._server = None  # its number may be another's from now on

    def freeze(self) -> None:
        self._signal_all(signal.SIGSTOP)
        self.is_frozen = True

    def wake(self) -> None:
        self._signal_all(signal.SIGCONT)
        self.is_frozen = False

    def terminate(self) -> None:
        """SIGTERM for it alone: it drains."""
        self.is_wanted = False
        if self._server is not None:
            self._server.process.terminate()

    def stop(self) -> None:
        """Let it drain, and kill it where that takes too long."""
        self.terminate()
        if self._server is not None:
            with suppress(subprocess.TimeoutExpired):
                self._server.process.wait(STOP_S)
        self.kill()

    def set_clock(self, wrong_by_s: float) -> None:
        """Its processes' wall clock is wrong by so much, from now on."""
        with self._clock.open("r+b" if self._clock.exists() else "wb") as file:
            file.write(struct.pack("d", wrong_by_s))

    def mend(self) -> None:
        """The network is whole again, and so is the clock."""
        for one in self.proxies:
            one.accept_again()
            one.lose_replies(None)
            one.release()
        self.set_clock(0.0)

    def close(self) -> None:
        self.kill()
        for proxy in self.proxies:
            proxy.close()

    def _signal_all(self, number: signal.Signals) -> None:
        if self._server is not None:
            with suppress(ProcessLookupError):  # it and all that it started are gone
                os.killpg(self._server.process.pid, number)

    def _arguments(self) -> list[str]:
        raise NotImplementedError

    def _variables(self) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


class NodeHost(Host):
    def _arguments(self) -> list[str]:
        return [str(ROOT / "manage.py"), "scheduler", "--node-id", self.id]

    def _variables(self) -> dict[str, str]:
        return {
            **super()._variables(),
            "PYTHONPATH": f"{WRONG_CLOCK}{os.pathsep}{ROOT}",
            "FAIRBEAT_CHAOS_CLOCK": str(self._clock),
        }


class WorkerHost(Host):
    def kill_child(self, rng: Random) -> None:
        """SIGKILL for one of the processes in which it runs tasks, as the kernel does where memory runs out."""
        if self._server is not None:
            with suppress(psutil.NoSuchProcess):
                if children := psutil.Process(self._server.process.pid).children(recursive=True):
                    rng.choice(children).kill()

    def _arguments(self) -> list[str]:
        return [
            "-m", "celery", "-A", "project", "worker", "--hostname", f"{self.id}@%h",
            "--concurrency", str(CONCURRENCY), "--loglevel", "INFO",
            "--without-gossip", "--without-mingle", "--without-heartbeat",
        ]  # fmt: skip


class Fleet:
    """``spare`` is a host for a node that comes and goes; the others run all the time, but for faults."""

    def __init__(self, nodes: list[NodeHost], spare: NodeHost, workers: list[WorkerHost]) -> None:
        self.nodes, self.spare, self.workers = nodes, spare, workers
        self.restarts: list[str] = []  # ids of those that ended of themselves

    @property
    def hosts(self) -> tuple[Host, ...]:
        return (*self.nodes, self.spare, *self.workers)

    def living(self) -> set[str]:
        """The ids of the nodes that run now."""
        return {host.id for host in (*self.nodes, self.spare) if host.is_running and not host.is_frozen}

    def revive(self) -> None:
        """What a supervisor does: start anew what has ended and should run."""
        for host in self.hosts:
            if host.is_wanted and not host.is_running:
                self.restarts.append(host.id)
                host.start()

    def restore(self) -> None:
        """All hosts as they should be: whatever a fault left behind, when it was cut short, is undone."""
        for host in self.hosts:
            host.mend()
            if host.is_frozen:
                host.wake()
        self.spare.stop()
        for host in (*self.nodes, *self.workers):
            if not host.is_running:
                host.start()


@contextmanager
def fleet(
    folder: Path, services: Services, environ: Mapping[str, str], *, nodes: int = 3, workers: int = 2
) -> Iterator[Fleet]:
    """Hosts whose processes are ended with the block; none of them runs yet. ``folder`` is emptied."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    made = Fleet(
        [NodeHost(f"node-{number}", folder, services, environ) for number in range(1, nodes + 1)],
        NodeHost("spare", folder, services, environ),
        [WorkerHost(f"worker-{number}", folder, services, environ) for number in range(1, workers + 1)],
    )
    try:
        yield made
    finally:
        _end(made.hosts)


def _end(hosts: Iterable[Host]) -> None:
    """In good order where that goes fast, in any case for good."""
    for host in hosts:
        host.mend()
        host.wake()
        host.terminate()
    for host in hosts:
        host.stop()
        host.close()
