"""What a message out of the dead letters says, whatever somebody has put into it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from scheduling.core import message
from scheduling.core.clock import EPOCH
from scheduling.core.dead_message import KEPT_BYTES, READ_BYTES, Death, read
from tests.claims import make_fire

BODY = message.body("[]", "{}")
FIRE = make_fire()
FIRED = message.headers(FIRE, origin="gen1@test", ignore_result=None)
JSON = "application/json"


def died(reason: object = "rejected", **more: Any) -> dict[str, Any]:
    at = datetime(2026, 3, 2, 12)  # noqa: DTZ001  (as py-amqp gives it)
    return {"x-death": [{"reason": reason, "queue": "fairbeat.acme.bulk.v1", "time": at, "count": 1} | more]}


def test_a_fires_message_names_the_fire_and_where_when_and_why_it_died():
    dead = read(FIRED | died("delivery_limit"), BODY, content_type=JSON, is_redelivered=True)

    assert (dead.death, dead.queue) == (Death.DELIVERY_LIMIT, "fairbeat.acme.bulk.v1")
    assert dead.died_at == datetime(2026, 3, 2, 12, tzinfo=UTC)
    assert (dead.task, dead.task_id, dead.problem, dead.is_redelivered) == (FIRE.work.task, str(FIRE.id), "", True)
    assert dead.fire is not None
    assert (dead.fire.fire_id, dead.fire.job_id, dead.fire.fence) == (FIRE.id, FIRE.work.job_id, FIRE.fence)
    assert (dead.fire.scheduled_for, dead.fire.tenant) == (FIRE.scheduled_for, FIRE.work.tenant)


@pytest.mark.parametrize(
    "deaths", [{}, {"x-death": []}, {"x-death": "rejected"}, {"x-death": [5]}, died("boredom"), died(["rejected"])]
)
def test_without_a_word_of_the_broker_it_has_not_died(deaths):
    dead = read(FIRED | deaths, BODY, content_type=JSON, is_redelivered=False)
    assert (dead.death, dead.queue, dead.died_at) == (Death.NONE, "", EPOCH)


def test_the_latest_death_counts():
    deaths = {"x-death": [*died("expired")["x-death"], *died("rejected", queue="another")["x-death"]]}
    dead = read(deaths, BODY, content_type=JSON, is_redelivered=False)
    assert (dead.death, dead.queue) == (Death.EXPIRED, "fairbeat.acme.bulk.v1")


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "no uuid"},
        {"id": 5},
        {message.JOB: None},
        {message.SCHEDULED_FOR: "2026-03-02T12:00:00"},
        {message.SCHEDULED_FOR: "9999-12-31T23:59:59-12:00"},
        {message.SCHEDULED_FOR: 5},
        {message.FENCE: 0},
        {message.FENCE: 2**31},
        {message.KEEP: 2**15},
        {message.KEEP: "many"},
    ],
    ids=str,
)
def test_headers_that_name_no_fire_are_a_problem_and_no_fire(wrong):
    dead = read(FIRED | died() | wrong, BODY, content_type=JSON, is_redelivered=False)
    assert dead.fire is None
    assert dead.problem.startswith("its headers name no fire that can be read")


@pytest.mark.parametrize(
    ("body", "content_type", "problem"),
    [
        (b"{", JSON, "its body is no JSON"),
        (b"\xff\xfe", JSON, "its body is no JSON"),
        (b"[" * 100_000, JSON, "its body is no JSON"),
        (b"5", JSON, "its body is neither"),
        (BODY, "application/x-python-serialize", "its content type 'application/x-python-serialize' is not JSON"),
        (BODY, "", "its content type '' is not JSON"),
        (BODY, JSON, ""),
    ],
    ids=range(7),
)
def test_a_body_that_no_worker_reads_is_a_problem(body, content_type, problem):
    dead = read(FIRED | died(), body, content_type=content_type, is_redelivered=False)
    assert dead.problem.startswith(problem)
    assert bool(dead.problem) == bool(problem)
    assert dead.fire is not None


@pytest.mark.parametrize(
    ("headers", "body"),
    [({"compression": "application/x-gzip"}, b"\x1f\x8b"), ({}, b"x" * (READ_BYTES + 1))],
    ids=[1, 2],
)
def test_what_is_compressed_or_huge_is_not_looked_into(headers, body):
    assert read(FIRED | died() | headers, body, content_type=JSON, is_redelivered=False).problem == ""


def test_what_is_kept_is_bounded_and_a_text_that_postgres_takes():
    headers = died() | {"task": "send\0" + "x" * 1000, "id": "\ud800" * 2000}
    dead = read(headers, b"x" * KEPT_BYTES * 2, content_type=JSON, is_redelivered=False)
    assert dead.task == "send" + "x" * 251
    assert dead.task_id == "?" * 1000
    assert dead.body == b"x" * KEPT_BYTES


def test_a_message_of_somebody_else_names_no_fire_and_has_no_problem():
    dead = read(died() | {"task": "send", "id": "7"}, BODY, content_type=JSON, is_redelivered=False)
    assert (dead.fire, dead.problem, dead.task) == (None, "", "send")
