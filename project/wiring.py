"""Settings → store, publisher, coordinator → node: the one page that joins the parts.

============  ===========================  ===================================  ==================================
stop          node                         publisher                            coordinator
============  ===========================  ===================================  ==================================
1             engine, window 0             threads of this process              none: it takes every shard
2             poller                       RabbitMQ in batches, or kombu        none: row locks
3, 4          engine, window ahead         RabbitMQ in batches, or kombu        leases in Postgres, or in etcd
============  ===========================  ===================================  ==================================
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from datetime import timedelta
from math import inf
from typing import Any

from django.db import connection

from fairness import limiting
from fairness.queue_janitor import Janitor
from fairness.queue_map import QueueMap
from fairness.queues import QueueSpec
from project.celery import app, queue_plan
from project.environment.urls import is_amqp
from scheduling.broker.broker_queues import KombuQueues
from scheduling.broker.dead_letters import DeadLetterQueues
from scheduling.broker.in_process import InProcessPublisher
from scheduling.broker.kombu_publisher import KombuPublisher
from scheduling.broker.port import Publisher, QueueWatch
from scheduling.broker.queue_watch import KombuQueueWatch
from scheduling.broker.rabbitmq import RabbitMQPublisher
from scheduling.conf import Coordination, Cost, Fairness, SchedulingSettings, Stop, Store
from scheduling.coordination.etcd import EtcdCoordinator
from scheduling.coordination.etcd_gateway import EtcdAddress
from scheduling.coordination.port import Coordinator
from scheduling.coordination.postgres import PostgresCoordinator
from scheduling.coordination.single import SingleNode
from scheduling.core.clock import Clock
from scheduling.core.engine_limits import EngineLimits
from scheduling.core.fire import Fire, Lane
from scheduling.core.turn import FairLimits
from scheduling.node.admitting import Admitting
from scheduling.node.collector import Collector
from scheduling.node.node import Node
from scheduling.node.poll_limits import PollLimits
from scheduling.node.poller import Poller
from scheduling.node.share_keeper import LiveNodes
from scheduling.node.share_threads import Shares
from scheduling.services.run_node import Runnable
from scheduling.store.bucketed import BucketedStore
from scheduling.store.collect import CollectStore
from scheduling.store.connection import Connect, connector
from scheduling.store.permits import Permits
from scheduling.store.polling import PollingStore
from scheduling.store.port import ScheduleStore
from scheduling.store.postgres import PostgresStore


def build_node(settings: SchedulingSettings, *, node: str, region: str) -> Runnable:
    """The scheduler process of a deployment."""
    connect = connector(connection.get_connection_params(), name=node)
    queue_map = build_queue_map(settings, connect)
    publisher = build_publisher(settings, queue_map)
    alone = settings.STOP is Stop.ONE
    coordinator = build_coordinator(settings, connect, node=node, region=region)
    if settings.STOP is Stop.TWO:
        return Poller(
            node,
            store=PollingStore(
                connect,
                shards=settings.SHARDS,
                grace=_grace(settings),
                confirm_s=settings.CONFIRM_S,
                patience=timedelta(seconds=settings.START_PATIENCE_S),
            ),
            publisher=publisher,
            coordinator=coordinator,
            connect=connect,
            tick_s=settings.TICK_S,
            renew_s=settings.RENEW_S,
            confirm_s=settings.CONFIRM_S,
            batch=settings.BATCH,
            backlog=settings.BACKLOG,
            collector=build_collector(connect),
            queues=build_queue_watch(queue_map),
            limits=build_poll_limits(settings, connect, node=node),
            janitor=build_janitor(connect),
        )
    limits = EngineLimits(
        window_s=0.0 if alone else settings.WINDOW_S,
        poll_s=settings.TICK_S if alone else settings.POLL_S,
        batch=settings.BATCH,
        ahead=settings.AHEAD,
        backlog=settings.THREADS * 4 if alone else settings.BACKLOG,
        start_patience_s=inf if alone else settings.START_PATIENCE_S,  # alone: what is published has begun
        fairness=fair_limits(settings),
    )
    return Node(
        node,
        store=build_store(settings, connect),
        publisher=publisher,
        coordinator=coordinator,
        connect=connect,
        limits=limits,
        renew_s=settings.RENEW_S,
        alone=alone,
        collector=None if alone else build_collector(connect),
        queues=None if alone else build_queue_watch(queue_map),
        shares=build_shares(settings, node=node),
        janitor=None if alone else build_janitor(connect),
    )


def fair_limits(settings: SchedulingSettings) -> FairLimits | None:
    """How far the turns of a node go; None: whoever is due goes."""
    if settings.fairness is Fairness.OFF:
        return None
    is_fair = settings.fairness is Fairness.FAIR
    return FairLimits(
        bounds_lanes=is_fair,
        by_time=settings.COST is Cost.TIME,
        exchanges=is_fair,
        follows_all=settings.STOP is Stop.ONE,
    )


def build_shares(settings: SchedulingSettings, *, node: str) -> Shares | None:
    """What limits and shares go by: over Redis where there is one, else each node has its part."""
    if settings.fairness is Fairness.OFF:
        return None
    live = LiveNodes(node)
    common: dict[str, Any] = {"prefix": settings.QUEUE_PREFIX, "node": node, "nodes": live}
    return Shares(
        limiter=limiting.limiter(settings.REDIS_URL, **common),
        exchange=limiting.exchange(settings.REDIS_URL, **common) if settings.fairness is Fairness.FAIR else None,
        live=live,
    )


def build_poll_limits(
    settings: SchedulingSettings, connect: Connect, *, node: str
) -> Callable[[PollingStore, Clock], PollLimits] | None:
    """Of stop 2: by the poller's store and clock."""
    shares = build_shares(settings, node=node)
    if shares is None:
        return None
    return lambda store, clock: PollLimits(
        node,
        store=store,
        admitting=Admitting(Permits(connect, clock), shares.limiter),
        connect=connect,
        clock=clock,
        live=shares.live,
    )


