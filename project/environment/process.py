"""A server that a run starts for itself: start it, wait for it, stop it, and stop one that a killed run left behind.

A server runs in a session of its own, so that Ctrl-C in the terminal reaches those who use it first, and it last.
"""

from __future__ import annotations

import pwd
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import psutil

from scheduling.core.errors import FairbeatError

POLL_INTERVAL_S = 0.02
LEFTOVER_TIMEOUT_S = 5


class ServerFailed(FairbeatError):
    """A server of the run's own did not start; the message ends with the last lines of its log."""


Way = Callable[[Path], AbstractContextManager[str]]
"""To a server of the run's own, in this folder: gives its URL, raises `ServerFailed`."""


class Identity(TypedDict, total=False):
    """As whom a process runs: arguments of `subprocess.Popen`."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its name for messages, its process, its log."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def wait_until(self, ready: Callable[[], bool], *, timeout_s: float) -> None:
        """Wait until `ready()` holds. Raises `ServerFailed` if the process ends before, or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if self.process.poll() is not None:
                raise ServerFailed(f"{self.name} ended with status {self.process.returncode}; {tail(self.log)}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self.name} was not ready within {timeout_s:g} s; {tail(self.log)}")
            time.sleep(POLL_INTERVAL_S)

    def stop(self, *signals: signal.Signals, timeout_s: float) -> None:
        """Send the signals one by one, each with its time to work, and SIGKILL last."""
        for number in (*signals, signal.SIGKILL):
            if self.process.poll() is None:
                self.process.send_signal(number)
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                continue
            return


def start(
    name: str,
    command: Sequence[str | Path],
    *,
    log: Path,
    account: pwd.struct_passwd | None = None,
    environ: Mapping[str, str] | None = None,
) -> Server:
    """Start a server with its output in `log`, begun anew; as `account` where one is given (needs root)."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env=environ,
            start_new_session=True,
            **as_account(account),
        )
    return Server(name, process, log)


def free_port() -> int:
    """A loopback port that is free now; not one of those that the kernel gives to outgoing connections, so that a
    server that is started again finds it free again.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def first_of(ways: Iterable[Way], stack: ExitStack, run_dir: Path) -> tuple[str | None, str]:
    """Go the first of these ways that leads to a server, which ends with `stack`. Its URL and no reason; or no URL, and
    why there is none.
    """
    reasons = []
    for way in ways:
        try:
            return stack.enter_context(way(run_dir)), ""
        except ServerFailed as error:
            reasons.append(str(error))
    return None, "; ".join(reasons)


def run(
    *command: str, timeout_s: float, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever its status, with what it printed."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout_s,
        check=False,
        env=environ,
        cwd=folder,
    )


def as_account(account: pwd.struct_passwd | None) -> Identity:
    """The arguments of `subprocess.Popen` that make a process run as `account`."""
    if account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def end_leftover(pid_file: Path, marker: Path, *signals: signal.Signals) -> None:
    """Stop the server of an earlier, killed run: the process of `pid_file`, if its command line names `marker`.

    Where the number is another program's by now, the pid file goes: a server would take that program for itself.
    """
    try:
        leftover = psutil.Process(int(pid_file.read_text().split()[0]))
        ours = any(str(marker) in argument for argument in leftover.cmdline())
    except (FileNotFoundError, ValueError, IndexError, psutil.NoSuchProcess):
        return
    except psutil.AccessDenied:
        ours = False
    if not ours:
        pid_file.unlink(missing_ok=True)
        return
    for number in (*signals, signal.SIGKILL):
        leftover.send_signal(number)
        if psutil.wait_procs([leftover], timeout=LEFTOVER_TIMEOUT_S)[0]:
            return


def tail(log: Path, *, lines: int = 5) -> str:
    """The end of a log, for a message."""
    text = log.read_text(errors="replace").strip() if log.exists() else ""
    return f"the end of {log}:\n" + "\n".join(text.splitlines()[-lines:])
