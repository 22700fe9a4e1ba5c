"""The embedded servers around a command: started, handed over, stopped however the command or its runner ends."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from tests.environment.conftest import Run, servers
from tests.processes import Spawned

pytestmark = pytest.mark.long

SHOW = "import os; print(*(f'{k}={v}' for k, v in os.environ.items() if k.endswith('_URL')), sep='\\n', flush=True)"
WAIT = f"{SHOW}; import signal; signal.signal(15, lambda *_: exit(40)); print('waiting'); signal.pause()"
CREATE = "import os, psycopg; psycopg.connect(os.environ['DATABASE_URL'], autocommit=True).execute('CREATE TABLE t ()')"


def urls(process: Spawned) -> dict[str, str]:
    """The URLs that SHOW has shown."""
    return dict(line.strip().split("=", 1) for line in process.output.splitlines() if "_URL=" in line)


def finished(process: Spawned) -> str:
    assert process.wait() == 0
    return process.output


def test_a_command_finds_its_services_and_they_end_with_it(run: Run, run_dir: Path):
    process = run("--embedded", line=WAIT)
    process.wait_for_line("waiting")
    found = urls(process)
    with psycopg.connect(found["DATABASE_URL"]) as connection:
        assert connection.info.dbname == "fairbeat"
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
        assert connection.execute("SHOW max_connections").fetchone() == ("200",)
    with redis.Redis.from_url(found["REDIS_URL"]) as client:
        assert client.ping()
    assert found["AMQP_URL"] == ""
    assert {server.name() for server in servers(run_dir)} == {"postgres", "valkey-server"}
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 40
    assert servers(run_dir) == []


def test_the_data_of_postgres_outlives_a_run_unless_a_fresh_one_is_asked_for(run: Run):
    assert run("--embedded", line=CREATE).wait() == 0
    again = run("--embedded", line=CREATE)
    assert again.wait() == 1
    assert 'relation "t" already exists' in again.output
    assert run("--embedded", "--fresh", line=CREATE).wait() == 0


def test_only_what_is_thrown_away_is_not_flushed(run: Run):
    show = "import os, psycopg; print(psycopg.connect(os.environ['DATABASE_URL']).execute('SHOW fsync').fetchone())"
    assert "('off',)" in finished(run("--embedded", "--fresh", line=show))
    assert "('on',)" in finished(run("--embedded", line=show))


def test_what_a_killed_run_left_behind_is_stopped_and_its_folder_used_again(run: Run, run_dir: Path):
    killed = run("--embedded", line=WAIT)
    killed.wait_for_line("waiting")
    orphans = psutil.Process(killed.process.pid).children(recursive=True)
    left = servers(run_dir)
    killed.send_signal(signal.SIGKILL)
    killed.process.wait()
    try:
        assert len(left) == 2
        assert all(server.is_running() for server in left)
        again = run("--embedded", line=SHOW)
        assert again.wait() == 0, again.output
        assert not any(server.is_running() for server in left)
    finally:
        for orphan in orphans:
            if orphan.is_running():
                orphan.kill()


def test_a_pid_file_that_names_somebody_elses_process_does_not_stop_a_run(run: Run, run_dir: Path):
    assert run("--embedded", line=SHOW).wait() == 0
    (run_dir / "postgres" / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n{run_dir}\n0\n")
    again = run("--embedded", line=SHOW)
    assert again.wait() == 0, again.output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's Postgres runs as another account")
def test_root_in_a_closed_folder_keeps_its_postgres_where_nobody_can_reach_it(run: Run, run_dir: Path):
    closed = run_dir / "closed"
    closed.mkdir(mode=0o700)
    try:
        for _ in ("made", "found again"):
            process = run("--embedded", line=SHOW, folder=closed)
            assert process.wait() == 0, process.output
        assert (closed / "postgres").is_symlink()
        assert closed.stat().st_mode & 0o777 == 0o700
    finally:
        shutil.rmtree((closed / "postgres").resolve())
