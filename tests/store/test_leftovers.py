"""What is kept beside the ledger's days goes when nobody needs it any more, and not before."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from fairness.models import Tenant
from scheduling.models import DeadLetter, Fire, Job, Redrive, Step
from scheduling.store import leftovers, partitions
from tests.fires import NOON, make_fire, make_job

pytestmark = pytest.mark.usefixtures("committed_db")

DAY = timedelta(days=1)
OVER = NOON.replace(hour=0) + DAY * 31  # for a class of 30 days


def step(fire: Fire, name: str = "charge") -> Step:
    return Step.objects.create(
        fire_id=fire.pk, name=name, fence=1, scheduled_for=fire.scheduled_for, begun_at=NOON, is_done=True, result=1
    )


def letter(fire: Fire | None, *, died: timedelta = DAY, **columns: Any) -> DeadLetter:
    """Of a fire, or of a message that names none of ours; it died so long ago."""
    of_fire: dict[str, Any] = {}
    if fire is not None:
        of_fire = {"fire_id": fire.pk, "job": fire.job, "tenant": fire.tenant, "history_days": fire.history_days}
    reason = {"reason": "attempts_exhausted" if fire else "undecodable", "fingerprint": "0" * 16}
    return DeadLetter.objects.create(died_at=timezone.now() - died, **reason | of_fire | columns)


def expire(now: datetime = OVER) -> list[str]:
    connection.ensure_connection()
    return partitions.expire(connection.connection, now=now)


def names() -> list[str]:
    return list(Step.objects.order_by("name").values_list("name", flat=True))


@pytest.fixture
def job(committed_db: None) -> Job:
    return make_job()


def test_steps_go_with_the_day_of_their_fire(job: Job) -> None:
    step(make_fire(job, state="succeeded", attempt=1), "old")
    step(make_fire(job, NOON + DAY, state="succeeded", attempt=1), "young")
    expire(OVER - timedelta(seconds=1))
    assert names() == ["old", "young"]
    assert expire() == ["scheduling_fire_30_20260302"]
    assert names() == ["young"]


def test_steps_of_a_longer_class_stay_where_a_shorter_one_loses_the_same_day(job: Job) -> None:
    Tenant.objects.create(slug="long", history_days=90)
    step(make_fire(job, state="succeeded", attempt=1), "short")
    step(make_fire(make_job(tenant="long"), state="succeeded", attempt=1), "long")
    expire()
    assert names() == ["long"]


def test_steps_of_a_fire_that_may_go_on_stay(job: Job) -> None:
    step(make_fire(job, state="retry_wait", attempt=1, fence=2, wake_at=NOON))
    assert expire() == []
    assert names() == ["charge"]


def test_steps_stay_while_a_dead_letter_of_their_fire_waits_and_go_once_it_was_decided_about(job: Job) -> None:
    fire = make_fire(job, state="dead", reason="attempts_exhausted", attempt=3)
    step(fire)
    waits = letter(fire)
    assert expire() == ["scheduling_fire_30_20260302"]
    assert names() == ["charge"]

    waits.delete()
    make_fire(job, NOON + DAY * 90, state="succeeded", attempt=1)
    expire(NOON + DAY * 200)
    assert names() == []


def test_steps_of_a_fire_that_a_redrive_made_anew_stay_with_it(job: Job) -> None:
    step(make_fire(job, state="retry_wait", attempt=3, fence=5, wake_at=NOON))
    make_fire(job, NOON + DAY * 90, state="succeeded", attempt=1)
    expire(NOON + DAY * 200)
    assert names() == ["charge"]


def test_a_day_with_very_many_steps_goes_once_they_are_gone(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "STEPS", 2)
    fire = make_fire(job, state="succeeded", attempt=1)
    for number in range(3):
        step(fire, str(number))
    assert expire() == []
    assert len(names()) == 1
    assert expire() == ["scheduling_fire_30_20260302"]
    assert names() == []


@pytest.mark.parametrize(
    ("columns", "stays"),
    [
        ({"died": DAY * 1000}, True),  # nobody has decided about it
        ({"died": DAY * 1000, "redriven_at": 29}, True),
        ({"died": DAY * 1000, "redriven_at": 31}, False),
        ({"died": DAY * 29, "reason": "cancelled"}, True),
        ({"died": DAY * 31, "reason": "cancelled"}, False),
    ],
)
def test_a_dead_letter_goes_the_days_of_its_class_after_it_was_decided_about(
    job: Job, columns: dict[str, Any], stays: bool
) -> None:
    if "redriven_at" in columns:
        columns = columns | {"redriven_at": timezone.now() - DAY * columns["redriven_at"]}
    letter(make_fire(job, NOON + DAY * 60, state="dead", reason="cancelled", attempt=1), **columns)
    make_fire(job, state="succeeded", attempt=1)
    expire()
    assert DeadLetter.objects.exists() is stays


@pytest.mark.parametrize("ended", [False, True])
def test_a_cancelled_one_that_is_about_to_be_redriven_stays(job: Job, ended: bool) -> None:
    redrive = Redrive.objects.create(asked_at=NOON, rate_per_s=1, total=1, stopped_at=timezone.now() if ended else None)
    fire = make_fire(job, NOON + DAY * 60, state="dead", reason="cancelled", attempt=1)
    letter(fire, died=DAY * 31, reason="cancelled", redrive=redrive)
    make_fire(job, state="succeeded", attempt=1)
    expire()
    assert DeadLetter.objects.exists() is not ended


@pytest.mark.parametrize(("days", "stays"), [(89, True), (91, False)])
def test_a_letter_that_cannot_be_redriven_goes_after_ninety_days(job: Job, days: int, stays: bool) -> None:
    letter(None, died=DAY * days)
    make_fire(job, state="succeeded", attempt=1)
    expire()
    assert DeadLetter.objects.exists() is stays
