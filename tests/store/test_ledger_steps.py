"""Steps: noted before and after, by whoever holds the fire, and told to every later attempt."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduling.core.errors import InvalidField, LeaseLost
from scheduling.models import Fire, Step
from scheduling.store.ledger import PostgresLedger
from scheduling.store.ledger_port import Acquired, Failure, StepState
from tests.fires import delivery_of, make_fire, make_job, row_of
from tests.store.ledger_plans import acquired

pytestmark = pytest.mark.django_db

NEW, IN_DOUBT = StepState(is_new=True, is_done=False), StepState(is_new=False, is_done=False)


@pytest.fixture
def ledger(planning_ledger: PostgresLedger) -> PostgresLedger:
    """No plan of these is kept."""
    return planning_ledger


@pytest.fixture
def run(ledger: PostgresLedger) -> Acquired:
    return acquired(ledger, delivery_of(make_fire(make_job())))


def next_attempt(ledger: PostgresLedger, run: Acquired) -> Acquired:
    ledger.fail(run, Failure("x"), worker="w", delay=timedelta(0))
    Fire.objects.update(state="claimed", reason="", wake_at=None)
    return acquired(ledger, delivery_of(Fire.objects.get()))


@pytest.mark.parametrize("result", [None, 7, "é\N{SNOWMAN}", [1.5, {"a": None}], {"big": "x" * 60_000}])
def test_what_is_done_is_not_new_again_and_gives_its_result_to_every_attempt(ledger, run, result):
    assert ledger.begin_step(run, "charge") == NEW
    ledger.finish_step(run, "charge", result)

    done = StepState(is_new=False, is_done=True, result=result)
    assert ledger.begin_step(run, "charge") == done
    assert ledger.begin_step(next_attempt(ledger, run), "charge") == done


def test_what_an_earlier_attempt_began_and_did_not_finish_is_in_doubt(ledger, run):
    ledger.begin_step(run, "charge")

    assert ledger.begin_step(next_attempt(ledger, run), "charge") == IN_DOUBT
    assert Step.objects.get().fence == 1, "the attempt that began it"


def test_a_later_attempt_that_has_found_out_may_say_that_it_is_done(ledger, run):
    ledger.begin_step(run, "charge")
    second = next_attempt(ledger, run)

    ledger.finish_step(second, "charge", "found")
    assert ledger.begin_step(second, "charge").result == "found"


def test_it_is_new_again_for_the_attempt_that_asks_twice_since_a_reply_may_be_lost(ledger, run):
    assert [ledger.begin_step(run, "charge") for _ in range(2)] == [NEW, NEW]
    assert Step.objects.count() == 1


def test_what_did_not_happen_is_forgotten_and_may_be_begun_anew(ledger, run):
    ledger.begin_step(run, "charge")

    for _ in range(2):
        ledger.undo_step(run, "charge")
    assert ledger.begin_step(next_attempt(ledger, run), "charge") == NEW


def test_what_is_done_stays_done(ledger, run):
    ledger.begin_step(run, "charge")
    ledger.finish_step(run, "charge", 7)

    ledger.undo_step(run, "charge")
    assert ledger.begin_step(run, "charge").is_done


def test_each_name_of_each_fire_is_a_step_of_its_own(ledger, run):
    other = acquired(ledger, delivery_of(make_fire(make_job())))
    ledger.begin_step(run, "charge")
    ledger.finish_step(run, "charge", 1)

    assert ledger.begin_step(run, "mail") == NEW
    assert ledger.begin_step(other, "charge") == NEW


def test_one_that_nobody_began_cannot_be_done(ledger, run):
    with pytest.raises(InvalidField, match="step 'charge': was not begun"):
        ledger.finish_step(run, "charge", 1)


def test_it_outlives_its_attempts_by_the_day_of_its_fire(ledger, run):
    ledger.begin_step(run, "charge")

    step, fire = Step.objects.get(), Fire.objects.get()
    assert (step.fire_id, step.scheduled_for, step.is_done) == (fire.id, fire.scheduled_for, False)


@pytest.mark.parametrize(
    "note",
    [
        lambda ledger, run: ledger.begin_step(run, "charge"),
        lambda ledger, run: ledger.finish_step(run, "charge", 1),
        lambda ledger, run: ledger.undo_step(run, "charge"),
    ],
    ids=["begin", "finish", "undo"],
)
def test_a_stale_holder_notes_nothing(ledger, run, note):
    ledger.begin_step(run, "charge")
    second = next_attempt(ledger, run)
    before = Step.objects.values().get()

    with pytest.raises(LeaseLost):
        note(ledger, run)
    assert Step.objects.values().get() == before
    assert row_of(Fire.objects.get()).holder == second.delivery.holder
