"""The clock of a test, and what runs while it moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduling import InvalidField
from scheduling.models import DeadLetter, Fire, Job, JobClock, JobRun
from scheduling.services.pause import pause
from scheduling.testing import Harness
from scheduling.testing.clock import NOON
from tests.testing import shop
from tests.testing.shop import Invoice

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)


@pytest.fixture
def noon(fairbeat: Harness) -> Harness:
    fairbeat.set_time(NOON)
    return fairbeat


def customers() -> list[str]:
    return list(Invoice.objects.order_by("pk").values_list("customer", flat=True))


def states() -> list[tuple[str, str]]:
    return list(Fire.objects.order_by("scheduled_for").values_list("state", "reason"))


@pytest.mark.django_db
def test_the_clock_stands_until_it_is_moved(fairbeat: Harness) -> None:
    start = fairbeat.now
    assert abs(start - datetime.now(UTC)) < MINUTE
    assert JobClock.objects.now() == JobClock.objects.now() == start
    fairbeat.run_for(HOUR)
    assert JobClock.objects.now() == fairbeat.now == start + HOUR
    fairbeat.set_time(NOON)
    assert JobClock.objects.now() == fairbeat.now == NOON


@pytest.mark.django_db
def test_it_starts_where_it_is_told_to_and_job_time_is_the_real_one_again_behind_it() -> None:
    with Harness(start=NOON) as harness:
        assert JobClock.objects.now() == harness.now == NOON
    assert abs(JobClock.objects.now() - datetime.now(UTC)) < MINUTE


@pytest.mark.django_db
def test_everything_runs_when_it_is_due_and_in_order(noon: Harness) -> None:
    Job.objects.every(shop.charge.name, HOUR, anchor=NOON + HOUR, args=["hourly"])
    Job.objects.once(shop.charge.name, NOON + 90 * MINUTE, args=["once"])
    Job.objects.once(shop.charge.name, NOON + 2 * HOUR + SECOND, args=["later"])

    runs = noon.run_until(NOON + 2 * HOUR)

    assert [run.scheduled_for for run in runs] == [NOON + HOUR, NOON + 90 * MINUTE, NOON + 2 * HOUR]
    assert {(run.state, run.attempt, run.error) for run in runs} == {("succeeded", 1, "")}
    assert customers() == ["hourly", "once", "hourly"]
    assert noon.run_for(SECOND)[0].task == shop.charge.name
    assert noon.runs[:3] == runs


@pytest.mark.django_db
def test_a_job_of_each_minute_has_a_fire_each_minute(noon: Harness) -> None:
    Job.objects.cron(shop.charge_in_the_open.name, "* * * * *", args=["ada"])
    noon.run_for(20 * MINUTE)
    times = list(Fire.objects.order_by("scheduled_for").values_list("scheduled_for", flat=True))
    assert times == [NOON + n * MINUTE for n in range(1, 21)]
    assert Invoice.objects.count() == 20


@pytest.mark.django_db
def test_draining_runs_what_is_due_by_now_and_nothing_else(noon: Harness) -> None:
    Job.objects.once(shop.charge.name, NOON, args=["now"])
    Job.objects.once(shop.charge.name, NOON + SECOND, args=["soon"])
    assert [run.state for run in noon.drain()] == ["succeeded"]
    assert noon.drain() == []
    assert customers() == ["now"]


@pytest.mark.django_db
def test_a_failed_run_is_tried_again_with_its_backoff_until_it_is_dead(noon: Harness) -> None:
    Job.objects.once(shop.fail.name, NOON, args=["ada"], max_attempts=3, retry_base=MINUTE)
    assert [run.state for run in noon.drain()] == ["retry_wait"]
    runs = noon.run_for(HOUR)
    assert [(run.attempt, run.state) for run in runs] == [(2, "retry_wait"), (3, "dead")]
    assert runs[-1].error == "ValueError: no money from ada"
    assert customers() == ["ada"] * 3
    assert JobRun.objects.filter(state="failed").count() == 3
    assert DeadLetter.objects.get().reason == "attempts_exhausted"


@pytest.mark.django_db
def test_a_retry_and_a_snooze_come_when_they_asked_to(noon: Harness) -> None:
    Job.objects.once(shop.fail_once.name, NOON, args=["retried"])
    Job.objects.once(shop.snooze_once.name, NOON, args=["snoozed"], max_attempts=1)
    assert [run.state for run in noon.drain()] == ["retry_wait", "retry_wait"]
    assert noon.run_until(NOON + 5 * MINUTE - SECOND) == []
    assert noon.run_for(SECOND)[0].state == "succeeded"
    assert noon.run_until(NOON + HOUR - SECOND) == []
    assert noon.run_for(SECOND)[0].state == "succeeded"
    assert customers() == ["retried", "snoozed"]


@pytest.mark.django_db
def test_a_task_that_cancels_itself_is_dead(noon: Harness) -> None:
    Job.objects.once(shop.cancel.name, NOON, args=["ada"])
    assert [run.state for run in noon.drain()] == ["dead"]
    assert DeadLetter.objects.get().reason == "cancelled"


@pytest.mark.django_db
def test_a_task_that_nobody_has_is_dead(noon: Harness) -> None:
    Job.objects.once("tests.shop.nobody", NOON)
    (run,) = noon.drain()
    assert run.state == "dead"
    assert states() == [("dead", "unknown_task")]


@pytest.mark.django_db
def test_after_an_outage_the_misfire_policy_decides(noon: Harness) -> None:
    Job.objects.every(shop.charge.name, HOUR, anchor=NOON, args=["latest"])
    Job.objects.every(shop.charge.name, HOUR, anchor=NOON + SECOND, args=["none"], misfire="skip")
    noon.set_time(NOON + 5 * HOUR + 10 * MINUTE)
    assert [run.scheduled_for for run in noon.drain()] == [NOON + 5 * HOUR]
    assert customers() == ["latest"]
    assert Fire.objects.filter(state="skipped", reason="coalesced").exists()
    assert Fire.objects.filter(state="skipped", reason="missed").exists()


@pytest.mark.django_db
def test_a_pause_ends_when_its_time_comes_and_brings_back_what_it_took(noon: Harness) -> None:
    job = Job.objects.every(shop.charge.name, HOUR, anchor=NOON, args=["ada"], catch_up_window=timedelta(days=1))
    pause([job], by="test", reason="a holiday", until=NOON + 3 * HOUR + MINUTE, catch_up="all")
    noon.run_until(NOON + 3 * HOUR)
    assert customers() == []
    noon.run_for(2 * MINUTE)
    assert Invoice.objects.count() == 3


@pytest.mark.django_db
def test_an_earlier_pause_is_another_one(noon: Harness) -> None:
    """What it took stays skipped when a later one ends: real time of the database keeps step with the clock."""
    job = Job.objects.every(shop.charge.name, HOUR, anchor=NOON, args=["ada"], catch_up_window=timedelta(days=2))
    pause([job], by="test", reason="first", until=NOON + 90 * MINUTE, catch_up="none")
    noon.run_until(NOON + 2 * HOUR)
    pause([job], by="test", reason="second", until=NOON + 210 * MINUTE, catch_up="all")
    noon.run_until(NOON + 4 * HOUR)
    ran = Fire.objects.filter(state="succeeded").order_by("scheduled_for").values_list("scheduled_for", flat=True)
    assert list(ran) == [NOON + n * HOUR for n in (2, 3, 4)]


@pytest.mark.django_db
def test_what_may_not_overlap_waits_for_a_task_that_takes_its_time(noon: Harness, monkeypatch) -> None:
    """A task that moves the clock is one that runs for so long; its heartbeat keeps its lease."""
    seen: list[datetime] = []

    def slow(customer: str) -> None:
        if not seen:
            seen.append(noon.now)
            noon.run_for(5 * MINUTE)
        seen.append(noon.now)

    monkeypatch.setattr(shop.charge, "run", slow)
    Job.objects.cron(shop.charge.name, "* * * * *", args=["ada"], overlap="skip")
    noon.run_for(7 * MINUTE)
    assert seen == [NOON + n * MINUTE for n in (1, 6, 7)]
    assert states() == [("succeeded", ""), *[("skipped", "overlap")] * 5, ("succeeded", "")]


@pytest.mark.django_db
def test_what_waited_for_its_turn_is_not_late_however_far_the_clock_has_moved(noon: Harness, monkeypatch) -> None:
    start = NOON + timedelta(days=400)
    noon.set_time(start)

    def slow(_: str) -> None:
        if noon.now == start + MINUTE:
            noon.run_for(3 * MINUTE)
        shop.calls.append(f"{noon.now - start}")

    monkeypatch.setattr(shop.charge, "run", slow)
    Job.objects.cron(shop.charge.name, "* * * * *", args=["ada"], overlap="buffer_one", misfire="skip")
    noon.run_until(start + 4 * MINUTE)
    assert shop.calls == ["0:04:00", "0:04:00"]
    assert states()[:3] == [("succeeded", ""), ("succeeded", ""), ("skipped", "buffer_full")]


@pytest.mark.django_db
def test_times_must_be_ahead_and_must_say_their_zone(noon: Harness) -> None:
    with pytest.raises(InvalidField, match="has passed"):
        noon.run_until(NOON - SECOND)
    for move in (noon.run_until, noon.set_time):
        with pytest.raises(InvalidField):
            move(datetime(2026, 3, 2, 12))  # noqa: DTZ001
