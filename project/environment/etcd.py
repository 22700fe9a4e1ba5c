"""An etcd for the tests of a machine where none is configured: the program in the path, Debian's, or a container.

Debian's package is fetched and unpacked in the run's own folder: it needs no root, and starts no service. The server is
the run's own, on free loopback ports, begins empty, and is stopped at the end.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

from project.environment import container, probe, process
from project.environment.process import Server, ServerFailed, free_port
from scheduling.core.errors import ServiceUnreachable

IMAGE = "quay.io/coreos/etcd:v3.5.21"
CLIENT_PORT = 2379
START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 10
FETCH_TIMEOUT_S = 300


@contextmanager
def process_of_ours(run_dir: Path) -> Iterator[str]:
    """Run the program, fetched first where it is not installed. Raises `ServerFailed` where that cannot be."""
    member = Member(run_dir / "etcd", program=program(run_dir))
    try:
        member.start()
        yield member.url
    finally:
        member.close()


@contextmanager
def in_container(_run_dir: Path) -> Iterator[str]:
    """Run the image in a container. Raises `ServerFailed` where that cannot be."""
    listen = ["--listen-client-urls", f"http://0.0.0.0:{CLIENT_PORT}"]
    advertise = ["--advertise-client-urls", f"http://127.0.0.1:{CLIENT_PORT}"]
    command = (IMAGE, "etcd", *listen, *advertise)

    def is_up(address: str) -> bool:
        return answers(f"http://{address}")

    with container.running(*command, port=CLIENT_PORT, answers=is_up, timeout_s=START_TIMEOUT_S) as address:
        yield f"http://{address}"


class Member:
    """One etcd, alone or of a cluster on this machine, which may be stopped and started again with its data.

    `peers` are the names and peer ports of the whole cluster, `name` among them.
    """

    def __init__(
        self, folder: Path, *, program: Path, name: str = "fairbeat", peers: Mapping[str, int] | None = None
    ) -> None:
        self._folder, self._program, self._name = folder.resolve(), program, name
        self._peers = peers or {name: free_port()}
        process.end_leftover(self._pid_file, self._folder, signal.SIGTERM)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700, parents=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._server: Server | None = None

    def start(self) -> None:
        """Start it, and wait until it answers. Raises `ServerFailed`."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start it. A member of a cluster answers once the majority is there: wait then."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}  # its own options
        self._server = process.start("etcd", self._command(), log=self._folder / "etcd.log", environ=environ)
        self._pid_file.write_text(str(self._server.process.pid))

    def wait(self) -> None:
        """Wait until it answers. Raises `ServerFailed`."""
        if self._server is not None:
            self._server.wait_until(lambda: answers(self.url), timeout_s=START_TIMEOUT_S)

    def signal(self, number: signal.Signals) -> None:
        """SIGSTOP freezes it, SIGCONT wakes it."""
        if self._server is not None:
            self._server.process.send_signal(number)

    def kill(self) -> None:
        """End it as a power cut does; what it has acknowledged is on disk."""
        if self._server is not None:
            self._server.process.kill()
            self._server.process.wait()
            self._server = None

    def close(self) -> None:
        """Stop it."""
        if self._server is not None:
            self._server.stop(signal.SIGTERM, timeout_s=STOP_TIMEOUT_S)
            self._server = None

    @property
    def _pid_file(self) -> Path:
        return self._folder / "pid"

    def _command(self) -> list[str | Path]:
        peer = f"http://127.0.0.1:{self._peers[self._name]}"
        cluster = ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in self._peers.items())
        options = {
            "name": self._name,
            "data-dir": str(self._folder / "data"),
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": cluster,
            "logger": "zap",
        }
        return [self._program, *(f"--{option}={value}" for option, value in options.items())]


def program(run_dir: Path) -> Path:
    """The etcd in the path, else Debian's, fetched into `run_dir` once. Raises `ServerFailed` where that fails."""
    if found := shutil.which("etcd"):
        return Path(found)
    folder = (run_dir / "etcd-server").resolve()
    fetched = folder / "usr" / "bin" / "etcd"
    if not fetched.exists():
        _fetch(folder)
    return fetched


def answers(url: str) -> bool:
    """Whether an etcd answers there, and has a leader."""
    try:
        probe.etcd("etcd", url)
    except ServiceUnreachable:
        return False
    return True


def _fetch(folder: Path) -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise ServerFailed("there is no etcd in the path, and no apt-get to fetch Debian's")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    download = ("apt-get", "--quiet", "download", "etcd-server")
    done = _run(download, folder)
    if done.returncode != 0 and os.geteuid() == 0:  # there may be no lists of packages yet
        _run(("apt-get", "--quiet", "update"), folder)
        done = _run(download, folder)
    if done.returncode != 0:
        raise ServerFailed(f"apt-get download etcd-server failed: {done.stderr.strip()}")
    (archive,) = folder.glob("etcd-server_*.deb")
    done = _run(("dpkg-deb", "--extract", str(archive), str(folder)), folder)
    if done.returncode != 0:
        raise ServerFailed(f"dpkg-deb --extract {archive.name} failed: {done.stderr.strip()}")


def _run(command: Iterable[str], folder: Path) -> CompletedProcess[str]:
    return process.run(*command, timeout_s=FETCH_TIMEOUT_S, folder=folder)


WAYS = (process_of_ours, in_container)
