"""Celery workers of a benchmark, as processes that can be killed whole, or a child of theirs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO

STOPS_S = 20.0


class Worker:
    """``celery worker``, with its pool's processes in a group of their own. It runs from the start on."""

    def __init__(
        self, name: str, *, concurrency: int, include: str, log: IO[bytes], environ: Mapping[str, str], pool: str
    ) -> None:
        self._name, self._log, self._environ = name, log, os.environ | environ
        self._options = ["--pool", pool, "-c", str(concurrency), "-I", include, "-l", "WARNING"]
        self._options += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        self._started = 0
        self.start()

    def start(self) -> None:
        self._started += 1
        command = [sys.executable, "-m", "celery", "-A", "project", "worker", *self._options]
        self._process = subprocess.Popen(
            [*command, "-n", f"{self._name}.{self._started}@bench"],
            stdout=self._log,
            stderr=self._log,
            env=self._environ,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Of its main process."""
        return self._process.pid

    def has(self, pid: int) -> bool:
        """Whether this is one of its processes."""
        with suppress(ProcessLookupError):
            return os.getpgid(pid) == self._process.pid
        return False

    def kill(self) -> None:
        """SIGKILL for all of it, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Let it finish what runs."""
        self._process.terminate()
        try:
            self._process.wait(STOPS_S)
        finally:
            self.kill()


@contextmanager
def workers(
    count: int, *, concurrency: int, include: str, log: str, pool: str = "prefork", **environ: str
) -> Iterator[list[Worker]]:
    """So many of them. In the end they drain."""
    with open(log, "ab") as output:
        made = [
            Worker(f"worker-{number}", concurrency=concurrency, include=include, log=output, environ=environ, pool=pool)
            for number in range(count)
        ]
        try:
            yield made
        finally:
            for worker in made:
                with suppress(subprocess.TimeoutExpired):
                    worker.stop()
