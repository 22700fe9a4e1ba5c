from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from project.environment import etcd
from project.environment.etcd import Member
from project.environment.process import ServerFailed
from tests import committed
from tests.coordination.etcd_world import EtcdWorld
from tests.processes import ROOT

committed_db = committed.committed_db
test_database = committed.test_database


@pytest.fixture(scope="session")
def etcd_program(etcd_url: str) -> Path:
    """The program, for tests that end and start a server of their own."""
    try:
        return etcd.program(ROOT / ".run" / "test")  # where `make test` has one, if it is not in the path
    except ServerFailed as problem:
        refuse = pytest.fail if os.environ.get("REQUIRE_SERVICES") == "1" else pytest.skip
        refuse(f"needs etcd's program: {problem}")


@pytest.fixture
def own_etcd(etcd_program: Path, tmp_path: Path) -> Iterator[Member]:
    """A server of the test's own, which it may end."""
    member = Member(tmp_path / "etcd", program=etcd_program)
    member.start()
    yield member
    member.close()


@pytest.fixture
def etcd_world(committed_db: None, etcd_url: str, unique: str) -> Iterator[EtcdWorld]:
    world = EtcdWorld(etcd_url, unique)
    yield world
    world.close()


@pytest.fixture
def own_world(committed_db: None, own_etcd: Member, unique: str) -> Iterator[EtcdWorld]:
    """On the server of the test's own."""
    world = EtcdWorld(own_etcd.url, unique)
    yield world
    world.close()
