"""How many messages arrive in a quorum queue: counted by the broker, as the queue is purged once a second."""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import kombu

from benchmarks.harness import AMQP

UP_WITHIN_S = 60.0
WARM_UP_S = 1.0


def parser(doc: str | None, *, jobs: int) -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    arguments.add_argument("--jobs", type=int, default=jobs, help="each due once a second")
    arguments.add_argument("--seconds", type=float, default=10.0, help="measured, after a warm-up")
    arguments.add_argument("--confirms", action="store_true", help="wait for the broker's confirm of each message")
    arguments.add_argument("--amqp", default=os.environ.get("AMQP_URL") or AMQP)
    return arguments


class Arrivals:
    """The peer's one queue, in which nobody consumes."""

    def __init__(self, amqp: str) -> None:
        self.name = f"bench{os.getpid()}.peer"
        self._connection = kombu.Connection(amqp)
        self._channel: Any = None

    def __enter__(self) -> Arrivals:
        self._channel = self._connection.channel()
        self._channel.queue_declare(self.name, durable=True, auto_delete=False, arguments={"x-queue-type": "quorum"})
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.queue_delete(self.name)
        self._channel.exchange_delete(self.name)  # Celery makes one of that name
        self._connection.release()

    def per_second(self, seconds: float, *, of: subprocess.Popen[bytes]) -> float:
        """Messages a second over ``seconds``, once the first has come. Raises PeerFailed if none does."""
        self._await_first(of)
        self._purged_until(time.monotonic() + WARM_UP_S)
        began = time.monotonic()
        arrived = self._purged_until(began + seconds)
        elapsed_s = time.monotonic() - began
        if of.poll() is not None:
            raise PeerFailed(f"the peer ended with status {of.returncode} while it was measured")
        return arrived / elapsed_s

    def _await_first(self, peer: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + UP_WITHIN_S
        while not self._channel.queue_purge(self.name):
            if peer.poll() is not None:
                raise PeerFailed(f"the peer ended with status {peer.returncode} before it sent anything")
            if time.monotonic() > deadline:
                raise PeerFailed(f"the peer sent nothing in {UP_WITHIN_S:g} s")
            time.sleep(0.05)

    def _purged_until(self, deadline: float) -> int:
        arrived = 0
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(1.0, left))
            arrived += self._channel.queue_purge(self.name)
        return arrived


class PeerFailed(SystemExit):
    """It could not be measured, and why: the message is this program's last word on stderr."""


@contextmanager
def process(command: Sequence[str], environ: Mapping[str, str], *, cwd: str) -> Iterator[subprocess.Popen[bytes]]:
    """The peer as a process of its own, its output on our stderr."""
    root = os.getcwd()
    peer = subprocess.Popen(
        command, env=os.environ | environ | {"PYTHONPATH": root}, cwd=cwd, stdout=2, stdin=subprocess.DEVNULL
    )
    try:
        yield peer
    finally:
        peer.kill()  # asked to end, some would first write all their rows, one by one
        peer.wait()


def versions(*packages: str) -> dict[str, str]:
    return {name: version(name) for name in packages}
