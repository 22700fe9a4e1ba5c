"""What becomes of a message that the broker has given up."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from scheduling.core.dead_message import DeadMessage, Death, NamedFire
from scheduling.core.fire import State
from scheduling.store.fates import Fate, Standing, Verdict, judge
from scheduling.testing.clock import NOON
from tests.claims import job_id, make_fire

FIRE = make_fire()
NAMED = NamedFire(
    fire_id=FIRE.id,
    job_id=FIRE.work.job_id,
    scheduled_for=FIRE.scheduled_for,
    history_days=30,
    fence=1,
    tenant="acme",
)
MESSAGE = DeadMessage(
    death=Death.REJECTED,
    queue="fairbeat.acme.bulk.v1",
    died_at=NOON,
    task="send",
    task_id=str(FIRE.id),
    fire=NAMED,
    problem="",
    body=b"",
    is_redelivered=False,
)
STANDING = Standing(
    state=State.CLAIMED,
    fence=1,
    job_id=FIRE.work.job_id,
    tenant="acme",
    attempt=0,
    max_attempts=3,
    counted=0,
    deleted=False,
    retry_base=timedelta(seconds=10),
    retry_cap=timedelta(hours=1),
)


def fate(
    message: DeadMessage = MESSAGE,
    standing: Standing | None = STANDING,
    *,
    owner: str | None = "acme",
    is_guarded: bool | None = True,
) -> Verdict:
    return judge(message, standing, owner=owner, is_guarded=is_guarded, rand=lambda: 0.5)


def told(verdict: Verdict) -> tuple[Fate, str]:
    return verdict.fate, verdict.reason


@pytest.mark.parametrize("death", [Death.REJECTED, Death.DELIVERY_LIMIT, Death.EXPIRED, Death.MAXLEN])
def test_a_fire_that_waits_for_its_message_is_given_back_at_once_and_one_attempt_is_counted(death):
    verdict = fate(replace(MESSAGE, death=death))
    assert told(verdict) == (Fate.GIVEN_BACK, "undelivered")
    assert (verdict.is_attempt, verdict.wait) == (True, timedelta(0))


def test_the_second_time_it_waits_by_its_jobs_backoff():
    assert fate(standing=replace(STANDING, attempt=1, counted=1)).wait == timedelta(seconds=5)


@pytest.mark.parametrize(
    ("death", "reason"),
    [
        (Death.REJECTED, "rejected"),
        (Death.DELIVERY_LIMIT, "delivery_limit"),
        (Death.EXPIRED, "delivery_limit"),
        (Death.MAXLEN, "delivery_limit"),
    ],
)
def test_without_attempts_left_it_dies_and_what_the_broker_said_is_kept(death, reason):
    verdict = fate(replace(MESSAGE, death=death), replace(STANDING, attempt=2))
    assert told(verdict) == (Fate.DEAD, reason)
    assert verdict.is_attempt
    assert verdict.error


def test_of_a_deleted_job_it_is_cancelled():
    assert told(fate(standing=replace(STANDING, deleted=True))) == (Fate.DEAD, "cancelled")


@pytest.mark.parametrize(
    ("problem", "is_guarded", "reason"),
    [("its body is no JSON", True, "undecodable"), ("", None, "unknown_task"), ("", False, "rejected")],
)
def test_what_no_worker_will_take_dies_at_once_and_counts_no_attempt(problem, is_guarded, reason):
    verdict = fate(replace(MESSAGE, problem=problem), is_guarded=is_guarded)
    assert (told(verdict), verdict.is_attempt) == ((Fate.DEAD, reason), False)


def test_a_task_that_kills_its_worker_is_not_called_unknown():
    verdict = fate(replace(MESSAGE, death=Death.DELIVERY_LIMIT), is_guarded=None)
    assert told(verdict) == (Fate.GIVEN_BACK, "undelivered")


@pytest.mark.parametrize(
    ("standing", "why"),
    [
        (None, "gone"),
        (replace(STANDING, fence=2), "stale"),
        (replace(STANDING, state=State.RUNNING), "running"),
        (replace(STANDING, state=State.SUCCEEDED), "succeeded"),
        (replace(STANDING, state=State.DEAD, fence=2), "stale"),
        (replace(STANDING, state=State.RETRY_WAIT), "retry_wait"),
    ],
)
@pytest.mark.parametrize("death", [Death.REJECTED, Death.DELIVERY_LIMIT])
def test_a_copy_that_came_late_is_only_counted(standing, why, death):
    assert told(fate(replace(MESSAGE, death=death, problem="broken"), standing)) == (Fate.COUNTED, why)


@pytest.mark.parametrize(
    ("named", "owner", "standing"),
    [
        ({"tenant": "other"}, "acme", STANDING),
        ({}, "other", STANDING),
        ({}, None, STANDING),
        ({"tenant": "other"}, "other", STANDING),
        ({"job_id": job_id(9)}, "acme", STANDING),
        ({"tenant": "other"}, "acme", None),
    ],
)
def test_a_message_for_another_tenants_fire_is_kept_as_forged_and_the_fire_is_left_alone(named, owner, standing):
    message = replace(MESSAGE, fire=replace(NAMED, **named))
    assert told(fate(message, standing, owner=owner)) == (Fate.KEPT, "forged")


@pytest.mark.parametrize(
    ("changes", "is_guarded", "expected"),
    [
        ({"problem": "its body is no JSON"}, None, (Fate.KEPT, "undecodable")),
        ({}, None, (Fate.KEPT, "unknown_task")),
        ({}, False, (Fate.KEPT, "rejected")),
        ({"death": Death.DELIVERY_LIMIT}, None, (Fate.KEPT, "delivery_limit")),
        ({"death": Death.MAXLEN}, True, (Fate.KEPT, "delivery_limit")),
        ({"death": Death.EXPIRED}, None, (Fate.COUNTED, "expired")),
    ],
)
def test_a_message_that_names_no_fire_is_kept_unless_its_time_was_over(changes: Any, is_guarded, expected):
    assert told(fate(replace(MESSAGE, fire=None, **changes), None, is_guarded=is_guarded)) == expected


def test_what_somebody_has_put_among_the_dead_letters_is_kept_and_touches_no_fire():
    assert told(fate(replace(MESSAGE, death=Death.NONE, queue=""))) == (Fate.KEPT, "rejected")