def build_coordinator(settings: SchedulingSettings, connect: Connect, *, node: str, region: str) -> Coordinator:
    given: dict[str, Any] = {
        "node": node,
        "region": region,
        "shards": settings.SHARDS,
        "groups": settings.GROUPS,
        "lease_s": settings.LEASE_S,
        "weight": settings.CAPACITY,
    }
    if settings.COORDINATOR is Coordination.ETCD:
        address = EtcdAddress(
            urls=settings.ETCD_URLS,
            user=settings.ETCD_USER,
            ca=settings.ETCD_CA,
            cert=settings.ETCD_CERT,
            key=settings.ETCD_KEY,
        )
        return EtcdCoordinator(address, connect, prefix=settings.ETCD_PREFIX, **given)
    return (SingleNode if settings.STOP is Stop.ONE else PostgresCoordinator)(connect, **given)


def build_store(settings: SchedulingSettings, connect: Connect) -> ScheduleStore:
    """Of the stops whose shards have owners."""
    return (BucketedStore if settings.store is Store.BUCKETED else PostgresStore)(connect, grace=_grace(settings))


def _grace(settings: SchedulingSettings) -> timedelta:
    return timedelta(seconds=settings.FIRE_GRACE_S)


def build_publisher(settings: SchedulingSettings, queue_map: QueueMap) -> Publisher:
    """In-process at stop 1; RabbitMQ where the broker is one; kombu for any other broker."""
    if settings.STOP is Stop.ONE:
        from scheduling.worker.in_process import run_fire  # the other stops run nothing here

        return InProcessPublisher(run_fire, threads=settings.THREADS, capacity=settings.THREADS * 8)
    app.loader.import_default_modules()  # as beat does: what a message says of its task is what the task says
    url = app.conf.broker_url
    publisher = RabbitMQPublisher if is_amqp(url) else KombuPublisher
    origin = f"fairbeat{os.getpid()}@{socket.gethostname()}"

    def queue_for(fire: Fire) -> QueueSpec:
        work = fire.work
        return queue_map.queue_for(work.tenant, work.tenant_id, work.lane)

    return publisher(
        url,
        origin=origin,
        ignore_result=_ignore_result,
        queue_for=queue_for,
        on_missing=queue_map.missing,
        on_stop=queue_map.close,
        mask=settings.mask,
    )


def build_queue_map(settings: SchedulingSettings, connect: Connect) -> QueueMap:
    """Of a process; it does nothing until it is asked."""
    return QueueMap(queue_plan(), connect, dedicated=settings.DEDICATED_QUEUES, shared=settings.SHARED_QUEUES)


def build_queue_watch(queue_map: QueueMap) -> QueueWatch:
    """Of any broker."""

    def queues_of(fire: Fire) -> list[str]:
        return queue_map.queues_of(fire.work.tenant, fire.work.tenant_id, fire.work.lane)

    return KombuQueueWatch(app.conf.broker_url, queues_of=queues_of)


def build_janitor(connect: Connect) -> Janitor:
    """Of the queues of any broker."""
    return Janitor(connect, KombuQueues(app.conf.broker_url))


def build_collector(connect: Connect) -> Collector | None:
    """Of what a RabbitMQ dead-letters; other brokers do no such thing."""
    url, plan = app.conf.broker_url, queue_plan()
    if not is_amqp(url):
        return None

    queues = DeadLetterQueues(url, [plan.dead_letters(lane) for lane in Lane])
    return Collector(queues, CollectStore(connect, owner_of=plan.owner_of))


def _ignore_result(task: str) -> bool | None:
    """What Celery itself would send: the task's own word, None for a task that is not registered here."""
    found = app.tasks.get(task)
    return None if found is None else bool(found.ignore_result)
