"""What was published, and what comes of a second copy of it."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from fairness.models import Tenant
from scheduling.models import Fire, Job, JobRun
from scheduling.services.run_now import run_now
from scheduling.testing import Harness
from scheduling.testing.clock import NOON
from scheduling.worker.refusals import refusals
from tests.testing import shop
from tests.testing.shop import Invoice

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def test_what_is_due_by_now_is_enqueued_and_does_not_run_yet(fairbeat: Harness) -> None:
    Tenant.objects.create(slug="acme")
    fairbeat.set_time(NOON)
    job = Job.objects.cron(shop.charge.name, "0 9 * * *", name="charge-7", args=["ada"], tenant="acme")
    run_now([job], by="test")
    (message,) = fairbeat.assert_enqueued(task=shop.charge, args=("ada",), kwargs={}, tenant="acme", count=1)
    assert (message.name, message.fence) == ("charge-7", 1)
    assert message.origin.startswith("manual:")
    assert not Invoice.objects.exists()
    fairbeat.drain()
    fairbeat.assert_enqueued(task="tests.shop.charge", count=1)
    assert Invoice.objects.count() == 1


@pytest.mark.parametrize(
    "other",
    [
        {"task": "tests.shop.pay"},
        {"args": ["bob"]},
        {"kwargs": {"x": 1}},
        {"tenant": "acme"},
        {"count": 2},
        {"count": 0},
    ],
)
def test_what_was_not_enqueued_is_told_with_what_was(fairbeat: Harness, other) -> None:
    fairbeat.set_time(NOON)
    Job.objects.once(shop.charge.name, NOON, args=["ada"])
    with pytest.raises(
        AssertionError, match=r"(?s)fires of .*tests.shop.charge\('ada'\) of default, for 2026-03-02T12"
    ):
        fairbeat.assert_enqueued(**other)


def test_nothing_at_all_can_be_asserted(fairbeat: Harness) -> None:
    fairbeat.assert_enqueued(count=0)
    with pytest.raises(AssertionError, match="0 fires of any task were published, not at least one"):
        fairbeat.assert_enqueued()


def test_a_fire_that_is_tried_again_counts_once(fairbeat: Harness) -> None:
    fairbeat.set_time(NOON)
    Job.objects.once(shop.fail.name, NOON, args=["ada"], max_attempts=3)
    fairbeat.run_for(HOUR)
    fairbeat.assert_enqueued(task=shop.fail, count=1)


def test_a_second_copy_has_no_effect_neither_while_the_first_runs_nor_after_it(fairbeat: Harness) -> None:
    before = Counter(refusals())
    fairbeat.deliver_twice(shop.charge, args=["ada"])
    assert Counter(refusals()) - before == {"running": 1, "done": 1}
    assert Invoice.objects.count() == 1
    assert [run.state for run in fairbeat.runs] == ["succeeded"]
    assert JobRun.objects.count() == 1


def test_it_may_be_a_job_a_fire_or_what_has_run_already(fairbeat: Harness) -> None:
    fairbeat.set_time(NOON)
    job = Job.objects.cron(shop.charge.name, "0 9 * * *", args=["ada"])
    fairbeat.deliver_twice(job)
    (started,) = run_now([job], by="test")
    fairbeat.deliver_twice(started)
    (fire, _) = Fire.objects.order_by("started_at")
    fairbeat.deliver_twice(fire)
    fairbeat.deliver_twice(fire.pk)
    fairbeat.deliver_twice(fairbeat.runs[0])
    assert Invoice.objects.count() == 2


def test_a_copy_of_a_fire_that_waits_for_its_retry_is_refused(fairbeat: Harness) -> None:
    fairbeat.deliver_twice(shop.fail, args=["ada"])
    assert Fire.objects.get().state == "retry_wait"
    assert Invoice.objects.count() == 1


def test_a_task_that_the_ledger_does_not_know_runs_twice_and_that_is_said(fairbeat: Harness) -> None:
    with pytest.raises(AssertionError, match="a second copy of the message ran, too: tests.shop.plain"):
        fairbeat.deliver_twice(shop.plain, args=["ada"])
    assert Invoice.objects.count() == 2


def test_a_fire_that_was_not_published_cannot_be_delivered(fairbeat: Harness) -> None:
    fairbeat.set_time(NOON)
    Job.objects.once(shop.snooze_once.name, NOON, args=["ada"], overlap="skip")
    job = Job.objects.get()
    with fairbeat.crash_at("acquire.committed"):
        fairbeat.drain()
    (started,) = run_now([job], by="test")
    with pytest.raises(AssertionError, match="was not published: it is parked overlap"):
        fairbeat.deliver_twice(started)
