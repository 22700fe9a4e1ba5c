"""The processes of the demo: started in sessions of their own, watched, and ended with it in every case.

A terminal's Ctrl-C reaches the demo alone; it then ends them in good order. While it does, further signals are ignored:
it takes ``STOP_S`` at most.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from project.environment import process
from project.environment.process import Server
from scheduling.core.errors import FairbeatError

ROOT = Path(__file__).resolve().parents[2]
STOP_S = 15.0
POLL_S = 0.05


class ChildFailed(FairbeatError):
    """A process of the demo ended early, or did not get ready; the message ends with the last lines of its log."""


class Children:
    """``logs`` is the folder of their logs, ``environ`` what they all get."""

    def __init__(self, logs: Path, environ: Mapping[str, str]) -> None:
        self._logs = logs
        self._environ = {**environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        self._running: list[Server] = []

    def start(self, name: str, *arguments: str) -> None:
        """Start ``python ARGUMENTS…`` under this name."""
        guard = [sys.executable, str(Path(__file__).with_name("child.py")), str(os.getpid())]
        command = [*guard, sys.executable, *arguments]
        self._running.append(process.start(name, command, log=self._logs / f"{name}.log", environ=self._environ))

    def check(self) -> None:
        """Raises ChildFailed if one has ended."""
        for child in self._running:
            if child.process.poll() is not None:
                status = child.process.returncode
                raise ChildFailed(f"{child.name} ended early with status {status}; {process.tail(child.log, lines=20)}")

    def wait_until(self, ready: Callable[[], bool], *, what: str, timeout_s: float) -> None:
        """Raises ChildFailed when one ends, or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                tails = "\n".join(process.tail(child.log) for child in self._running)
                raise ChildFailed(f"{what} after {timeout_s:g} s; {tails}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """End all: SIGTERM, and SIGKILL for those, and what they started, that are not gone in time."""
        for child in self._running:
            if child.process.poll() is None:
                child.process.terminate()
        deadline = time.monotonic() + STOP_S
        while any(child.process.poll() is None for child in self._running) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        for child in self._running:
            _kill_session(child)
        self._running = []


@contextmanager
def children(logs: Path, environ: Mapping[str, str]) -> Iterator[Children]:
    """Processes that are ended with the block."""
    logs.mkdir(parents=True, exist_ok=True)
    family = Children(logs, environ)
    try:
        yield family
    finally:
        with _signals_ignored():
            family.stop()


@contextmanager
def _signals_ignored() -> Iterator[None]:
    before = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _kill_session(child: Server) -> None:
    with suppress(ProcessLookupError):  # it and all that it started are gone
        os.killpg(child.process.pid, signal.SIGKILL)
    child.process.wait()
