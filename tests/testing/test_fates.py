"""What else may become of a run: told to stop, redriven, outlived; and who hears of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from scheduling import LeaseLost, current_job, signals
from scheduling.models import DeadLetter, Fire, Job, JobRun
from scheduling.services.cancel import cancel_fires
from scheduling.services.redrive import ask_redrive
from scheduling.testing import Harness
from scheduling.testing.clock import NOON
from tests.testing import shop
from tests.testing.shop import Invoice

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@pytest.fixture
def noon(fairbeat: Harness) -> Harness:
    fairbeat.set_time(NOON)
    return fairbeat


@pytest.fixture
def heard() -> Iterator[list[tuple[str, Any]]]:
    """The signals of jobs, each with the attempt that it tells of."""
    told: list[tuple[str, Any]] = []

    def receiver(of: str) -> Callable[..., None]:
        return lambda *, attempt, **_: told.append((of, attempt))

    receivers = {of: receiver(of) for of in ("job_fired", "job_succeeded", "job_failed", "job_dead")}
    for of, receive in receivers.items():
        getattr(signals, of).connect(receive)
    yield told
    for of, receive in receivers.items():
        getattr(signals, of).disconnect(receive)


def test_a_waiting_fire_that_is_cancelled_does_not_run(noon: Harness) -> None:
    job = Job.objects.once(shop.fail.name, NOON, args=["ada"])
    noon.drain()
    assert cancel_fires(jobs=[job], by="ops", reason="enough").at_once == 1
    assert noon.run_for(timedelta(days=1)) == []
    assert DeadLetter.objects.get().reason == "cancelled"


def test_the_newest_fire_makes_a_running_one_stop_and_takes_its_place(
    noon: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(_: str) -> None:
        if current_job().scheduled_for == NOON + MINUTE:
            noon.run_for(MINUTE * 2)
        current_job().check()
        shop.calls.append("ran to its end")

    monkeypatch.setattr(shop.charge, "run", work)
    Job.objects.cron(shop.charge.name, "* * * * *", args=["ada"], overlap="cancel_running")
    noon.run_until(NOON + MINUTE * 3 + timedelta(seconds=30))
    fires = Fire.objects.order_by("scheduled_for").values_list("state", "reason")
    assert list(fires) == [("dead", "cancelled"), ("skipped", "overlap"), ("succeeded", "")]
    assert shop.calls == ["ran to its end"]


def test_a_dead_letter_that_is_redriven_runs_again(noon: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    Job.objects.once(shop.fail.name, NOON, args=["ada"], max_attempts=1)
    noon.drain()
    monkeypatch.setattr(shop.fail, "run", shop.calls.append)
    ask_redrive(DeadLetter.objects.all(), by="ops")
    runs = noon.run_for(timedelta(seconds=5))
    assert [(run.attempt, run.state) for run in runs] == [(2, "succeeded")]
    assert shop.calls == ["ada"]


def test_a_run_that_outlives_its_timeout_loses_its_lease_to_another(
    noon: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[str] = []

    def work(customer: str) -> None:
        run = current_job()
        if run.attempt == 1:
            noon.run_for(timedelta(minutes=20))  # hangs; nobody kills it here
        try:
            with run.commit():
                Invoice.objects.create(customer=f"{customer} {run.attempt}")
        except LeaseLost:
            lost.append(customer)
            raise

    monkeypatch.setattr(shop.charge, "run", work)
    Job.objects.once(shop.charge.name, NOON, args=["ada"], hard_timeout_s=600)
    runs = noon.drain()
    assert (lost, [invoice.customer for invoice in Invoice.objects.all()]) == (["ada"], ["ada 2"])
    assert [run.attempt for run in runs] == [2, 1]
    assert sorted(JobRun.objects.values_list("attempt", "state")) == [(1, "lost"), (2, "succeeded")]


def test_receivers_hear_what_becomes_of_a_fire_though_nothing_is_committed(
    noon: Harness, heard: list[tuple[str, Any]]
) -> None:
    Job.objects.once(shop.fail.name, NOON, args=["ada"], max_attempts=2)
    Job.objects.once(shop.charge.name, NOON + MINUTE * 60, args=["ada"])
    noon.run_for(MINUTE * 60)
    assert heard == [
        ("job_fired", 0),
        ("job_failed", 1),
        ("job_fired", 1),
        ("job_dead", 2),
        ("job_fired", 0),
        ("job_succeeded", 1),
    ]


def test_receivers_hear_of_a_lost_run_and_of_a_task_that_nobody_has(
    noon: Harness, heard: list[tuple[str, Any]]
) -> None:
    Job.objects.once(shop.charge.name, NOON, args=["ada"], max_attempts=1)
    with noon.crash_at("acquire.committed"):
        noon.run_for(MINUTE)
    Job.objects.once("tests.shop.nobody", noon.now)
    noon.drain()
    assert heard == [("job_fired", 0), ("job_dead", 1), ("job_fired", 0), ("job_dead", 0)]
