"""The etcd that a run of the tests provides for itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil
import pytest

from project.environment import etcd, probe
from project.environment.etcd import Member
from project.environment.process import ServerFailed

HAS_PROGRAM = shutil.which("etcd") is not None


@pytest.mark.skipif(not HAS_PROGRAM, reason="there is no etcd in the path")
def test_the_program_in_the_path_answers_on_loopback_alone_and_is_gone_afterwards(tmp_path: Path):
    with etcd.process_of_ours(tmp_path) as url:
        probe.etcd("ETCD_URL", url)
        server = psutil.Process(int((tmp_path / "etcd" / "pid").read_text()))
        listening = {found.laddr.ip for found in server.net_connections() if found.status == psutil.CONN_LISTEN}
        assert listening == {"127.0.0.1"}
    assert not server.is_running()


@pytest.mark.skipif(not HAS_PROGRAM, reason="there is no etcd in the path")
def test_what_a_killed_run_left_behind_is_stopped_and_its_data_is_gone(tmp_path: Path):
    left = Member(tmp_path, program=etcd.program(tmp_path))
    left.start()
    server = psutil.Process(int((tmp_path / "pid").read_text()))
    again = Member(tmp_path, program=etcd.program(tmp_path))
    assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE
    assert list(tmp_path.iterdir()) == []
    again.close()
    left.close()


def test_the_program_is_tried_before_a_container():
    assert (etcd.process_of_ours, etcd.in_container) == etcd.WAYS


def test_without_a_program_and_without_packages_the_reason_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerFailed, match="no etcd in the path, and no apt-get"):
        etcd.program(tmp_path)


def test_a_program_that_was_fetched_once_is_not_fetched_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    fetched = tmp_path / "etcd-server" / "usr" / "bin" / "etcd"
    fetched.parent.mkdir(parents=True)
    fetched.touch()
    assert etcd.program(tmp_path) == fetched
