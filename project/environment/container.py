"""A server in a container, where an engine for containers answers."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from subprocess import CompletedProcess

from project.environment import process
from project.environment.process import POLL_INTERVAL_S, ServerFailed

ENGINES = ("docker", "podman")
PULL_TIMEOUT_S = 300


@contextmanager
def running(image: str, *command: str, port: int, answers: Callable[[str], bool], timeout_s: float) -> Iterator[str]:
    """Run `image` with `command`, until the end; gives the loopback address of its `port`, once that `answers`. Raises
    `ServerFailed` where that cannot be.
    """
    engine = next((name for name in ENGINES if shutil.which(name) and _run(name, "info").returncode == 0), None)
    if engine is None:
        raise ServerFailed(f"no {' or '.join(engine.capitalize() for engine in ENGINES)} answers")
    started = _run(engine, "run", "--detach", "--rm", "--publish", f"127.0.0.1::{port}", image, *command)
    if started.returncode != 0:
        raise ServerFailed(f"{engine} did not run {image}: {started.stderr.strip()}")
    name = started.stdout.strip()
    try:
        address = _run(engine, "port", name, f"{port}/tcp").stdout.split()[0]
        deadline = time.monotonic() + timeout_s
        while not answers(address):
            if time.monotonic() > deadline:
                raise ServerFailed(f"{image} in {engine} did not answer within {timeout_s:g} s")
            time.sleep(POLL_INTERVAL_S)
        yield address
    finally:
        _run(engine, "rm", "--force", "--volumes", name)


def _run(*command: str) -> CompletedProcess[str]:
    return process.run(*command, timeout_s=PULL_TIMEOUT_S)
