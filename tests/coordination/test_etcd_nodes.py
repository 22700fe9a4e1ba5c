"""Whole nodes whose leases are in an etcd that goes away: they stop in time, and go on afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise

import pytest
from django.conf import settings
from django.db import connection

from project.environment.etcd import Member
from scheduling.conf import scheduling_settings
from scheduling.coordination.etcd import EtcdCoordinator
from scheduling.coordination.etcd_gateway import EtcdAddress
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

Start = Callable[..., Running]


@pytest.fixture
def start(committed_db: None, own_etcd: Member, unique: str) -> Iterator[Start]:
    """Starts nodes by name."""
    running: list[Running] = []

    def started(name: str, *, lease_s: float) -> Running:
        connect = connector(connection.get_connection_params(), name=name)
        publisher = WatchedPublisher(confirms=True)
        node = Node(
            name,
            store=PostgresStore(connect, grace=timedelta(seconds=5)),
            publisher=publisher,
            coordinator=EtcdCoordinator(
                EtcdAddress(urls=(own_etcd.url,)),
                connect,
                prefix=unique,
                node=name,
                region="",
                shards=SHARDS,
                lease_s=lease_s,
            ),
            connect=connect,
            limits=LIMITS,
            renew_s=lease_s / 5,
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


def test_two_nodes_share_the_shards_and_one_that_ends_hands_its_own_over(start: Start) -> None:
    make_job()
    first, second = start("a", lease_s=5.0), start("b", lease_s=5.0)
    eventually(lambda: set(Shard.objects.values_list("owner", flat=True)) == {"a", "b"})
    first.stop()
    first.ended()
    eventually(lambda: set(Shard.objects.values_list("owner", flat=True)) == {"b"}, timeout_s=3)
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
