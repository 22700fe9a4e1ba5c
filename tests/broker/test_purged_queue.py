"""A queue of a real broker is purged, or deleted, under a node: what was in it comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from django.db import connection

from scheduling.broker.queue_watch import KombuQueueWatch
from scheduling.coordination.postgres import PostgresCoordinator
from scheduling.models import Fire, Job, JobClock, WorkerTask
from scheduling.node.node import Node
from scheduling.store.connection import connector
from scheduling.store.postgres import PostgresStore
from tests import committed
from tests.broker.conftest import MakeRabbitMQ, Queues
from tests.engine_desk import LIMITS
from tests.processes import PATIENCE_S, eventually

committed_db = committed.committed_db
test_database = committed.test_database

TASK = "tests.guarded"
TENANT, LANE = "default", "transactional"
SHARDS = 64


@pytest.fixture
def _node(committed_db: None, rabbitmq_publisher: MakeRabbitMQ, queues: Queues, rabbitmq_url: str) -> Iterator[None]:
    """A node of stop 3 that publishes to the broker, and is patient for half a second."""
    connect = connector(connection.get_connection_params(), name="a")
    node = Node(
        "a",
        store=PostgresStore(connect),
        publisher=rabbitmq_publisher(),
        coordinator=PostgresCoordinator(connect, node="a", region="", shards=SHARDS, lease_s=5.0),
        connect=connect,
        limits=replace(LIMITS, start_patience_s=0.5),
        renew_s=0.2,
        queues=KombuQueueWatch(rabbitmq_url, queues_of=queues.names_of),
    )
    thread = Thread(target=node.run, daemon=True)
    thread.start()
    yield
    node.stop()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def purge(queues: Queues) -> None:
    queues.channel.queue_purge(queues.of(TENANT, LANE).name)


def delete(queues: Queues) -> None:
    queues.channel.queue_delete(queues.of(TENANT, LANE).name)


def size(queues: Queues) -> int:
    """Also where it was just deleted: a look at a missing queue closes the channel."""
    with queues.channel.connection.client.clone() as client:
        channel: Any = client.channel()
        try:
            return int(channel.queue_declare(queues.of(TENANT, LANE).name, passive=True).message_count)
        except client.channel_errors:
            return 0


@pytest.mark.usefixtures("_node")
@pytest.mark.parametrize("vanish", [purge, delete])
def test_what_was_in_it_is_published_again_under_the_same_fence(
    vanish: Callable[[Queues], None], queues: Queues
) -> None:
    now = JobClock.objects.now()
    for number in range(3):
        Job.objects.once(TASK, now, name=f"job {number}", lane=LANE)
    eventually(lambda: size(queues) == 3, interval_s=0.1)
    eventually(lambda: not beyond_the_watermarks())
    vanish(queues)
    Fire.objects.update(claimed_at=now - timedelta(hours=1))
    WorkerTask.objects.create(name=TASK, is_guarded=True, seen_at=now)  # from now on they are looked after, all at once
    eventually(lambda: size(queues) == 3, interval_s=0.1)
    assert not Fire.objects.filter(sent_again_at=None).exists()
    eventually(lambda: not beyond_the_watermarks())
    assert set(Fire.objects.values_list("fence", "state")) == {(1, "claimed")}


def beyond_the_watermarks() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM scheduling_fire f JOIN scheduling_shardprogress p ON p.shard_id = f.shard_id"
            " WHERE f.state = 'claimed' AND (f.seq_epoch, f.seq) > (p.seq_epoch, p.seq)"
        )
        return int(cursor.fetchone()[0])
