"""Nodes and workers that die in a test, and what becomes of what they left."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from scheduling import InvalidField
from scheduling.failpoints import Point
from scheduling.models import Fire, Job, JobRun
from scheduling.testing import Harness
from scheduling.testing.clock import NOON
from scheduling.testing.deaths import REACHED
from tests.testing import shop
from tests.testing.shop import Invoice

MINUTE = timedelta(minutes=1)
OF_STEPS = [point for point in REACHED if point.startswith("step.")]


def play(harness: Harness, point: Point, task: str) -> None:
    harness.set_time(NOON)
    Job.objects.once(task, NOON + MINUTE, args=["ada"])
    with harness.crash_at(point):
        harness.run_for(2 * MINUTE)


@pytest.mark.django_db
@pytest.mark.parametrize("point", [point for point in REACHED if point not in OF_STEPS])
def test_wherever_somebody_dies_the_effect_is_there_once(fairbeat: Harness, point: Point) -> None:
    play(fairbeat, point, shop.charge.name)
    assert Invoice.objects.count() == 1
    assert Fire.objects.get().state == "succeeded"
    assert JobRun.objects.filter(state="succeeded").count() == 1


@pytest.mark.django_db(transaction=True)
def test_so_it_is_without_a_transaction_of_the_test(fairbeat: Harness) -> None:
    play(fairbeat, Point.COMPLETE_BEFORE, shop.charge.name)
    assert Invoice.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("point", OF_STEPS)
def test_a_step_happens_at_most_once(fairbeat: Harness, point: Point) -> None:
    play(fairbeat, point, shop.pay.name)
    assert shop.calls == ["ada"][: point != Point.STEP_BEGUN]
    assert Invoice.objects.get().key == "paid"


@pytest.mark.django_db
def test_a_worker_that_died_is_missed_when_its_lease_is_out(fairbeat: Harness) -> None:
    """By the clock: how long the test itself takes does not count."""
    fairbeat.set_time(NOON)
    Job.objects.once(shop.charge.name, NOON, args=["ada"])
    with fairbeat.crash_at("complete.before"):
        (run,) = fairbeat.drain()
    assert (run.state, run.error) == ("running", "died at complete.before")
    time.sleep(0.2)
    assert fairbeat.run_for(timedelta(seconds=30)) == []
    (again,) = fairbeat.run_for(timedelta(seconds=1))
    assert (again.attempt, again.state) == (2, "succeeded")
    assert JobRun.objects.get(state="lost").attempt == 1


@pytest.mark.django_db
def test_while_the_node_is_dead_nothing_is_published(fairbeat: Harness) -> None:
    fairbeat.set_time(NOON)
    Job.objects.once(shop.charge.name, NOON, args=["ada"])
    with fairbeat.crash_at("claim.committed"):
        assert fairbeat.drain() == []
    assert fairbeat.drain() == []
    assert Fire.objects.get().state == "claimed"
    assert [run.state for run in fairbeat.run_for(timedelta(seconds=2))] == ["succeeded"]
    assert Fire.objects.get().fence == 2


@pytest.mark.django_db
def test_a_task_that_kills_its_worker_each_time_ends_as_a_dead_letter(fairbeat: Harness) -> None:
    fairbeat.set_time(NOON)
    Job.objects.once(shop.charge.name, NOON, args=["ada"], max_attempts=2)
    with fairbeat.crash_at("acquire.committed"):
        fairbeat.drain()
    with fairbeat.crash_at("acquire.committed"):
        fairbeat.run_for(timedelta(seconds=45))
    fairbeat.run_for(MINUTE)
    assert (Fire.objects.get().state, Fire.objects.get().reason) == ("dead", "attempts_exhausted")
    assert not Invoice.objects.exists()


@pytest.mark.django_db
def test_it_is_said_where_nobody_died(fairbeat: Harness) -> None:
    said = "nobody died at complete.before: it was reached 0 times"
    with pytest.raises(AssertionError, match=said), fairbeat.crash_at("complete.before"):
        fairbeat.drain()
    with pytest.raises(InvalidField, match="is none of"), fairbeat.crash_at("hand_over.drained"):
        pass
    with pytest.raises(InvalidField, match="hit 0"), fairbeat.crash_at("complete.before", hit=0):
        pass


@pytest.mark.django_db
def test_the_second_to_get_there_may_be_the_one_that_dies(fairbeat: Harness) -> None:
    fairbeat.set_time(NOON)
    for customer in ("ada", "bob"):
        Job.objects.once(shop.charge.name, NOON, args=[customer])
    with fairbeat.crash_at("acquire.committed", hit=2):
        first, second = fairbeat.drain()
    assert (first.state, second.state) == ("succeeded", "running")
