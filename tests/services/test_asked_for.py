"""Pauses, manual runs and backfills from what people ask for to what runs, beside the schedules."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from project.demo.models import Effect
from project.demo.tasks import effect
from scheduling.models import Fire, Job
from scheduling.services.backfill import backfill
from scheduling.services.pause import pause
from scheduling.services.resume import resume
from scheduling.services.run_now import run_now
from scheduling.testing import Harness
from scheduling.testing.clock import NOON

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@pytest.fixture
def job(fairbeat: Harness) -> Job:
    fairbeat.set_time(NOON)
    return Job.objects.every(effect.name, MINUTE, anchor=NOON - MINUTE * 60, catch_up_window=timedelta(days=1))


def ran(*, origin: str = "") -> list[datetime]:
    """For which instants fires have had their effect, in the order of the effects."""
    fires = {fire.pk: fire for fire in Fire.objects.filter(origin__startswith=origin)}
    had = Effect.objects.order_by("pk").values_list("fire_id", flat=True)
    return [fires[fire].scheduled_for for fire in had if fire in fires and (origin or not fires[fire].origin)]


def minutes(*numbers: int) -> list[datetime]:
    return [NOON + MINUTE * number for number in numbers]


def test_a_paused_job_runs_where_a_person_asks_for_it_and_else_not(fairbeat: Harness, job: Job) -> None:
    pause([job], by="anna", reason="a release")
    [started] = run_now([job], by="ben")
    fairbeat.run_for(MINUTE * 5)
    assert [run.fire_id for run in fairbeat.runs] == [started.fire_id]
    assert set(Fire.objects.filter(origin="").values_list("state", "reason")) == {("skipped", "paused")}


def test_so_does_a_finished_one(fairbeat: Harness) -> None:
    job = Job.objects.once(effect.name, fairbeat.now)
    fairbeat.drain()
    run_now([job], by="ben")
    assert [run.state for run in fairbeat.drain()] == ["succeeded"]


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [("none", minutes(5, 6)), ("latest", minutes(4, 5, 6)), ("all", minutes(1, 2, 3, 4, 5, 6))],
)
def test_a_pause_ends_by_itself_and_brings_back_what_it_says(
    fairbeat: Harness, job: Job, catch_up: str, expected: list[datetime]
) -> None:
    until = NOON + MINUTE * 4 + timedelta(seconds=30)
    pause([job], by="anna", reason="a release", until=until, catch_up=catch_up)
    fairbeat.run_until(NOON + MINUTE * 6)
    assert ran() == expected
    job.refresh_from_db()
    assert job.paused_at is None


def test_a_person_ends_it_and_brings_back_all(fairbeat: Harness, job: Job) -> None:
    pause([job], by="anna", reason="a release")
    fairbeat.run_until(NOON + MINUTE * 3)
    resume([job], by="ben", catch_up="all")
    fairbeat.run_until(NOON + MINUTE * 5)
    assert ran() == minutes(1, 2, 3, 4, 5)
    assert set(Fire.objects.filter(scheduled_for__lte=NOON + MINUTE * 3).values_list("fence", "attempt")) == {(2, 1)}


def test_a_backfill_runs_beside_the_schedule_which_goes_on(fairbeat: Harness, job: Job) -> None:
    done = backfill(job, start=NOON - MINUTE * 30, until=NOON - MINUTE * 26, by="ben", rate_per_s=10)
    fairbeat.run_until(NOON + MINUTE)
    assert ran(origin=done.origin) == minutes(-30, -29, -28, -27, -26)
    assert ran() == minutes(1)
