"""Signals to a user's own code: sent when what they tell is committed, by whom it concerns."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from scheduling import Cancel, Snooze, current_job, signals
from scheduling.models import DeadLetter, Fire, Job
from scheduling.worker import in_process
from scheduling.worker.in_process import run_fire
from tests.fires import NOON, claimed, make_fire, make_job

pytestmark = pytest.mark.django_db

NAMES = ("job_fired", "job_succeeded", "job_failed", "job_dead")


@pytest.fixture
def told() -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Name of the signal, and its facts with the fire's state at that moment."""
    heard: list[tuple[str, dict[str, Any]]] = []
    receivers = []
    for name in NAMES:

        def hear(sender: Any, signal: Any, _which: str = name, **facts: Any) -> None:
            assert sender is Job
            heard.append((_which, facts | {"state": Fire.objects.get(id=facts["fire_id"]).state}))

        receivers.append((name, hear))
        getattr(signals, name).connect(hear)
    yield heard
    for name, hear in receivers:
        getattr(signals, name).disconnect(hear)


def raising(error: BaseException):
    def task():
        raise error

    return task


def test_success_is_told_with_all_that_is_known_of_the_fire(define, deliver, told):
    task = define(lambda: {"paid": 3})
    fire = make_fire(make_job(task.name, name="nightly"), origin="manual:r7")

    deliver(fire)

    assert told == [
        (
            "job_succeeded",
            {
                "fire_id": fire.id,
                "job_id": fire.job_id,
                "tenant": "default",
                "name": "nightly",
                "task": task.name,
                "scheduled_for": NOON,
                "origin": "manual:r7",
                "attempt": 1,
                "result": {"paid": 3},
                "state": "succeeded",
            },
        )
    ]


def test_after_commit_it_is_told_once_and_at_once(define, deliver, fire_of, told):
    def task():
        with current_job().commit():
            assert told == []
        assert [name for name, _ in told] == ["job_succeeded"]

    assert deliver(fire_of(define(task))).state == "SUCCESS"
    assert [(name, facts["state"], facts["result"]) for name, facts in told] == [("job_succeeded", "succeeded", None)]


@pytest.mark.parametrize(
    ("error", "options", "expected"),
    [
        (ValueError("boom\nmore"), {}, ("job_failed", "failed", "ValueError: boom", "retry_wait")),
        (ValueError("x"), {"give_up_on": ValueError}, ("job_dead", "gave_up", "ValueError: x", "dead")),
        (Cancel("no such user"), {}, ("job_dead", "cancelled", "no such user", "dead")),
    ],
)
def test_an_end_without_success_is_told_with_its_reason(define, deliver, fire_of, told, error, options, expected):
    deliver(fire_of(define(raising(error), **options)))

    ((name, facts),) = told
    assert (name, facts["reason"], facts["error"], facts["state"]) == expected


def test_the_last_failure_is_a_death(define, deliver, fire_of, told):
    deliver(fire_of(define(raising(ValueError())), policy={"max_attempts": 1}))
    assert [(name, facts["reason"]) for name, facts in told] == [("job_dead", "attempts_exhausted")]


@pytest.mark.parametrize(
    ("error", "max_attempts", "said"),
    [(ValueError("x"), 3, "ValueError: x"), (ValueError("x"), 1, "ValueError: x"), (Snooze(5), 3, "no longer wanted")],
)
def test_who_was_asked_to_stop_without_hearing_of_it_died_of_that(
    define, deliver, fire_of, told, error, max_attempts, said
):
    def task():
        Fire.objects.update(cancel_reason="no longer wanted")
        raise error

    deliver(fire_of(define(task), policy={"max_attempts": max_attempts}))
    assert [(name, facts["reason"], facts["error"]) for name, facts in told] == [("job_dead", "cancelled", said)]
    assert DeadLetter.objects.get().reason == "cancelled"


def test_a_snooze_a_refused_copy_and_a_lost_lease_are_no_news(define, deliver, fire_of, told):
    deliver(fire_of(define(raising(Snooze(5)))))
    done = fire_of(define(lambda: None), state="skipped", reason="missed")
    deliver(done)
    deliver(fire_of(define(lambda: Fire.objects.update(fence=7, state="claimed", holder=None, lease_until=None))))

    assert told == []


def test_a_task_that_nobody_has_is_a_death(told, monkeypatch):
    monkeypatch.setattr(in_process, "close_old_connections", lambda: None)  # the test's transaction is in one
    run_fire(claimed(make_fire(make_job("tests.nobody.knows.this"))), lambda: None)

    ((name, facts),) = told
    assert (name, facts["reason"], facts["attempt"]) == ("job_dead", "unknown_task", 0)
    assert "tests.nobody.knows.this" in facts["error"]


def test_a_receiver_that_raises_changes_nothing_and_is_logged(define, deliver, fire_of, caplog):
    def broken(**_):
        raise RuntimeError("receiver")

    signals.job_succeeded.connect(broken)
    try:
        with caplog.at_level(logging.ERROR, "django.dispatch"):
            assert deliver(fire_of(define(lambda: None))).state == "SUCCESS"
    finally:
        signals.job_succeeded.disconnect(broken)
    assert "broken" in caplog.text


def test_where_nobody_listens_nothing_is_built():
    signals.tell(signals.job_succeeded, lambda: pytest.fail("it was built"))
