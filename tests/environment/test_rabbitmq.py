"""The RabbitMQ that a run of the tests provides for itself."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from project.environment import probe, rabbitmq
from project.environment.process import ServerFailed


@pytest.mark.long
@pytest.mark.skipif(not rabbitmq.PROGRAM.exists(), reason="Debian's rabbitmq-server is not installed")
def test_a_node_from_the_package_answers_on_loopback_alone_and_is_gone_afterwards(tmp_path: Path):
    with rabbitmq.package(tmp_path) as url:
        probe.broker("AMQP_URL", url)
        node = psutil.Process(int((tmp_path / "rabbitmq" / "pid").read_text()))
        listening = {found.laddr.ip for found in node.net_connections() if found.status == psutil.CONN_LISTEN}
        assert listening == {"127.0.0.1"}
    assert not node.is_running()


def test_a_container_is_tried_before_the_package():
    assert (rabbitmq.in_container, rabbitmq.package) == rabbitmq.WAYS


def test_without_root_an_uninstalled_package_is_a_reason_and_not_a_crash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(rabbitmq, "PROGRAM", tmp_path / "not-installed")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ServerFailed, match="only root can install it"), rabbitmq.package(tmp_path):
        pass
