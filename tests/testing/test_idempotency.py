"""A task is run with every mishap, and what it leaves behind is compared."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduling import InvalidField
from scheduling.models import Fire, Job
from scheduling.testing import Harness
from scheduling.testing.clock import NOON
from tests.testing import shop
from tests.testing.shop import Invoice, Line


@pytest.mark.django_db
def test_what_is_written_in_commit_is_the_same_whatever_happens(fairbeat: Harness) -> None:
    fairbeat.assert_idempotent(shop.charge, args=["ada"], rows=[Invoice, Line])
    assert not Invoice.objects.exists()
    assert not Job.objects.exists()
    assert not Fire.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_so_it_is_where_the_test_has_no_transaction(fairbeat: Harness) -> None:
    fairbeat.assert_idempotent(shop.charge, args=["ada"], rows=[Invoice, Line])
    assert not Invoice.objects.exists()
    assert not Job.objects.exists()


@pytest.mark.django_db
def test_what_is_written_in_the_open_is_caught(fairbeat: Harness) -> None:
    with pytest.raises(AssertionError) as caught:
        fairbeat.assert_idempotent(shop.charge_in_the_open, args=["ada"], rows=Invoice)
    assert str(caught.value) == (
        "tests.shop.charge_in_the_open, killed at complete.before, left other rows behind:\n"
        "  only in this one:      Invoice(customer='ada', key='')"
    )


@pytest.mark.django_db
def test_a_job_is_run_beside_its_schedule_and_nothing_else_runs_meanwhile(fairbeat: Harness) -> None:
    fairbeat.set_time(NOON)
    job = Job.objects.every(shop.charge.name, timedelta(seconds=1), args=["ada"])
    Job.objects.every(shop.charge.name, timedelta(seconds=1), args=["bob"])
    fairbeat.assert_idempotent(job, rows=lambda: Invoice.objects.values_list("customer", "key"))
    assert fairbeat.now == NOON
    assert [run.state for run in fairbeat.run_for(timedelta(seconds=1))] == ["succeeded"] * 2


@pytest.mark.django_db
def test_what_is_not_in_the_database_is_emptied_before_each_run(fairbeat: Harness) -> None:
    with pytest.raises(AssertionError, match=r"tests.shop.pay, killed at step.begun.*\n.*only in the first run: 'ada'"):
        fairbeat.assert_idempotent(shop.pay, args=["ada"], rows=lambda: shop.calls, before=shop.calls.clear)


@pytest.mark.django_db
def test_a_task_that_does_not_succeed_is_told_so(fairbeat: Harness) -> None:
    with pytest.raises(
        AssertionError,
        match="tests.shop.fail, run by itself, ended as dead attempts_exhausted: ValueError: no money from ada$",
    ):
        fairbeat.assert_idempotent(shop.fail, args=["ada"], rows=Invoice)


@pytest.mark.django_db
def test_a_retry_or_a_snooze_on_the_way_is_no_mishap(fairbeat: Harness) -> None:
    def customers() -> list[str]:
        return sorted(set(Invoice.objects.values_list("customer", flat=True)))

    fairbeat.assert_idempotent(shop.snooze_once, args=["ada"], rows=customers)


@pytest.mark.django_db
def test_a_job_of_one_attempt_cannot_be_tried(fairbeat: Harness) -> None:
    job = Job.objects.cron(shop.charge.name, "0 9 * * *", args=["ada"], max_attempts=1)
    with pytest.raises(InvalidField, match="max_attempts 1"):
        fairbeat.assert_idempotent(job, rows=Invoice)
