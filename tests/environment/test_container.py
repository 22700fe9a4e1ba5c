"""A server in a container, with a program in the engine's place that notes what it is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from project.environment import container
from project.environment.process import ServerFailed

ENGINE = """#!/bin/sh
echo "$@" >> {told}
case $1 in
    info) exit {info} ;;
    run) {run} ;;
    port) echo 127.0.0.1:49153 ;;
esac
"""

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts an engine into the path, which has nothing else in it; gives the file of what it was told."""
    monkeypatch.setenv("PATH", f"{tmp_path}")

    def installed(name: str, *, info: int = 0, run: str = "echo named") -> Path:
        told = tmp_path / f"{name}.told"
        engine = tmp_path / name
        engine.write_text(ENGINE.format(told=told, info=info, run=run))
        engine.chmod(0o755)
        return told

    return installed


def test_the_address_is_given_once_the_server_answers_and_the_container_is_removed_at_the_end(install: Install):
    told = install("docker")
    asked: list[str] = []

    def answers(address: str) -> bool:
        asked.append(address)
        return len(asked) > 2

    with container.running("image:1", "serve", "--here", port=2379, answers=answers, timeout_s=5) as address:
        assert address == "127.0.0.1:49153"
        assert asked == [address] * 3
    assert told.read_text().splitlines() == [
        "info",
        "run --detach --rm --publish 127.0.0.1::2379 image:1 serve --here",
        "port named 2379/tcp",
        "rm --force --volumes named",
    ]


def test_podman_serves_where_no_docker_answers(install: Install):
    install("docker", info=1)
    told = install("podman")
    with container.running("image:1", port=1, answers=bool, timeout_s=5):
        pass
    assert "rm --force --volumes named" in told.read_text()


def test_each_reason_against_it_is_told(install: Install):
    with pytest.raises(ServerFailed, match="no Docker or Podman answers"):
        run()
    install("docker", run="echo no such image >&2; exit 125")
    with pytest.raises(ServerFailed, match="docker did not run image:1: no such image"):
        run()
    told = install("docker")
    with pytest.raises(ServerFailed, match="image:1 in docker did not answer within 0.1 s"):
        run()
    assert told.read_text().endswith("rm --force --volumes named\n")


def run() -> None:
    with container.running("image:1", port=1, answers=lambda _: False, timeout_s=0.1):
        pass
