"""The faults, each as a short script. Their numbers are those of the list of faults that the product must survive."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import kombu
import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import connection

from project.celery import queue_plan
from scheduling.conf import scheduling_settings
from scheduling.core.fire import Lane
from scheduling.failpoints import VARIABLE, Point
from scheduling.models import JobClock
from tests.chaos.fleet import Host, NodeHost
from tests.chaos.load import RARE, RARE_EVERY_S, make_more
from tests.chaos.monitor import NAME
from tests.chaos.order import Injection
from tests.chaos.settings import SHARDS_VARIABLE
from tests.chaos.stage import POLL_S, WARM_UP_S, Act, Stage
from tests.proxy import Way

TITLES = {
    "1": "a node is killed at a step of its work",
    "2": "a node is frozen past its lease, then woken",
    "3": "a node is cut off from the coordinator alone",
    "4": "Postgres restarts as from a crash; sessions are ended, 5 a second",
    "5": "committed, but the caller saw the connection end",
    "6": "RabbitMQ is killed and started again; its memory alarm; it stalls",
    "7": "confirms lost; a full queue refuses; a queue is deleted",
    "11": "etcd loses its leader; its majority",
    "13": "one-way partitions between a node and etcd, or Postgres",
    "15": "the wall clock of a node jumps by 5 s, by an hour",
    "19": "nodes join and leave; shards are added",
    "20": "SIGTERM, then SIGKILL while it drains",
}

MORE_SHARDS, MAKING = 32, timedelta(seconds=1)
DYING_S = 3.0  # what is left of a fault's time for the take-over of a node that is dead

Script = Callable[[Act], None]
_scripts: dict[str, dict[str, Script]] = {number: {} for number in TITLES}


def _scenario(number: str, *variants: str) -> Callable[[Script], Script]:
    def register(script: Script) -> Script:
        _scripts[number].update(dict.fromkeys(variants, script))
        return script

    return register


def scenarios() -> dict[str, list[str]]:
    """The variants of each."""
    return {number: list(scripts) for number, scripts in _scripts.items()}


def carry_out(stage: Stage, injection: Injection) -> Act:
    """Warm up, fault, heal, recover."""
    act = Act(stage, injection)
    act.lasts(WARM_UP_S + act.rng.random())  # at no fixed moment of a second
    _scripts[injection.scenario][injection.variant](act)
    act.ends()
    return act


# -- nodes ------------------------------------------------------------------------------------------------------

_OFTEN = (
    Point.CLAIM_BEFORE,
    Point.CLAIM_COMMITTED,
    Point.PUBLISH_BEFORE,
    Point.PUBLISH_SENT,
    Point.PUBLISH_CONFIRMED,
    Point.RECORD_BEFORE,
    Point.RECORD_COMMITTED,
)


@_scenario("1", *_OFTEN, Point.TAKE_OVER_BEFORE, Point.TAKE_OVER_COMMITTED)
def _killed_at_work(act: Act) -> None:
    _dies(act, _doomed(act, hit=act.rng.randint(2, 12) if act.injection.variant in _OFTEN else 1))


@_scenario("1", Point.HAND_OVER_DRAINED, Point.HAND_OVER_RELEASED)
def _killed_while_handing_over(act: Act) -> None:
    """To another node that joins; or to all, if that one came first: then this one is told to end."""
    host = _doomed(act, hit=1)
    act.lasts(0.5)
    act.fleet.spare.start()
    act.joins(host, spare_s=DYING_S + 1.0)
    act.joins(act.fleet.spare, spare_s=DYING_S + 1.0)
    host.terminate()
    _dies(act, host)


def _doomed(act: Act, *, hit: int) -> NodeHost:
    """A node that is started anew, to die when it gets to the point for the so many-th time; not to be revived then."""
    host: NodeHost = act.pick(act.fleet.nodes)
    host.stop()
    host.start(**{VARIABLE: f"{act.injection.variant}=kill#{hit}"})
    host.is_wanted = False
    return host


def _dies(act: Act, host: NodeHost) -> None:
    while host.is_running and time.monotonic() < act.until - DYING_S:
        time.sleep(POLL_S)
    if host.is_running:
        act.note = "the point was not reached: killed nevertheless"
        host.kill()
    died_at = time.monotonic()
    act.heals(at=died_at)
    act.is_taken_over(since=died_at)
    act.recovers()


@_scenario("2", "frozen")
def _frozen(act: Act) -> None:
    host = act.pick(act.fleet.nodes)
    frozen_at = time.monotonic()
    host.freeze()
    act.is_taken_over(since=frozen_at)
    act.lasts(act.rng.uniform(3.0, 5.0), since=frozen_at)
    host.wake()
    act.heals()
    act.recovers()


@_scenario("15", "+5", "-5", "+3600", "-3600")
def _wrong_clock(act: Act) -> None:
    host = act.pick(act.fleet.nodes)
    host.set_clock(float(act.injection.variant))
    act.lasts(4.0)
    host.set_clock(0.0)
    act.heals()
    act.recovers()


@_scenario("19", "joining and leaving")
def _come_and_go(act: Act) -> None:
    leaver = act.pick(act.fleet.nodes)
    act.fleet.spare.start()
    act.joins(act.fleet.spare, spare_s=6.0)
    leaver.stop()
    act.lasts(act.rng.random())
    leaver.start()
    act.joins(leaver, spare_s=2.0)
    act.fleet.spare.stop()
    act.heals()
    act.recovers()


@_scenario("19", "shards added")
def _shards_added(act: Act) -> None:
    """As the manual says: migrate with more of them, then restart the nodes. Of the first two settings are in force."""
    shards = scheduling_settings(settings).SHARDS + MORE_SHARDS
    settings.SCHEDULING = settings.SCHEDULING | {"SHARDS": shards}
    call_command("migrate", verbosity=0, interactive=False)
    start_at = JobClock.objects.now() + MAKING  # a job has no occurrence before it was made
    make_more(start_at=start_at, end_at=act.stage.load_ends_at)
    connection.close()  # faults would break it
    for host in act.fleet.hosts:
        host.tell(**{SHARDS_VARIABLE: str(shards)})
    first, *others = act.rng.sample(act.fleet.nodes, len(act.fleet.nodes))
    _restart(first)
    act.joins(first, spare_s=6.0)
    _restart(*others)
    act.heals()
    act.recovers()


def _restart(*hosts: NodeHost) -> None:
    for host in hosts:
        host.terminate()
    for host in hosts:
        host.stop()
        host.start()


@_scenario("20", "node")
def _node_killed_while_it_drains(act: Act) -> None:
    host = act.pick(act.fleet.nodes)
    host.terminate()
    time.sleep(act.rng.uniform(0.0, 0.15))
    host.kill()
    killed_at = time.monotonic()
    act.heals(at=killed_at)
    act.is_taken_over(since=killed_at)
    act.recovers()


@_scenario("20", "worker")
def _worker_killed_while_it_drains(act: Act) -> None:
    """There are runs that last longer than we wait."""
    host = act.pick(act.fleet.workers)
    host.terminate()
    act.lasts(act.rng.uniform(0.3, 2.0))
    host.kill()
    host.start()
    act.heals()
    act.recovers()


# -- the network ------------------------------------------------------------------------------------------------


@_scenario("3", "cut off")
def _cut_off_from_coordinator(act: Act) -> None:
    host = act.pick(act.fleet.nodes)
    for proxy in host.etcd:
        proxy.cut(refuse=True)
    act.lasts(act.rng.uniform(3.0, 5.0))
    _heal_network(act, host)


@_scenario("13", "does not hear etcd", "is not heard by etcd", "does not hear Postgres", "is not heard by Postgres")
def _one_way(act: Act) -> None:
    host = act.pick(act.fleet.nodes)
    way = Way.BACK if "hear " in act.injection.variant else Way.FORTH
    for proxy in host.etcd if act.injection.variant.endswith("etcd") else [host.postgres]:
        proxy.hold(way)
    act.lasts(act.rng.uniform(3.0, 5.0))
    _heal_network(act, host)


@_scenario("5", "replies lost")
def _replies_lost(act: Act) -> None:
    """Of commits one in ten, of other statements (each its own transaction) one in a hundred."""
    hosts = [*act.fleet.nodes, *act.fleet.workers]
    for host in hosts:
        host.postgres.lose_replies(lambda said: act.rng.random() < (0.1 if b"COMMIT" in said else 0.01))
    act.lasts(4.0)
    _heal_network(act, *hosts)


def _heal_network(act: Act, *hosts: Host) -> None:
    for host in hosts:
        host.mend()
    act.heals()
    act.recovers()


# -- services ---------------------------------------------------------------------------------------------------


@_scenario("4", "restarted")
def _postgres_restarts(act: Act) -> None:
    act.services.postgres.stop(signal.SIGQUIT)
    act.lasts(act.rng.uniform(0.0, 2.0))
    act.services.postgres.start()
    act.heals()
    act.recovers()


@_scenario("4", "sessions ended")
def _sessions_ended(act: Act) -> None:
    with psycopg.connect(act.services.postgres.url, autocommit=True, application_name=NAME) as connection:
        for _ in range(20):
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM ("
                " SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> %s"
                " ORDER BY random() LIMIT 1) one",
                [NAME],
            )
            act.lasts(0.2)
    act.heals()
    act.recovers()


@_scenario("6", "killed")
def _rabbitmq_killed(act: Act) -> None:
    act.services.rabbitmq.kill()
    act.services.rabbitmq.start()
    act.heals()
    act.recovers()


@_scenario("6", "memory alarm")
def _memory_alarm(act: Act) -> None:
    """The broker blocks every connection that publishes."""
    act.services.rabbitmq.control("set_vm_memory_high_watermark", "0.00001")
    act.lasts(2.0)
    act.services.rabbitmq.control("set_vm_memory_high_watermark", "0.4")
    act.heals()
    act.recovers()


@_scenario("6", "stalled")
def _rabbitmq_stalls(act: Act) -> None:
    hosts = [*act.fleet.nodes, *act.fleet.workers]
    for host in hosts:
        host.rabbitmq.hold(*Way)
    act.lasts(act.rng.uniform(2.0, 4.0))
    _heal_network(act, *hosts)


@_scenario("7", "confirms lost")
def _confirms_lost(act: Act) -> None:
    for _ in range(3):
        for host in act.fleet.nodes:
            host.rabbitmq.hold(Way.BACK)
        act.lasts(0.7)
        for host in act.fleet.nodes:
            host.rabbitmq.cut()
        act.lasts(0.5)
    act.heals()
    act.recovers()


@_scenario("7", "refused by a full queue")
def _queue_full(act: Act) -> None:
    """Queues may hold next to nothing for a while, in which the workers stand still."""
    act.services.rabbitmq.control("set_policy", "full", "^fairbeat[.]", '{"max-length": 10}', "--apply-to", "queues")
    for host in act.fleet.workers:
        host.freeze()
    act.lasts(2.0)
    for host in act.fleet.workers:
        host.wake()
    act.services.rabbitmq.control("clear_policy", "full")
    act.heals()
    act.recovers()


@_scenario("7", "deleted queue")
def _queue_deleted(act: Act) -> None:
    """At a moment at which nothing is in it or on its way to a worker: what was would be lost with it. The next message
    is returned, and makes it anew.
    """
    quiet = """
        SELECT extract(epoch FROM clock_timestamp())::float8, count(f.id)
        FROM fairness_tenant t
        LEFT JOIN scheduling_fire f ON f.tenant_id = t.id AND f.state NOT IN ('succeeded', 'skipped')
        WHERE t.slug = %s
    """
    with psycopg.connect(act.services.postgres.url, autocommit=True, application_name=NAME) as connection:
        for _ in range(80):
            now, unfinished = connection.execute(quiet, [RARE]).fetchone() or (0.0, 1)
            if not unfinished and 0.3 < now % RARE_EVERY_S < RARE_EVERY_S - 1.5:
                with kombu.Connection(act.services.rabbitmq.url) as broker:
                    channel: Any = broker.default_channel
                    channel.queue_delete(queue_plan().queue_name(RARE, Lane.BULK))
                act.lasts(RARE_EVERY_S + 0.3 - now % RARE_EVERY_S)
                break
            act.lasts(0.1)
        else:
            act.note = "its queue was never empty: nothing was deleted"
    act.heals()
    act.recovers()


@_scenario("11", "leader killed")
def _etcd_leader_killed(act: Act) -> None:
    leader = act.services.etcd.leader()
    leader.kill()
    act.lasts(3.0)
    act.services.etcd.start_again(leader)
    act.heals()
    act.recovers()


@_scenario("11", "majority lost")
def _etcd_majority_lost(act: Act) -> None:
    lost = act.rng.sample(act.services.etcd.members, 2)
    for member in lost:
        member.kill()
    act.lasts(act.rng.uniform(2.0, 4.0))
    act.services.etcd.start_again(*lost)
    act.heals()
    act.recovers()
