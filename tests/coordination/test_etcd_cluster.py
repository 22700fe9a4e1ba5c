"""A cluster of three: what a node notices of the end of its leader, and of its majority."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from project.environment.etcd import Member
from project.environment.process import free_port
from scheduling.coordination.etcd_gateway import EtcdAddress, EtcdGateway
from scheduling.store.port import StoreUnavailable
from tests.coordination.etcd_world import SHARDS, EtcdWorld, renewed_at_last

ALL = frozenset(range(SHARDS))
NONE = frozenset[int]()

pytestmark = pytest.mark.long


@pytest.fixture
def members(etcd_program: Path, tmp_path: Path) -> Iterator[list[Member]]:
    """The leader first."""
    made = on_ports_of_their_own(tmp_path, etcd_program)
    try:
        for member in made:
            member.launch()
        for member in made:
            member.wait()
        yield sorted(made, key=leads, reverse=True)
    finally:
        for member in made:
            member.close()


def on_ports_of_their_own(folder: Path, program: Path) -> list[Member]:
    """Six ports are drawn one by one, and as long as nobody listens there the same may be drawn twice."""
    names = [f"member-{number}" for number in range(3)]
    while True:
        peers = {name: free_port() for name in names}
        made = [Member(folder / name, program=program, name=name, peers=peers) for name in names]
        if len({*peers.values(), *(member.port for member in made)}) == 2 * len(names):
            return made


def leads(member: Member) -> bool:
    gateway = EtcdGateway(EtcdAddress(urls=(member.url,)), timeout_s=5)
    status = gateway.call("/v3/maintenance/status", {})
    gateway.close()
    return bool(status["leader"] == status["header"]["member_id"])


def test_a_node_goes_on_without_the_leader_and_with_a_majority_that_comes_back(
    committed_db: None, members: list[Member], unique: str
) -> None:
    world = EtcdWorld(",".join(member.url for member in members), unique)
    node = world.joined("a")
    node.renew()
    leader, second, _ = members
    leader.kill()
    assignment = renewed_at_last(node)
    assert (assignment.mine, assignment.leaving) == (ALL, NONE)

    second.kill()
    with pytest.raises(StoreUnavailable):
        node.renew()
    second.start()
    assignment = renewed_at_last(node)
    assert (assignment.mine, assignment.leaving) == (ALL, NONE)
    world.close()
