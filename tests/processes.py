"""Our own processes under test: started as a person starts them, watched by what they print, ended with the test."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parent.parent
# How long a test waits for what must come: far beyond what it takes on a slow machine that is busy with other tests. It
# costs nothing where it comes. Where a wait is itself what is tested, the test names a time of its own.
PATIENCE_S = 120.0
STOP_TIMEOUT_S = 30

T = TypeVar("T")


def eventually(condition: Callable[[], T], *, timeout_s: float = PATIENCE_S, interval_s: float = 0.02) -> T:
    """Look again and again until `condition()` is true, and return what it gave.

    For what another process does where it gives no signal; within one process, wait on the signal instead. Raises
    AssertionError, with the last value in it, when the time is over.
    """
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not so within {timeout_s:g} s; the last value is {value!r}")
        time.sleep(interval_s)
    return value


class Spawned:
    """A running process of ours. Its output, both streams, is kept line by line."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self.command = command
        with _sigint_as_from_a_terminal():
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        """All that it has printed so far."""
        with self._changed:
            return "".join(self.lines)

    def wait_for_line(self, text: str, *, timeout_s: float = PATIENCE_S) -> str:
        """Wait for a line with `text` in it, one printed before included; that line."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._line_with(text) is not None, timeout_s)
            line = self._line_with(text)
        if line is None:
            how = f"ended with status {self.process.wait()}" if self._ended else f"ran for {timeout_s:g} s"
            raise AssertionError(f"{' '.join(self.command)} {how} without a line with {text!r}:\n{self.output}")
        return line

    def wait(self, *, timeout_s: float = PATIENCE_S) -> int:
        """Wait for it to end; its exit status."""
        status = self.process.wait(timeout_s)
        self._reader.join(timeout_s)
        return status

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process alone, not to its children."""
        self.process.send_signal(number)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL for it and all its children where that does not end it in time."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._kill_group()
                self.process.wait()
        self._kill_group()
        self._reader.join(STOP_TIMEOUT_S)

    def _kill_group(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def _line_with(self, text: str) -> str | None:
        return next((line for line in self.lines if text in line), None)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stdout:
            for line in stdout:
                with self._changed:
                    self.lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


@contextmanager
def _sigint_as_from_a_terminal() -> Iterator[None]:
    """Tests that a shell runs in its background inherit an ignored SIGINT, and so would what they start, which then
    rightly does not end by it (POSIX, "Asynchronous Lists").
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
