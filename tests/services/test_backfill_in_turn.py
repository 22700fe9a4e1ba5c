"""A backfill one at a time, from the service to the workers: never two at once, and the next as soon as one ends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from project.celery import app
from scheduling import JobTask, current_job
from scheduling.models import Fire, Job
from scheduling.services.backfill import backfill
from scheduling.testing import Harness
from scheduling.testing.clock import NOON

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)
COUNT = 5


@pytest.fixture
def began(fairbeat: Harness, unique: str) -> Iterator[list[tuple[datetime, datetime]]]:
    """For which instant each run of the task began, and when; it takes a minute."""
    times: list[tuple[datetime, datetime]] = []

    def work() -> None:
        times.append((current_job().scheduled_for, fairbeat.now))
        fairbeat.run_for(MINUTE)

    fairbeat.set_time(NOON)
    make_task: Any = app.task
    task = make_task(work, name=unique, shared=False, base=JobTask)
    Job.objects.cron(task.name, "* * * * *", start_at=NOON - COUNT * MINUTE, end_at=NOON)
    yield times
    app.tasks.pop(task.name)


def fill(**how: Any) -> int:
    return backfill(Job.objects.get(), start=NOON - COUNT * MINUTE, until=NOON - MINUTE, by="anna", **how).made


def test_the_next_goes_out_when_the_one_before_has_ended(fairbeat: Harness, began: list) -> None:
    assert fill(rate_per_s=10) == COUNT
    fairbeat.run_for(MINUTE * 10)
    assert [at for at, _ in began] == [NOON - MINUTE * n for n in range(COUNT, 0, -1)]
    assert [when - NOON for _, when in began] == [MINUTE * n for n in range(COUNT)]
    assert set(Fire.objects.values_list("state", flat=True)) == {"succeeded"}


def test_without_waiting_for_one_another_they_go_out_together(fairbeat: Harness, began: list) -> None:
    fill(rate_per_s=1000, overlap="allow")
    fairbeat.run_for(timedelta(seconds=1))
    assert {when - NOON for _, when in began} <= {timedelta(seconds=n / 1000) for n in range(COUNT)}
