"""`python -m project.environment run` as a person starts it, and the servers that it leaves to be seen."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from project.environment.plan import ETCD_MISSING, MISSING
from tests.processes import Spawned

SERVICE_VARIABLES = (
    "DATABASE_URL",
    "REDIS_URL",
    "AMQP_URL",
    "CELERY_BROKER_URL",
    "EMBEDDED",
    "FAIRBEAT_RUN_DIR",
    MISSING,
    "ETCD_URL",
    ETCD_MISSING,
    "FAIRBEAT_COORDINATOR",
)

Run = Callable[..., Spawned]


@pytest.fixture(scope="module")
def run_dir() -> Iterator[Path]:
    """A folder that other accounts can reach, unlike pytest's own: root's Postgres runs as `nobody`."""
    folder = Path(tempfile.mkdtemp(prefix="fairbeat-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def run(run_dir: Path) -> Iterator[Run]:
    """Start `run` with options and words in capitals for its environment, where no service is configured but by these.

    It runs a line of Python, or the `command` that is given.
    """
    spawned: list[Spawned] = []

    def start(
        *options: str, line: str = "", command: tuple[str, ...] = (), folder: Path = run_dir, **environ: str
    ) -> Spawned:
        clean = {name: value for name, value in os.environ.items() if name not in SERVICE_VARIABLES}
        runner = [sys.executable, "-m", "project.environment", "run", "--run-dir", str(folder), *options, "--"]
        process = Spawned([*runner, *(command or (sys.executable, "-c", line))], clean | environ)
        spawned.append(process)
        return process

    yield start
    for process in spawned:
        process.stop()


def servers(folder: Path) -> list[psutil.Process]:
    """The servers that run with their files in `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            arguments = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        if str(folder / "redis" / "valkey.conf") in arguments or str(folder / "postgres" / "data") in arguments:
            found.append(process)
    return found
