"""A redriven fire at the last gate, and when it dies again: what the ledger makes of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from scheduling.models import DeadLetter, Fire, Job
from scheduling.services.pause import pause
from scheduling.services.redrive import ask_redrive
from scheduling.store.ledger import PostgresLedger
from scheduling.store.ledger_port import Acquired, Failure, Refused
from tests.fires import delivery_of
from tests.ledger_rows import DAY
from tests.letters import add_dead, carry_out

pytestmark = pytest.mark.django_db


@pytest.fixture
def ledger() -> PostgresLedger:
    return PostgresLedger("default", lease=timedelta(seconds=30))


def redriven(job: Job, **columns: Any) -> Fire:
    """A dead fire of it that was redriven, and that its owner has claimed since."""
    add_dead(job, **columns)
    ask_redrive(DeadLetter.objects.all(), by="anna")
    carry_out()
    Fire.objects.update(state="claimed", reason="", wake_at=None)
    return Fire.objects.get()


@pytest.mark.parametrize("attempt", [0, 3])
def test_it_is_neither_expired_nor_superseded(ledger: PostgresLedger, attempt: int) -> None:
    job = Job.objects.cron("t", "0 * * * *", expires_after=timedelta(seconds=1))
    fire = redriven(job, attempt=attempt, schedule_version=0)
    Job.objects.update(schedule_changed_at=DAY - timedelta(days=1))
    acquired = ledger.acquire(delivery_of(fire))
    assert isinstance(acquired, Acquired)
    assert acquired.attempt == max(attempt, 1) + 1


def test_it_runs_on_a_paused_job_and_so_does_its_retry_until_it_dies_again(ledger: PostgresLedger) -> None:
    job = Job.objects.cron("t", "0 * * * *", max_attempts=2)
    fire = redriven(job)
    pause([job], reason="x", by="anna")
    assert Fire.objects.get().state == "claimed"
    for attempt in (4, 5):
        acquired = ledger.acquire(delivery_of(Fire.objects.get()))
        assert isinstance(acquired, Acquired)
        assert acquired.attempt == attempt
        ledger.fail(acquired, Failure("KeyError: 'x'"), worker="w", delay=timedelta(0))
        if attempt == 4:
            assert Fire.objects.get().state == "retry_wait"
            Fire.objects.update(state="claimed", reason="", wake_at=None)
    assert (Fire.objects.get().state, DeadLetter.objects.count()) == ("dead", 1)
    letter = DeadLetter.objects.get()
    assert (letter.fire_id, letter.redriven_at, letter.redrive_id, letter.redrives) == (fire.pk, None, None, 1)

    Fire.objects.update(state="claimed", reason="", finished_at=None)  # as a retry of one that nobody redrove
    assert isinstance(ledger.acquire(delivery_of(Fire.objects.get())), Refused)
