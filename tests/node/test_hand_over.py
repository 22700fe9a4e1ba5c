"""Shards on their way from node to node, under load: only the broker is in memory.

Where nodes renew so rarely, what happens within a test happened because somebody was told.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from scheduling import failpoints
from scheduling.coordination.postgres import PostgresCoordinator
from scheduling.core.sharding import assign
from scheduling.failpoints import FailpointReached, Point
from scheduling.models import Fire, Job, JobClock
from scheduling.node import node as node_module
from tests.node.conftest import SHARDS, Running, Start
from tests.node.test_node import TASK, beyond_the_watermarks, due_jobs, owners, owns_all, vanish
from tests.processes import eventually

SHARES = assign(SHARDS, {"a": 1.0, "b": 1.0})
RARELY: dict[str, Any] = {"renew_s": 60.0, "lease_s": 200.0}
LIKE_A_BROKER: dict[str, Any] = {"confirm_after_s": 0.03}
JOBS, RUNS = 30, 20


class Failing:
    """Fails so many times."""

    def __init__(self, times: int) -> None:
        self._left = times

    def __call__(self) -> None:
        if self._left:
            self._left -= 1
            raise FailpointReached("not yet")


def load() -> set[UUID]:
    """Jobs that fire ten times a second each, for two seconds. They are there at once: one that is made later may fire
    before what was claimed before it, and the watermark waits then.
    """
    step, now = timedelta(milliseconds=100), JobClock.objects.now()
    with transaction.atomic():
        return {Job.objects.every(TASK, step, anchor=now, max_runs=RUNS, name=f"load {n}").pk for n in range(JOBS)}


def published(*nodes: Running) -> Counter[UUID]:
    """How often each fire was."""
    return Counter(fire.id for node in nodes for fire in node.publisher.published)


def expect_each_once(jobs: set[UUID], *nodes: Running) -> None:
    eventually(lambda: len(published(*nodes)) >= JOBS * RUNS)
    assert set(published(*nodes).values()) == {1}, "published twice"
    fires = Counter(fire.work.job_id for node in nodes for fire in node.publisher.published)
    assert fires == dict.fromkeys(jobs, RUNS)
    eventually(lambda: beyond_the_watermarks() == 0)
    assert set(Fire.objects.values_list("state", flat=True)) == {"claimed"}


def test_a_node_that_joins_gets_its_share_at_once_and_nothing_is_lost_or_published_twice(start: Start) -> None:
    first = start("a", **RARELY, **LIKE_A_BROKER)
    eventually(lambda: owns_all("a"))
    jobs = load()
    first.publisher.wait_for(JOBS * 3)
    second = start("b", **RARELY, **LIKE_A_BROKER)
    eventually(lambda: owners() == SHARES)
    expect_each_once(jobs, first, second)
    assert second.publisher.published


def test_a_node_that_ends_is_followed_at_once_and_nothing_is_lost_or_published_twice(start: Start) -> None:
    first = start("a", **RARELY, **LIKE_A_BROKER)
    eventually(lambda: owns_all("a"))
    second = start("b", **RARELY, **LIKE_A_BROKER)
    eventually(lambda: owners() == SHARES)
    jobs = load()
    second.publisher.wait_for(JOBS * 3)
    second.stop()
    eventually(lambda: owns_all("a"))
    assert second.ended() is None
    expect_each_once(jobs, first, second)


def test_a_broker_that_says_nothing_holds_no_shard_and_its_fires_are_published_under_a_higher_fence(
    start: Start,
) -> None:
    jobs = due_jobs(30)
    first = start("a", confirms=False, **RARELY)
    assert len(first.publisher.wait_for(30)) == 30
    second = start("b", **RARELY)
    eventually(lambda: owners() == SHARES)
    theirs = {fire.work.job_id for fire in first.publisher.published if fire.work.shard in SHARES["b"]}
    eventually(lambda: {fire.work.job_id for fire in second.publisher.published} == theirs)
    assert theirs < jobs
    assert {fire.fence for fire in second.publisher.published} == {2}


def test_a_take_over_that_failed_is_tried_again_at_once(start: Start) -> None:
    with failpoints.armed(Point.TAKE_OVER_BEFORE, Failing(2)):
        start("a", **RARELY)
        eventually(lambda: owns_all("a"))


def test_a_dead_nodes_shards_are_taken_when_its_lease_is_out_and_not_at_some_later_renewal(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    start("a", **RARELY)
    eventually(lambda: owns_all("a"))
    second = start("b", renew_s=0.2, lease_s=1.0)
    eventually(lambda: owners() == SHARES)
    monkeypatch.setattr(node_module, "DRAIN_S", 0.0)
    monkeypatch.setattr(PostgresCoordinator, "leave", vanish)
    second.stop()
    second.ended()
    eventually(lambda: owns_all("a"))


def test_a_release_that_failed_is_made_again(start: Start) -> None:
    start("a", **RARELY)
    eventually(lambda: owns_all("a"))
    with failpoints.armed(Point.HAND_OVER_DRAINED, Failing(2)):
        start("b", **RARELY)
        eventually(lambda: owners() == SHARES)
