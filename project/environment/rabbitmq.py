"""A RabbitMQ for the tests of a machine where none answers: a container, else Debian's package.

Its server is the run's own, on free loopback ports, and is stopped at the end. Installing the package needs root;
running it does not.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from project.environment import probe, process
from project.environment.container import running
from project.environment.process import ServerFailed, free_port
from scheduling.core.errors import ServiceUnreachable

IMAGE = "rabbitmq:4"
PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
CONTROL = PROGRAM.with_name("rabbitmqctl")  # not the one in the path: as root, that becomes another user first
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 20
INSTALL_TIMEOUT_S = 600
CONTROL_TIMEOUT_S = 120


@contextmanager
def in_container(_run_dir: Path) -> Iterator[str]:
    """Run the image in a container. Raises `ServerFailed` where that cannot be."""

    def url(address: str) -> str:
        return f"amqp://guest:guest@{address}//"

    with running(IMAGE, port=5672, answers=lambda at: _answers(url(at)), timeout_s=START_TIMEOUT_S) as address:
        yield url(address)


@contextmanager
def package(run_dir: Path) -> Iterator[str]:
    """Run Debian's rabbitmq-server, installed first where this is root. Raises `ServerFailed` where that cannot be."""
    broker = Broker(run_dir)
    try:
        broker.start()
        yield broker.url
    finally:
        broker.close()


class Broker:
    """Debian's rabbitmq-server with data of its own, begun anew, which may be stopped and started again.

    Raises `ServerFailed` where there is none, and none can be installed.
    """

    def __init__(self, run_dir: Path) -> None:
        if not PROGRAM.exists():
            _install()
        self._folder = (run_dir / "rabbitmq").resolve()
        process.end_leftover(self._folder / "pid", self._folder, signal.SIGTERM)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700, parents=True)
        self.port, self._epmd_port = free_port(), free_port()
        self._environ = os.environ | _settings(self._folder, port=self.port, epmd_port=self._epmd_port)
        self._server: process.Server | None = None
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def start(self) -> None:
        """Start it, and wait until it answers. Raises `ServerFailed`."""
        self._server = process.start("RabbitMQ", [PROGRAM], log=self._folder / "server.log", environ=self._environ)
        self._server.wait_until(lambda: _answers(self.url), timeout_s=START_TIMEOUT_S)

    def kill(self) -> None:
        """SIGKILL for its shell script and its virtual machine, at once."""
        if self._server is not None:
            os.killpg(self._server.process.pid, signal.SIGKILL)
            self._server.process.wait()
            self._server = None

    def control(self, *arguments: str) -> None:
        """`rabbitmqctl ARGUMENTS…` on this node. Raises `ServerFailed` where that fails."""
        done = process.run(str(CONTROL), *arguments, timeout_s=CONTROL_TIMEOUT_S, environ=self._environ)
        if done.returncode != 0:
            raise ServerFailed(f"rabbitmqctl {' '.join(arguments)}: {(done.stderr or done.stdout).strip()}")

    def close(self) -> None:
        """Stop it, and its port mapper."""
        if self._server is not None:
            self._server.stop(signal.SIGTERM, timeout_s=STOP_TIMEOUT_S)
            self._server = None
        process.run("epmd", "-port", str(self._epmd_port), "-kill", timeout_s=CONTROL_TIMEOUT_S)


def _settings(folder: Path, *, port: int, epmd_port: int) -> dict[str, str]:
    """The environment of a node that shares nothing with another on this machine, its port mapper included."""
    plugins = folder / "enabled_plugins"
    plugins.write_text("[].\n")
    return {
        "HOME": str(folder),  # holds the node's cookie
        "RABBITMQ_NODENAME": f"fairbeat-{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(epmd_port),
    }


def _install() -> None:
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise ServerFailed("Debian's rabbitmq-server is not installed, and only root can install it by apt-get")
    apt_get = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet")
    for arguments in (("update",), ("install", "--yes", "--no-install-recommends", "rabbitmq-server")):
        done = process.run(*apt_get, *arguments, timeout_s=INSTALL_TIMEOUT_S)
        if done.returncode != 0:
            raise ServerFailed(f"apt-get {' '.join(arguments)} failed: {done.stderr.strip()}")


def _answers(url: str) -> bool:
    try:
        probe.broker("RabbitMQ", url)
    except ServiceUnreachable:
        return False
    return True


WAYS = (in_container, package)
