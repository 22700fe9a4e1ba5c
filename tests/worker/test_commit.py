"""`current_job().commit()`: the task's writes and the completion in one transaction."""

from __future__ import annotations

from contextlib import suppress

import pytest
from celery.exceptions import Reject
from django.db import transaction

from fairness.models import Tenant
from scheduling import Cancel, CommitRefused, LeaseLost, current_job
from scheduling.models import Fire, JobRun
from scheduling.worker.process import worker_process
from tests.store.ledger_plans import keep_all_plans

pytestmark = pytest.mark.django_db


def write(slug: str = "effect") -> None:
    Tenant.objects.create(slug=slug)


def written() -> list[str]:
    return list(Tenant.objects.filter(slug__startswith="effect").values_list("slug", flat=True))


def lose_the_lease() -> None:
    Fire.objects.update(state="claimed", fence=2, holder=None, lease_until=None)


def write_in_commit() -> str:
    with current_job().commit():
        write()
    return "done"


def test_the_write_and_the_completion_are_there_together(define, deliver, fire_of):
    seen = []

    def task():
        with current_job().commit():
            write()
        seen.append((Fire.objects.get().state, written(), current_job().is_committed))

    assert deliver(fire_of(define(task))).state == "SUCCESS"
    assert seen == [("succeeded", ["effect"], True)]
    assert JobRun.objects.get().state == "succeeded"


def test_an_exception_inside_takes_both_back_and_the_attempt_fails(define, deliver, fire_of):
    def task():
        with current_job().commit():
            write()
            raise ValueError("halfway")

    assert deliver(fire_of(define(task))).state == "RETRY"
    assert written() == []
    assert Fire.objects.get().state == "retry_wait"
    assert JobRun.objects.get().error == "ValueError: halfway"


def test_after_it_rolled_back_it_may_be_used_again(define, deliver, fire_of):
    def task():
        try:
            with current_job().commit():
                write("effect1")
                raise ValueError
        except ValueError:
            with current_job().commit():
                write("effect2")

    assert deliver(fire_of(define(task))).state == "SUCCESS"
    assert written() == ["effect2"]


@pytest.mark.parametrize("has_kept_plans", [False, True])
def test_a_transaction_that_an_inner_block_broke_is_not_taken_for_committed(define, deliver, fire_of, has_kept_plans):
    def task():
        if has_kept_plans:
            keep_all_plans(worker_process().ledger)
        with current_job().commit():
            write()
            with suppress(ValueError), transaction.atomic(savepoint=False):
                raise ValueError

    assert deliver(fire_of(define(task))).state == "RETRY"
    assert written() == []
    assert Fire.objects.get().state == "retry_wait"


def test_a_write_of_a_worker_that_lost_its_lease_is_taken_back(define, deliver, fire_of):
    def task():
        lose_the_lease()
        write_in_commit()

    assert deliver(fire_of(define(task))).state == "IGNORED"
    assert written() == []
    assert (Fire.objects.get().state, Fire.objects.get().fence) == ("claimed", 2)


def test_it_is_refused_before_anything_is_written_once_the_lease_is_known_to_be_lost(define, deliver, fire_of):
    seen = []

    def task():
        current_job().mark_lost()
        try:
            with current_job().commit():
                pytest.fail("the block ran")
        except LeaseLost:
            seen.append(current_job().lost)

    deliver(fire_of(define(task)))
    assert seen == [True]


def test_it_can_complete_only_once(define, deliver, fire_of):
    seen = []

    def task():
        write_in_commit()
        try:
            with current_job().commit():
                pytest.fail("the block ran")
        except CommitRefused as refused:
            seen.append(str(refused))

    assert deliver(fire_of(define(task))).state == "SUCCESS"
    assert "used before" in seen[0]


def test_it_is_refused_inside_itself(define, deliver, fire_of):
    def task():
        with current_job().commit():
            write_in_commit()

    told = deliver(fire_of(define(task), policy={"max_attempts": 1}))
    assert isinstance(told.value, CommitRefused)
    assert written() == []


def test_it_is_refused_inside_another_transaction_where_it_would_not_be_last(define, deliver, fire_of):
    def task():
        with transaction.atomic():
            write_in_commit()

    told = deliver(fire_of(define(task), policy={"max_attempts": 1}))
    assert isinstance(told.value, CommitRefused)
    assert "inside another transaction" in str(told.value)
    assert written() == []


def test_it_is_refused_for_another_database(define, deliver, fire_of):
    def task():
        with current_job().commit(using="warehouse"):
            pytest.fail("the block ran")

    told = deliver(fire_of(define(task), policy={"max_attempts": 1}))
    assert str(told.value).startswith("using 'warehouse': ")


@pytest.mark.parametrize("late", [ValueError("late"), Cancel("late"), Reject("late", requeue=True)])
def test_what_the_task_raises_after_it_is_logged_and_changes_nothing(define, deliver, fire_of, caplog, late):
    def task():
        write_in_commit()
        raise late

    told = deliver(fire_of(define(task)))
    assert (told.state, told.value) == ("SUCCESS", None)
    assert "late" in caplog.text
    assert Fire.objects.get().state == "succeeded"
    assert [run.state for run in JobRun.objects.all()] == ["succeeded"]
