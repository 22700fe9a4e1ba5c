"""Whole nodes whose leases are in an etcd that goes away: they stop in time, and go on afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from project.environment.etcd import Member
from scheduling.conf import scheduling_settings
from scheduling.coordination.etcd import EtcdCoordinator
from scheduling.coordination.etcd_gateway import EtcdAddress
from scheduling.coordination.postgres import PostgresCoordinator
from scheduling.models import Job, JobClock, Shard
from scheduling.node.node import Node
from scheduling.store.connection import connector
from scheduling.store.postgres import PostgresStore
from tests.coordination.etcd_world import EtcdWorld
from tests.engine_desk import LIMITS
from tests.node.conftest import Running
from tests.node.publisher import WatchedPublisher
from tests.processes import eventually

SHARDS = scheduling_settings(settings).SHARDS
STEP = timedelta(milliseconds=100)
LONG_S = 600.0  # a lease that no test waits for the end of

Start = Callable[..., Running]


@pytest.fixture
def start(committed_db: None, own_etcd: Member, unique: str) -> Iterator[Start]:
    """Starts nodes by name, in the etcd unless it is said to be in Postgres."""
    running: list[Running] = []

    def started(name: str, *, lease_s: float, renew_s: float | None = None, in_etcd: bool = True) -> Running:
        connect = connector(connection.get_connection_params(), name=name)
        publisher = WatchedPublisher(confirms=True)
        given: dict[str, Any] = {"node": name, "region": "", "shards": SHARDS, "lease_s": lease_s}
        address = EtcdAddress(urls=(own_etcd.url,))
        node = Node(
            name,
            store=PostgresStore(connect, grace=timedelta(seconds=5)),
            publisher=publisher,
            coordinator=(
                EtcdCoordinator(address, connect, prefix=unique, **given)
                if in_etcd
                else PostgresCoordinator(connect, **given)
            ),
            connect=connect,
            limits=LIMITS,
            renew_s=renew_s or lease_s / 5,
        )
        running.append(Running(node, publisher))
        return running[-1]

    yield started
    for node in running:
        node.stop()
    for node in running:
        node.ended()


def make_job() -> None:
    Job.objects.every("tests.none", STEP, anchor=JobClock.objects.now())


def nothing_is_lost_or_doubled(*nodes: Running) -> bool:
    """Every occurrence so far was published, and once under each fence."""
    fires = sorted((fire for node in nodes for fire in node.publisher.published), key=lambda fire: fire.scheduled_for)
    copies = {(fire.id, fire.fence) for fire in fires}
    instants = sorted({fire.scheduled_for for fire in fires})
    return len(copies) == len(fires) and all(later - earlier == STEP for earlier, later in pairwise(instants))


def owners() -> set[str | None]:
    return set(Shard.objects.values_list("owner", flat=True))


def epochs() -> list[int]:
    return list(Shard.objects.order_by("id").values_list("epoch", flat=True))


def test_beyond_the_lease_nothing_is_published_and_when_etcd_is_back_nothing_was_lost(
    start: Start, own_etcd: Member
) -> None:
    make_job()
    node = start("a", lease_s=1.0)
    node.publisher.wait_for(5)
    own_etcd.kill()
    assert isinstance(node.node, Node)
    lease_until = node.node._engine.lease_until
    eventually(lambda: time.monotonic() > lease_until + 0.1)
    count = len(node.publisher.published)
    eventually(lambda: time.monotonic() > lease_until + 0.6)
    assert len(node.publisher.published) == count
    own_etcd.start()
    node.publisher.wait_for(count + 15)
    assert nothing_is_lost_or_doubled(node)


def test_within_the_lease_a_restart_of_etcd_is_not_noticed(start: Start, own_etcd: Member) -> None:
    make_job()
    node = start("a", lease_s=20.0)
    node.publisher.wait_for(5)
    before = epochs()
    own_etcd.kill()
    own_etcd.start()
    node.publisher.wait_for(len(node.publisher.published) + 5)
    assert nothing_is_lost_or_doubled(node)
    assert epochs() == before


def test_a_fleet_may_change_its_coordinator_node_by_node_those_in_etcd_own_all_meanwhile(start: Start) -> None:
    make_job()
    first = start("a", lease_s=5.0, in_etcd=False)
    eventually(lambda: owners() == {"a"})
    second = start("b", lease_s=5.0)
    eventually(lambda: owners() == {"b"})
    published = len(second.publisher.wait_for(5))
    second.stop()
    second.ended()
    eventually(lambda: owners() == {"a"})
    first.publisher.wait_for(len(first.publisher.published) + published)
    assert nothing_is_lost_or_doubled(first, second)


def test_two_nodes_share_the_shards_and_one_that_ends_hands_its_own_over(start: Start) -> None:
    make_job()
    first, second = (start(name, lease_s=LONG_S, renew_s=1.0) for name in "ab")
    eventually(lambda: owners() == {"a", "b"})
    first.stop()
    first.ended()
    eventually(lambda: owners() == {"b"})
    second.publisher.wait_for(len(second.publisher.published) + 5)
    assert nothing_is_lost_or_doubled(first, second)


def test_a_node_whose_lease_somebody_ended_takes_its_shards_over_anew(
    start: Start, own_etcd: Member, unique: str
) -> None:
    make_job()
    node = start("a", lease_s=5.0)
    node.publisher.wait_for(5)
    before = epochs()
    world = EtcdWorld(own_etcd.url, unique)
    world.freeze("a")
    eventually(lambda: all(now > then for now, then in zip(epochs(), before, strict=True)))
    node.publisher.wait_for(len(node.publisher.published) + 5)
    assert nothing_is_lost_or_doubled(node)
    world.close()
