"""What every ``Coordinator`` does: in memory, in Postgres, in etcd."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from math import inf
from threading import Event
from typing import Protocol

import pytest
from django.db import connection

from scheduling.coordination.memory import Fleet, MemoryCoordinator
from scheduling.coordination.port import Coordinator
from scheduling.coordination.postgres import PostgresCoordinator
from scheduling.coordination.single import SingleNode
from scheduling.core.sharding import assign
from scheduling.models import Node, Shard
from scheduling.store.connection import NODE_PREFIX, connector
from scheduling.testing.clock import ManualClock
from tests.coordination.etcd_world import LEASE_S, SHARDS, EtcdWorld, renewed_at_last
from tests.processes import PATIENCE_S

ALL = frozenset(range(SHARDS))
END_SESSIONS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = %s
"""


class World(Protocol):
    """Nodes that share the shards by one coordinator. What a world made it clears away when its fixture ends."""

    def node(
        self, name: str, *, weight: float = 1.0, groups: int | None = None, lease_s: float = LEASE_S
    ) -> Coordinator: ...

    def own(self, name: str, shards: frozenset[int]) -> None:
        """The node takes these shards over, as its store does."""

    def owned(self, name: str) -> frozenset[int]: ...

    def freeze(self, name: str) -> None:
        """Time passes in which this node alone does not renew, until its lease is out."""

    def cut(self, name: str) -> None:
        """The node's connections to the coordinator end; it may connect again at once."""

    def monotonic(self) -> float: ...


class MemoryWorld:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.owners: dict[int, str] = {}
        self.fleet = Fleet(self.clock, shards=SHARDS, owners=self.owners)

    def node(
        self, name: str, *, weight: float = 1.0, groups: int | None = None, lease_s: float = LEASE_S
    ) -> Coordinator:
        self.fleet.groups = groups
        return MemoryCoordinator(self.fleet, node=name, lease_s=lease_s, weight=weight)

    def own(self, name: str, shards: frozenset[int]) -> None:
        self.owners |= dict.fromkeys(shards, name)

    def owned(self, name: str) -> frozenset[int]:
        return frozenset(shard for shard, owner in self.owners.items() if owner == name)

    def freeze(self, name: str) -> None:
        others = [other for other in self.fleet.leases if other != name]
        self.clock.advance(LEASE_S)
        for other in others:
            self.fleet.leases[other] = self.clock.monotonic() + LEASE_S

    def cut(self, name: str) -> None:
        """There are none."""

    def monotonic(self) -> float:
        return self.clock.monotonic()


