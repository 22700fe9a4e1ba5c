"""The RabbitMQ that a run of the tests provides for itself."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from project.environment import probe, rabbitmq
from project.environment.process import ServerFailed


@pytest.mark.skipif(not rabbitmq.PROGRAM.exists(), reason="Debian's rabbitmq-server is not installed")
def test_a_node_from_the_package_answers_on_loopback_alone_and_is_gone_afterwards(tmp_path: Path):
    with rabbitmq.package(tmp_path) as url:
        probe.broker("AMQP_URL", url)
        node = psutil.Process(int((tmp_path / "rabbitmq" / "pid").read_text()))
        listening = {found.laddr.ip for found in node.net_connections() if found.status == psutil.CONN_LISTEN}
        assert listening == {"127.0.0.1"}
    assert not node.is_running()


def test_where_every_way_fails_each_reason_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(rabbitmq, "container", failing("no Docker engine answers"))
    monkeypatch.setattr(rabbitmq, "package", failing("only root can install it"))
    with ExitStack() as stack:
        assert rabbitmq.provisioned(stack, tmp_path) == (None, "no Docker engine answers; only root can install it")


def test_a_container_is_taken_before_a_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    @contextmanager
    def working(_run_dir: Path):
        yield "amqp://container//"

    monkeypatch.setattr(rabbitmq, "container", working)
    monkeypatch.setattr(rabbitmq, "package", failing("never asked"))
    with ExitStack() as stack:
        assert rabbitmq.provisioned(stack, tmp_path) == ("amqp://container//", "")


def test_without_root_an_uninstalled_package_is_a_reason_and_not_a_crash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(rabbitmq, "PROGRAM", tmp_path / "not-installed")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ServerFailed, match="only root can install it"), rabbitmq.package(tmp_path):
        pass


def failing(reason: str):
    """A way to a RabbitMQ that is closed."""

    @contextmanager
    def way(_run_dir: Path):
        if reason:
            raise ServerFailed(reason)
        yield

    return way
