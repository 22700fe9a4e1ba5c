"""`current_job().step()`: named parts of a task that happen at most once, whatever becomes of its attempts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, transaction

from scheduling import InvalidField, LeaseLost, StepInDoubt, StepRefused, current_job, failpoints
from scheduling.failpoints import Point
from scheduling.models import Fire, Step
from scheduling.store.ledger import PostgresLedger

pytestmark = pytest.mark.django_db


class Declined(Exception):
    """By the bank: no money has moved."""


class Killed(BaseException):
    """As a worker that dies here: nobody catches it."""


@pytest.fixture
def attempts(define, deliver, fire_of) -> Callable[..., list[Any]]:
    """Run a task once and again, as its fire is tried; what Celery was told each time."""

    def run(task: Callable[[], Any], *, times: int) -> list[Any]:
        fire = fire_of(define(task), policy={"max_attempts": 9})
        told = []
        for _ in range(times):
            try:
                told.append(deliver(fire))
            except Killed:
                told.append(None)
            again = {"state": "claimed", "fence": fire.fence + 1, "reason": "", "wake_at": None, "holder": None}
            Fire.objects.update(**again)
            fire = Fire.objects.select_related("job__tenant").get()
        return told

    return run


def test_it_happens_once_and_a_later_attempt_is_given_its_result(attempts):
    charged, seen = [], []

    def charge():
        charged.append(1)
        return {"receipt": "r-7", "parts": (1, 2)}

    def task():
        seen.append(current_job().step("charge", charge))
        raise ValueError

    attempts(task, times=3)

    assert charged == [1]
    assert seen == [{"receipt": "r-7", "parts": [1, 2]}] * 3, "the first one, too, sees what JSON makes of it"


def test_steps_of_other_names_and_of_other_fires_are_others(define, deliver, fire_of):
    done = []

    def task():
        current_job().step("one", lambda: done.append("one"))
        current_job().step("two", lambda: done.append("two"))

    made = define(task)
    for _ in range(2):
        deliver(fire_of(made))
    assert done == ["one", "two", "one", "two"]


def test_what_says_that_nothing_happened_may_be_done_again(attempts):
    tried = []

    def charge():
        tried.append(1)
        if len(tried) == 1:
            raise Declined
        return "paid"

    told = attempts(lambda: current_job().step("charge", charge, undone=Declined), times=2)

    assert [one.state for one in told] == ["RETRY", "SUCCESS"]
    assert told[-1].value == "paid"


def test_anything_else_leaves_it_in_doubt_and_the_next_attempt_is_the_end(attempts):
    tried = []

    def charge():
        tried.append(1)
        raise TimeoutError("no answer")

    told = attempts(lambda: current_job().step("charge", charge, undone=Declined), times=2)

    assert tried == [1]
    assert told[0].state == "RETRY"
    assert isinstance(told[1].value, StepInDoubt)
    assert "'charge'" in str(told[1].value)


def test_in_doubt_who_can_find_out_is_asked_in_its_place(attempts):
    charged, asked, seen = [], [], []

    def charge():
        charged.append(1)
        raise TimeoutError

    def found_out():
        asked.append(1)
        return "it was paid"

    def task():
        seen.append(current_job().step("charge", charge, in_doubt=found_out))
        raise ValueError

    attempts(task, times=3)
    assert (charged, asked, seen) == ([1], [1], ["it was paid"] * 2)


@pytest.mark.parametrize(
    ("point", "happened", "is_in_doubt"),
    [(Point.STEP_BEGUN, 0, True), (Point.STEP_CALLED, 1, True), (Point.STEP_DONE, 1, False)],
)
def test_wherever_the_worker_dies_it_happens_at_most_once(attempts, point, happened, is_in_doubt):
    done = []

    def task():
        current_job().step("charge", lambda: done.append(1))

    def die():
        raise Killed

    with failpoints.armed(point, die):
        attempts(task, times=1)
    assert len(done) == happened

    fire = Fire.objects.select_related("job__tenant").get()
    assert Step.objects.get(fire_id=fire.id).is_done is not is_in_doubt


def test_the_same_attempt_does_not_take_its_own_doubt_for_a_new_step(attempts):
    tried = []

    def charge():
        tried.append(1)
        raise TimeoutError

    def task():
        for _ in range(2):
            try:
                current_job().step("charge", charge)
            except TimeoutError:
                continue

    told = attempts(task, times=1)
    assert tried == [1]
    assert isinstance(told[0].value, StepInDoubt)


@pytest.mark.parametrize("write", ["begin_step", "finish_step"])
def test_a_database_that_is_away_for_a_moment_leaves_no_doubt(attempts, monkeypatch, write):
    note, failures = getattr(PostgresLedger, write), iter([OperationalError("down")])

    def sometimes(*args):
        for failure in failures:
            raise failure
        return note(*args)

    monkeypatch.setattr(PostgresLedger, write, sometimes)

    assert attempts(lambda: current_job().step("charge", lambda: "paid"), times=1)[0].state == "SUCCESS"
    assert Step.objects.get().is_done


def test_a_worker_that_lost_its_lease_begins_no_step(define, deliver, fire_of):
    def task():
        Fire.objects.update(fence=2, holder=None, state="claimed", lease_until=None)
        with pytest.raises(LeaseLost):
            current_job().step("charge", lambda: pytest.fail("it happened"))

    assert deliver(fire_of(define(task))).state == "IGNORED"
    assert not Step.objects.exists()


class TestItIsRefused:
    @pytest.fixture
    def refusal(self, define, deliver, fire_of) -> Callable[[Callable[[], Any]], Any]:
        return lambda task: deliver(fire_of(define(task), policy={"max_attempts": 1})).value

    def test_inside_a_transaction_that_could_take_its_note_back(self, refusal):
        def task():
            with transaction.atomic():
                current_job().step("charge", lambda: pytest.fail("it happened"))

        assert isinstance(refusal(task), StepRefused)

    def test_inside_commit(self, refusal):
        def task():
            with current_job().commit():
                current_job().step("charge", lambda: pytest.fail("it happened"))

        assert isinstance(refusal(task), StepRefused)

    def test_after_commit(self, refusal):
        def task():
            with current_job().commit():
                pass
            with pytest.raises(StepRefused, match="after commit") as refused:
                current_job().step("charge", lambda: pytest.fail("it happened"))
            return str(refused.value)

        assert "'charge'" in refusal(task)

    @pytest.mark.parametrize("name", ["", "x" * 201, 7, "nul\x00"])
    def test_without_a_name(self, refusal, name):
        told = refusal(lambda: current_job().step(name, lambda: pytest.fail("it happened")))
        assert isinstance(told, InvalidField)
        assert told.field == "name"

    @pytest.mark.parametrize(
        ("result", "problem"),
        [
            (object(), "is of type object, which JSON does not have"),
            ({"sum": float("nan")}, "result of step 'charge'['sum'] is nan, which JSON does not have"),
            ("x" * 65_536, "is longer than 64 KB"),
            ("nul\x00", "contains a NUL character"),
        ],
    )
    def test_with_a_result_that_cannot_be_given_back(self, refusal, result, problem):
        told = refusal(lambda: current_job().step("charge", lambda: result))
        assert isinstance(told, InvalidField)
        assert problem in str(told)

    def test_but_not_with_one_that_only_looks_like_it(self, refusal):
        assert refusal(lambda: current_job().step("charge", lambda: r"C:\u0000")) == r"C:\u0000"
