"""What a node does of a redrive: which fires wait again and as what, how many, and what it leaves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import F

from scheduling.models import DeadLetter, Fire, Job, JobClock, Redrive, Step
from scheduling.services.redrive import ask_redrive, stop_redrive
from scheduling.store import redrive as of_store
from scheduling.store.redrive import allowed
from tests.ledger_rows import DAY
from tests.letters import add_dead, add_many_dead, asked_ago, carry_out, fire_of

pytestmark = pytest.mark.django_db

NOW = DAY + timedelta(hours=20)


@pytest.fixture
def job() -> Job:
    return Job.objects.cron("shop.report", "0 * * * *", name="report", max_attempts=5)


def ask(rate_per_s: float = 1000.0) -> Redrive:
    return ask_redrive(DeadLetter.objects.all(), by="anna", rate_per_s=rate_per_s)


def of(asked: Redrive) -> Redrive:
    return Redrive.objects.get(pk=asked.pk)


# -- the fire --------------------------------------------------------------------------------------------------------


def test_a_dead_fire_waits_again_as_itself_under_a_higher_fence_with_as_many_attempts_more(job: Job) -> None:
    letter = add_dead(job, cancel_reason="x", sent_again_at=DAY, seq_epoch=1, seq=9, confirmed=True)
    Step.objects.create(fire_id=fire_of(letter), name="charge", fence=2, scheduled_for=DAY, begun_at=DAY, is_done=True)
    asked = ask()
    assert carry_out(NOW) == 1

    fire = Fire.objects.get()
    assert (fire.pk, fire.scheduled_for, fire.origin) == (letter.fire_id, DAY, "")
    assert (fire.state, fire.reason, fire.fence) == ("retry_wait", "redriven", 5)
    assert (fire.attempt, fire.max_attempts, fire.wake_at) == (3, 8, NOW)
    assert (fire.finished_at, fire.cancel_reason, fire.sent_again_at) == (None, "", None)
    assert (fire.seq_epoch, fire.seq, fire.confirmed, fire.holder) == (None, None, False, None)
    assert Step.objects.get().is_done
    letter.refresh_from_db()
    assert (letter.redrives, letter.redrive_id, letter.redriven_at is not None) == (1, asked.pk, True)
    assert (of(asked).moved, of(asked).skipped, of(asked).finished_at is not None) == (1, 0, True)


def test_a_death_without_a_start_counts_as_an_attempt_so_that_nothing_takes_the_fire_for_new(job: Job) -> None:
    add_dead(job, attempt=0, reason="unknown_task", fence=1)
    ask()
    carry_out(NOW)
    fire = Fire.objects.get()
    assert (fire.attempt, fire.max_attempts, fire.fence) == (1, 6, 2)


def test_a_fire_whose_day_is_gone_is_made_anew_from_its_letter(job: Job) -> None:
    letter = add_dead(job, datetime(2020, 5, 5, 7, tzinfo=UTC), origin="manual:7", exclusive=True)
    Fire.objects.all().delete()
    long_ago = datetime(2001, 1, 1, tzinfo=UTC)  # no partition was ever made of it
    other = add_dead(job, DAY)
    Fire.objects.all().delete()
    DeadLetter.objects.filter(pk=other.pk).update(scheduled_for=long_ago, fire_at=long_ago)
    asked = ask()
    assert carry_out(NOW) == 2

    fire = Fire.objects.get(pk=fire_of(letter))
    assert (fire.job_id, fire.tenant_id, fire.shard_id, fire.history_days) == (job.pk, job.tenant_id, job.shard_id, 30)
    assert (fire.scheduled_for, fire.fire_at) == (letter.scheduled_for, letter.fire_at)
    assert (fire.origin, fire.exclusive, fire.schedule_version) == ("manual:7", True, job.schedule_version)
    assert (fire.state, fire.reason, fire.fence, fire.attempt, fire.max_attempts) == ("retry_wait", "redriven", 5, 3, 8)
    assert Fire.objects.get(pk=fire_of(other)).scheduled_for == long_ago
    assert (of(asked).moved, of(asked).finished_at is not None) == (2, True)


def test_one_that_died_again_can_be_redriven_again(job: Job) -> None:
    add_dead(job)
    ask()
    carry_out()
    Fire.objects.update(state="dead", finished_at=DAY, wake_at=None, fence=9, attempt=8)
    DeadLetter.objects.update(redriven_at=None, redrive=None, fence=9, attempts=8)
    ask()
    carry_out()
    assert (Fire.objects.get().fence, Fire.objects.get().max_attempts, DeadLetter.objects.get().redrives) == (10, 13, 2)


# -- what it leaves --------------------------------------------------------------------------------------------------


def test_a_fire_whose_job_is_deleted_meanwhile_stays_dead_and_its_letter_waits(job: Job) -> None:
    gone = Job.objects.cron("t", "0 * * * *", name="gone")
    add_dead(gone)
    add_dead(job, DAY + timedelta(minutes=1))
    asked = ask()
    gone.delete()
    assert carry_out() == 1
    left = DeadLetter.objects.get(job=gone)
    assert (left.redriven_at, left.redrive_id, Fire.objects.get(job=gone).state) == (None, None, "dead")
    assert (of(asked).moved, of(asked).skipped, of(asked).finished_at is not None) == (1, 1, True)


def test_a_job_whose_row_is_gone_is_as_one_that_was_deleted(job: Job) -> None:
    add_dead(job)
    asked = ask()
    Fire.objects.all().delete()
    Job.objects.filter(pk=job.pk).delete()
    assert not Job.objects.exists()
    assert carry_out() == 0
    assert (of(asked).skipped, Fire.objects.exists()) == (1, False)


@pytest.mark.parametrize("state", ["running", "retry_wait", "succeeded"])
def test_a_fire_that_lives_already_is_left_alone(job: Job, state: str) -> None:
    letter = add_dead(job)
    asked = ask()
    lives = {"holder": letter.fire_id, "lease_until": DAY, "wake_at": DAY}
    Fire.objects.update(state=state, **lives)
    assert carry_out() == 0
    assert (Fire.objects.get().state, Fire.objects.get().fence) == (state, 4)
    assert (of(asked).moved, of(asked).skipped) == (0, 1)


def test_what_was_stopped_moves_no_more(job: Job) -> None:
    add_many_dead(job, 3)
    asked = ask(rate_per_s=0.001)
    assert carry_out() == 1
    stop_redrive(asked.pk, by="ben")
    asked_ago(asked, 10_000)
    assert carry_out() == 0
    assert set(Fire.objects.values_list("state", flat=True)) == {"retry_wait", "dead"}


# -- the rate --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate_per_s", "done", "elapsed_s", "idle_s", "expected"),
    [
        (100, 0, 0.0, 0.0, 1),  # the first goes at once
        (100, 1, 0.0, 0.0, 0),
        (100, 101, 1.0, 0.01, 0),
        (100, 51, 1.5, 1.0, 100),
        (1.5, 1, 1.0, 1.0, 1),  # fractions are not lost: 3 in 2 s
        (1.5, 2, 2.0, 1.0, 2),
        (0.1, 1, 9.9, 9.9, 0),
        (0.1, 1, 10.0, 10.0, 1),
        (100, 0, 3600.0, 3600.0, 200),  # nobody was there for an hour: two seconds' worth at most
        (100, 200, 3600.0, 0.5, 50),  # and from then on at its rate
        (0.1, 1, 3600.0, 9.0, 0),
        (0.1, 1, 3600.0, 11.0, 1),
    ],
)
def test_so_many_may_be_moved(rate_per_s: float, done: int, elapsed_s: float, idle_s: float, expected: int) -> None:
    assert allowed(rate_per_s=rate_per_s, done=done, elapsed_s=elapsed_s, idle_s=idle_s) == expected


def test_however_often_it_is_called_the_rate_holds_and_letters_go_in_their_order(job: Job) -> None:
    letters = add_many_dead(job, 8)
    asked = ask(rate_per_s=2)
    assert [carry_out(), carry_out()] == [1, 0]
    asked_ago(asked, 1)
    assert [carry_out(), carry_out()] == [2, 0]
    moved = DeadLetter.objects.exclude(redriven_at=None).order_by("pk")
    assert list(moved) == letters[:3]


def test_after_an_outage_the_rate_counts_from_the_last_move(job: Job) -> None:
    add_many_dead(job, 12)
    asked = ask(rate_per_s=2)
    carry_out()
    asked_ago(asked, 3600)
    DeadLetter.objects.exclude(redriven_at=None).update(redriven_at=F("redriven_at") - timedelta(seconds=3600))
    assert [carry_out(), carry_out()] == [4, 0]
    DeadLetter.objects.exclude(redriven_at=None).update(redriven_at=F("redriven_at") - timedelta(seconds=1))
    assert carry_out() == 2


def test_so_it_is_where_its_letters_are_few_among_others(job: Job) -> None:
    first = add_dead(job)
    DeadLetter.objects.bulk_create(
        DeadLetter(reason="undecodable", fingerprint="f" * 16, died_at=DAY) for _ in range(300)
    )
    last = add_dead(job, DAY + timedelta(minutes=1))
    asked = ask_redrive([first, last], by="anna", rate_per_s=1)
    assert carry_out() == 1
    asked_ago(asked, 3600)
    assert carry_out() == 0


def test_a_seconds_worth_is_spread_over_the_second_of_job_time(job: Job) -> None:
    JobClock.objects.create(job_origin=DAY, real_origin=DAY, speed=60)
    add_many_dead(job, 5)
    asked_ago(ask(rate_per_s=4), 1)
    carry_out(NOW)
    fires = Fire.objects.filter(state="retry_wait").order_by("wake_at")
    wakes = [fire.wake_at for fire in fires]
    assert wakes == [NOW + timedelta(seconds=seconds) for seconds in (0, 12, 24, 36, 48)]


def test_several_redrives_share_what_one_call_moves(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_store, "BATCH", 4)
    letters = add_many_dead(job, 10)
    halves = [ask_redrive(letters[start::2], by="anna", rate_per_s=1000) for start in (0, 1)]
    for asked in halves:
        asked_ago(asked, 1)
    assert carry_out() == 4
    assert [of(asked).moved for asked in halves] == [2, 2]


def test_what_nobody_asked_for_stays_dead(job: Job) -> None:
    add_dead(job)
    assert carry_out() == 0
    assert Fire.objects.get().state == "dead"
