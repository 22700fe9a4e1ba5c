"""When a node renews its lease: in step, sooner for news, and not for each piece of it."""

from __future__ import annotations

import time
from threading import Condition

import pytest
from django.db import connection

from scheduling.coordination.memory import Fleet, MemoryCoordinator
from scheduling.coordination.port import Assignment
from scheduling.node.lease_keeper import PAUSE_S, LeaseKeeper
from scheduling.store.connection import connector
from scheduling.store.database_clock import DatabaseClock
from tests.processes import PATIENCE_S, eventually

LONG_S = 1000.0


class Kept:
    """A lease keeper of a node among others, and when it renewed."""

    def __init__(self, fleet: Fleet, clock: DatabaseClock, *, renew_s: float) -> None:
        self.renewals: list[float] = []
        self._changed = Condition()
        self.keeper = LeaseKeeper(
            MemoryCoordinator(fleet, node="a", lease_s=LONG_S),
            clock,
            connector(connection.get_connection_params(), name="a"),
            renew_s=renew_s,
            on_assignment=self._note,
        )
        self.keeper.watch()
        self.keeper.start()

    def _note(self, _: Assignment) -> None:
        with self._changed:
            self.renewals.append(time.monotonic())
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.renewals) >= count, PATIENCE_S), (
                f"{len(self.renewals)} renewals"
            )


@pytest.fixture
def fleet(committed_db: None) -> Fleet:
    return Fleet(DatabaseClock(), shards=4, owners={})


def test_it_renews_in_step(fleet: Fleet) -> None:
    kept = Kept(fleet, DatabaseClock(), renew_s=0.05)
    kept.wait_for(4)
    kept.keeper.leave(timeout_s=5)
    assert kept.renewals[3] - kept.renewals[0] > 0.1


def test_it_renews_at_once_when_another_node_comes_or_goes(fleet: Fleet) -> None:
    kept = Kept(fleet, DatabaseClock(), renew_s=LONG_S)
    other = MemoryCoordinator(fleet, node="b", lease_s=LONG_S)
    other.join()
    kept.wait_for(2)
    other.leave()
    kept.wait_for(3)
    kept.keeper.leave(timeout_s=5)


def test_a_burst_of_news_is_one_renewal(fleet: Fleet) -> None:
    kept = Kept(fleet, DatabaseClock(), renew_s=LONG_S)
    for _ in range(1000):
        kept.keeper.renew_soon()
    kept.wait_for(2)
    for _ in range(1000):
        kept.keeper.renew_soon()
    kept.wait_for(3)
    kept.keeper.leave(timeout_s=5)
    took_s = kept.renewals[-1] - kept.renewals[0]
    assert len(kept.renewals) <= 2 + took_s / PAUSE_S


def test_it_renews_when_the_lease_of_another_may_have_run_out(fleet: Fleet) -> None:
    MemoryCoordinator(fleet, node="b", lease_s=0.3).join()
    kept = Kept(fleet, DatabaseClock(), renew_s=LONG_S)
    kept.wait_for(2)
    kept.keeper.leave(timeout_s=5)
    assert "b" not in fleet.members()


def test_what_is_drained_is_released_and_said_so(fleet: Fleet) -> None:
    fleet.owners.update({1: "a", 2: "a"})
    kept = Kept(fleet, DatabaseClock(), renew_s=LONG_S)
    said: list[int] = []
    kept.keeper.release(frozenset({1}), lambda: said.append(1))
    eventually(lambda: said == [1])
    assert fleet.owners == {2: "a"}
    kept.keeper.leave(timeout_s=5)


def test_who_leaves_frees_all_and_renews_no_more(fleet: Fleet) -> None:
    fleet.owners.update({1: "a", 2: "b"})
    kept = Kept(fleet, DatabaseClock(), renew_s=0.01)
    kept.keeper.leave(timeout_s=5)
    assert fleet.owners == {2: "b"}
    assert "a" not in fleet.members()
