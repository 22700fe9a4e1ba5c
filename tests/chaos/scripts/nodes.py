"""What happens to scheduler nodes: they die, freeze, come and go, and their wall clocks are wrong."""

from __future__ import annotations

import time

from django.conf import settings
from django.core.management import call_command

from scheduling.conf import scheduling_settings
from scheduling.failpoints import VARIABLE, Point
from tests.chaos.fleet import NodeHost
from tests.chaos.load import MAKING, Group, make_more
from tests.chaos.registry import scenario
from tests.chaos.settings import SHARDS_VARIABLE
from tests.chaos.stage import POLL_S, Act

MORE_SHARDS, MORE = 32, Group("acme", "more", 12, 2.0)
DYING_S = 3.0  # what is left of a fault's time for the take-over of a node that is dead

_OFTEN = (
    Point.CLAIM_BEFORE,
    Point.CLAIM_COMMITTED,
    Point.PUBLISH_BEFORE,
    Point.PUBLISH_SENT,
    Point.PUBLISH_CONFIRMED,
    Point.RECORD_BEFORE,
    Point.RECORD_COMMITTED,
)


@scenario("1", *_OFTEN, Point.TAKE_OVER_BEFORE, Point.TAKE_OVER_COMMITTED)
def _killed_at_work(act: Act) -> None:
    _dies(act, _doomed(act, hit=act.rng.randint(2, 12) if act.injection.variant in _OFTEN else 1))


@scenario("1", Point.HAND_OVER_DRAINED, Point.HAND_OVER_RELEASED)
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


@scenario("2", "frozen")
def _frozen(act: Act) -> None:
    host = act.pick(act.fleet.nodes)
    frozen_at = time.monotonic()
    host.freeze()
    act.is_taken_over(since=frozen_at)
    act.lasts(act.rng.uniform(3.0, 5.0), since=frozen_at)
    host.wake()
    act.heals()
    act.recovers()


@scenario("15", "+5", "-5", "+3600", "-3600")
def _wrong_clock(act: Act) -> None:
    host = act.pick(act.fleet.nodes)
    host.set_clock(float(act.injection.variant))
    act.lasts(4.0)
    host.set_clock(0.0)
    act.heals()
    act.recovers()


@scenario("19", "joining and leaving")
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


@scenario("19", "shards added")
def _shards_added(act: Act) -> None:
    """As the manual says: migrate with more of them, then restart the nodes. Of the first two settings are in force."""
    shards = scheduling_settings(settings).SHARDS + MORE_SHARDS
    settings.SCHEDULING = settings.SCHEDULING | {"SHARDS": shards}
    call_command("migrate", verbosity=0, interactive=False)
    make_more(MORE, start_at=act.now() + MAKING, end_at=act.stage.load_ends_at)
    act.leaves_database()
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


@scenario("20", "node")
def _node_killed_while_it_drains(act: Act) -> None:
    host = act.pick(act.fleet.nodes)
    host.terminate()
    time.sleep(act.rng.uniform(0.0, 0.15))
    host.kill()
    killed_at = time.monotonic()
    act.heals(at=killed_at)
    act.is_taken_over(since=killed_at)
    act.recovers()
