"""What happens to workers: they and their processes are killed, their leases run out, what they run is poison."""

from __future__ import annotations

import time
from datetime import timedelta

from scheduling.failpoints import VARIABLE, Point
from scheduling.models import Job
from tests.chaos.load import GREEDY, MAKING, MORTAL, Group, make_more
from tests.chaos.registry import scenario
from tests.chaos.settings import FIRE_LEASE_S
from tests.chaos.stage import Act
from tests.proxy import Way

SLOW = Group("acme", "slow", 8, None, work_s=3.0)  # there are runs whose leases can be outlived
DYING_S = 5.0  # in which every process of a worker gets to the point at which it dies, again and again
PAST_LEASE_S = FIRE_LEASE_S + 1.0
EACH_S = 0.3  # from one killed process to the next
DEATHS = 2
POISON = {"max_attempts": 3, "retry_base": timedelta(seconds=0.2), "retry_cap": timedelta(seconds=1)}


@scenario("20", "worker")
def _killed_while_it_drains(act: Act) -> None:
    """There are runs that last longer than we wait."""
    host = act.pick(act.fleet.workers)
    host.terminate()
    act.lasts(act.rng.uniform(0.3, 2.0))
    host.kill()
    host.start()
    act.heals()
    act.recovers()


@scenario("10", Point.ACQUIRE_BEFORE, Point.ACQUIRE_COMMITTED, Point.COMPLETE_BEFORE, Point.COMPLETE_COMMITTED)
def _killed_at_work(act: Act) -> None:
    """Each of its processes, and each that takes the place of one that died."""
    host = act.pick(act.fleet.workers)
    host.kill()
    host.start(**{VARIABLE: f"{act.injection.variant}=kill#{act.rng.randint(2, 12)}"})
    act.lasts(DYING_S)
    host.kill()
    host.start()
    act.heals()
    act.recovers()


@scenario("10", "whole worker")
def _killed(act: Act) -> None:
    host = act.pick(act.fleet.workers)
    for _ in range(2):
        host.kill()
        host.start()
        act.lasts(act.rng.uniform(1.0, 3.0))
    act.heals()
    act.recovers()


@scenario("10", "frozen past its leases")
def _frozen(act: Act) -> None:
    host = act.pick(act.fleet.workers)
    _make_some(act, SLOW)
    began = time.monotonic()
    host.freeze()
    act.lasts(PAST_LEASE_S, since=began)
    host.wake()
    act.heals()
    act.recovers()


@scenario("10", "cannot renew its leases")
def _cannot_renew(act: Act) -> None:
    host = act.pick(act.fleet.workers)
    _make_some(act, SLOW)
    began = time.monotonic()
    host.postgres.hold(*Way)
    act.lasts(PAST_LEASE_S, since=began)
    act.network_heals(host)


@scenario("10", "out of memory")
def _out_of_memory(act: Act) -> None:
    """Some runs are refused what they want, some end with their process, and the kernel ends whom it likes."""
    _make_some(
        act,
        Group("acme", "greedy", 4, None, task=GREEDY, options={"kwargs": {"mib": 1024}}),
        Group("bakery", "mortal", 4, None, task=MORTAL, options={"kwargs": {"deaths": DEATHS}}),
    )
    ends_at = time.monotonic() + DYING_S
    while time.monotonic() < ends_at:
        act.pick(act.fleet.workers).kill_child(act.rng)
        act.lasts(EACH_S)
    act.heals()
    act.recovers()


@scenario("10", "poison")
def _poison(act: Act) -> None:
    """Every attempt ends with its process: after the last one it is a dead letter."""
    group = Group("city", "poison", 4, None, task=MORTAL, options={"kwargs": {"deaths": 1_000_000}, **POISON})
    act.deeds.may_die((job.pk for job in _make_some(act, group)), "attempts_exhausted")
    act.lasts(DYING_S)
    act.heals()
    act.recovers()


def _make_some(act: Act, *groups: Group) -> list[Job]:
    """Jobs that fire once, and have just begun to run."""
    at = act.now() + MAKING
    jobs = [job for group in groups for job in make_more(group, start_at=at, end_at=at)]
    act.leaves_database()
    act.lasts(MAKING.total_seconds() + 0.5)
    return jobs
