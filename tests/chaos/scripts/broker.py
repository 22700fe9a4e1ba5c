"""What happens to RabbitMQ, its confirms and its queues."""

from __future__ import annotations

import time
from datetime import datetime

import psycopg

from tests.chaos.evidence import unread
from tests.chaos.load import RARE, RARE_EVERY_S, TENANTS
from tests.chaos.mail import Mail, queue_of
from tests.chaos.monitor import NAME
from tests.chaos.registry import scenario
from tests.chaos.stage import Act
from tests.proxy import Way


@scenario("6", "killed")
def _rabbitmq_killed(act: Act) -> None:
    act.services.rabbitmq.kill()
    act.services.rabbitmq.start()
    act.heals()
    act.recovers()


@scenario("6", "memory alarm")
def _memory_alarm(act: Act) -> None:
    """The broker blocks every connection that publishes."""
    act.services.rabbitmq.control("set_vm_memory_high_watermark", "0.00001")
    act.lasts(2.0)
    act.services.rabbitmq.control("set_vm_memory_high_watermark", "0.4")
    act.heals()
    act.recovers()


@scenario("6", "stalled")
def _rabbitmq_stalls(act: Act) -> None:
    hosts = [*act.fleet.nodes, *act.fleet.workers]
    for host in hosts:
        host.rabbitmq.hold(*Way)
    act.lasts(act.rng.uniform(2.0, 4.0))
    act.network_heals(*hosts)


@scenario("7", "confirms lost")
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


@scenario("7", "refused by a full queue")
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


@scenario("7", "deleted queue")
def _queue_deleted(act: Act) -> None:
    """At a moment at which nothing is in it or on its way to a worker: the next message is returned, and makes it
    anew.
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
                with Mail(act.services.rabbitmq.url) as mail:
                    mail.delete(queue_of(RARE))
                act.lasts(RARE_EVERY_S + 0.3 - now % RARE_EVERY_S)
                break
            act.lasts(0.1)
        else:
            act.note = "its queue was never empty: nothing was deleted"
    act.heals()
    act.recovers()


@scenario("7", "purged queues", "deleted queues with messages in them")
def _messages_vanish(act: Act) -> None:
    """Behind their confirms, while the workers stand still: the owners of their fires have to notice, and to send them
    once more.
    """
    for host in act.fleet.workers:
        host.freeze()
    act.lasts(1.0)
    with Mail(act.services.rabbitmq.url) as mail:
        vanish = mail.delete if act.injection.variant.startswith("deleted") else mail.purge
        gone = sum(vanish(queue_of(tenant)) for tenant in TENANTS)
    vanished_at = act.now()
    act.deeds.marks -= unread(act.deeds)  # nonsense that had not been refused yet: nobody has anything to send again
    act.leaves_database()
    for host in act.fleet.workers:
        host.wake()
    act.heals()
    act.recovers()
    act.note = f"{gone} messages gone; {_still_unstarted(act, vanished_at)} of their fires not yet begun"


def _still_unstarted(act: Act, vanished_at: datetime) -> int:
    """Waits until none is left, or the fault's time is over."""
    unstarted = "SELECT count(*) FROM scheduling_fire WHERE state = 'claimed' AND fire_at < %s - interval '0.1 s'"
    with psycopg.connect(act.services.postgres.url, autocommit=True, application_name=NAME) as connection:
        while True:
            (count,) = connection.execute(unstarted, [vanished_at]).fetchone() or (0,)
            if not count or time.monotonic() > act.until - 1.0:
                return int(count)
            act.lasts(0.1)