class PostgresWorld:
    def __init__(self, kind: Callable[..., Coordinator] = PostgresCoordinator) -> None:
        self.made: list[Coordinator] = []
        self.kind = kind

    def node(
        self, name: str, *, weight: float = 1.0, groups: int | None = None, lease_s: float = LEASE_S
    ) -> Coordinator:
        connect = connector(connection.get_connection_params(), name=name)
        made = self.kind(connect, node=name, region="", shards=SHARDS, groups=groups, lease_s=lease_s, weight=weight)
        self.made.append(made)
        return made

    def own(self, name: str, shards: frozenset[int]) -> None:
        Shard.objects.filter(id__in=shards).update(owner=name)

    def owned(self, name: str) -> frozenset[int]:
        return frozenset(Shard.objects.filter(owner=name).values_list("id", flat=True))

    def freeze(self, name: str) -> None:
        node = Node.objects.get(pk=name)
        Node.objects.filter(pk=name).update(lease_until=node.started_at)

    def cut(self, name: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(END_SESSIONS, [f"{NODE_PREFIX} {name}"])

    def monotonic(self) -> float:
        return time.monotonic()

    def close(self) -> None:
        for coordinator in self.made:
            coordinator.leave()


@pytest.fixture(params=["memory", "postgres", "etcd"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "memory":
        yield MemoryWorld()
        return
    request.getfixturevalue("committed_db")
    world: PostgresWorld | EtcdWorld
    if request.param == "postgres":
        world = PostgresWorld()
    else:
        world = EtcdWorld(request.getfixturevalue("etcd_url"), request.getfixturevalue("unique"))
    yield world
    world.close()


def joined(world: World, name: str, *, weight: float = 1.0, groups: int | None = None) -> Coordinator:
    node = world.node(name, weight=weight, groups=groups)
    node.join()
    return node


def settled(world: World, **nodes: Coordinator) -> dict[str, frozenset[int]]:
    """Let every node renew, take and release until nothing moves."""
    for _ in range(4):
        for name, node in nodes.items():
            assignment = node.renew()
            node.release(assignment.leaving)
            world.own(name, assignment.mine)
    return {name: world.owned(name) for name in nodes}


def test_a_lone_node_is_to_own_every_shard(world: World) -> None:
    node = joined(world, "a")
    assignment = node.renew()
    assert (assignment.mine, assignment.leaving) == (ALL, frozenset())


def test_a_lease_counts_from_before_the_renewal(world: World) -> None:
    node = joined(world, "a")
    before = world.monotonic()
    lease_until = node.renew().lease_until
    assert before + LEASE_S <= lease_until <= world.monotonic() + LEASE_S


def test_two_nodes_split_the_shards_and_agree_on_who_has_which(world: World) -> None:
    owned = settled(world, a=joined(world, "a"), b=joined(world, "b"))
    assert owned == assign(SHARDS, {"a": 1.0, "b": 1.0})
    assert all(owned.values())


def test_a_heavier_node_gets_more(world: World) -> None:
    owned = settled(world, a=joined(world, "a", weight=15), b=joined(world, "b"))
    assert owned == assign(SHARDS, {"a": 15.0, "b": 1.0})


def test_the_shards_of_a_group_go_to_one_node(world: World) -> None:
    owned = settled(world, a=joined(world, "a", groups=4), b=joined(world, "b", groups=4))
    assert owned == assign(SHARDS, {"a": 1.0, "b": 1.0}, groups=4)


def test_with_one_group_one_node_is_active_and_the_other_stands_by_until_it_is_gone(world: World) -> None:
    nodes = {name: joined(world, name, groups=1) for name in "ab"}
    owned = settled(world, **nodes)
    active, standby = sorted(owned, key=lambda name: owned[name] != ALL)
    assert (owned[active], owned[standby]) == (ALL, frozenset())
    world.freeze(active)
    assert nodes[standby].renew().mine == ALL


def test_a_shard_whose_owner_lives_stays_with_it_until_it_is_released(world: World) -> None:
    a = joined(world, "a")
    world.own("a", a.renew().mine)
    b = joined(world, "b")
    theirs = assign(SHARDS, {"a": 1.0, "b": 1.0})["b"]
    assert b.renew().mine == frozenset()
    assignment = a.renew()
    assert (assignment.mine, assignment.leaving) == (ALL - theirs, theirs)
    a.release(theirs)
    assert b.renew().mine == theirs
    assert a.renew().leaving == frozenset()


def test_only_what_is_released_is_free(world: World) -> None:
    a = joined(world, "a")
    world.own("a", a.renew().mine)
    b = joined(world, "b")
    leaving = sorted(a.renew().leaving)
    a.release(leaving[:1])
    assert b.renew().mine == frozenset(leaving[:1])


def test_a_node_cannot_release_what_another_owns(world: World) -> None:
    a, b = joined(world, "a"), joined(world, "b")
    owned = settled(world, a=a, b=b)
    a.release(owned["b"])
    assert world.owned("b") == owned["b"]


def test_a_node_that_leaves_frees_its_shards_at_once(world: World) -> None:
    a, b = joined(world, "a"), joined(world, "b")
    settled(world, a=a, b=b)
    b.leave()
    assert world.owned("b") == frozenset()
    assert a.renew().mine == ALL


def test_a_dead_nodes_shards_are_free_when_its_lease_is_out_and_not_before(world: World) -> None:
    a, b = joined(world, "a"), joined(world, "b")
    owned = settled(world, a=a, b=b)
    assert a.renew().mine == owned["a"]
    world.freeze("b")
    assert a.renew().mine == ALL


def test_a_renewal_says_when_the_lease_of_another_may_run_out(world: World) -> None:
    a = joined(world, "a")
    assert a.renew().look_at == inf
    b = world.node("b", lease_s=LEASE_S / 2)
    before = world.monotonic()
    b.join()
    look_at = a.renew().look_at
    if look_at < inf:  # a coordinator that tells by itself when a lease has run out needs no look
        assert before + LEASE_S / 2 <= look_at <= world.monotonic() + LEASE_S / 2


def test_a_disconnect_shorter_than_the_lease_changes_nothing(world: World) -> None:
    a, b = joined(world, "a"), joined(world, "b")
    owned = settled(world, a=a, b=b)
    world.cut("b")
    assignment = a.renew()
    assert (assignment.mine, assignment.leaving) == (owned["a"], frozenset())
    assignment = renewed_at_last(b)
    assert (assignment.mine, assignment.leaving) == (owned["b"], frozenset())
    assert a.renew().mine == owned["a"]
    assert (world.owned("a"), world.owned("b")) == (owned["a"], owned["b"])


def watched(node: Coordinator) -> Event:
    """Is set when the coordinator says that something has changed."""
    changed = Event()
    node.watch(changed.set)
    return changed


def test_who_watches_is_told_that_a_node_has_joined(world: World) -> None:
    changed = watched(joined(world, "a"))
    joined(world, "b")
    assert changed.wait(PATIENCE_S)


def test_who_watches_is_told_that_shards_were_released(world: World) -> None:
    a, b = joined(world, "a"), world.node("b")
    world.own("a", a.renew().mine)
    changed = watched(b)  # before it joins: it must not miss what that sets in motion
    b.join()
    a.release(a.renew().leaving)
    assert changed.wait(PATIENCE_S)
    assert b.renew().mine


def test_who_watches_is_told_that_a_node_has_left(world: World) -> None:
    a, b = joined(world, "a"), joined(world, "b")
    settled(world, a=a, b=b)
    changed = watched(a)
    b.leave()
    assert changed.wait(PATIENCE_S)
    assert a.renew().mine == ALL


def test_a_node_is_not_told_of_its_own_doings_nor_of_renewals(world: World) -> None:
    a, b = joined(world, "a"), joined(world, "b")
    settled(world, a=a, b=b)
    by_a, by_b = watched(a), watched(b)
    a.renew()
    b.renew()
    a.release(a.renew().mine)
    assert by_b.wait(PATIENCE_S)
    assert not by_a.is_set()


def test_a_node_that_wakes_after_its_lease_joins_again_and_gets_its_share_when_the_others_release_it(world) -> None:
    a, b = joined(world, "a"), joined(world, "b")
    owned = settled(world, a=a, b=b)
    world.freeze("b")
    world.own("a", a.renew().mine)
    assert b.renew().mine == frozenset()
    assert settled(world, a=a, b=b) == owned


def test_a_node_of_the_same_name_replaces_one_that_died(world: World) -> None:
    world.own("a", joined(world, "a").renew().mine)
    again = joined(world, "a")
    assert again.renew().mine == ALL


def test_a_node_that_never_joined_does_so_with_its_first_renewal(world: World) -> None:
    assert world.node("a").renew().mine == ALL


def test_the_lone_node_of_stop_1_takes_all_from_one_that_lives(committed_db: None) -> None:
    world = PostgresWorld(SingleNode)
    a, b = joined(world, "a"), joined(world, "b")
    world.own("a", a.renew().mine)
    assignment = b.renew()
    assert (assignment.mine, assignment.leaving) == (ALL, frozenset())
    world.close()


def test_a_lease_is_judged_by_the_clock_of_the_database(committed_db: None) -> None:
    world = PostgresWorld()
    joined(world, "a").renew()
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM lease_until - clock_timestamp())::float8 FROM scheduling_node")
        (left_s,) = cursor.fetchone()
    assert LEASE_S - 10 < left_s <= LEASE_S
    world.close()
