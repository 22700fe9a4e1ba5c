"""A fire's message in the worker's parent: what it does when the child that runs it says nothing any more."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from billiard.einfo import ExceptionInfo
from billiard.exceptions import Terminated, WorkerLostError
from celery.exceptions import TimeLimitExceeded
from celery.worker import state as worker_state
from django.db import OperationalError

from project.celery import app
from scheduling.models import DeadLetter, Fire, JobRun
from scheduling.store.ledger import PostgresLedger
from scheduling.worker import losses
from scheduling.worker.fired import HOLDER, fired
from scheduling.worker.request import JobRequest
from tests.fires import headers_of

pytestmark = pytest.mark.usefixtures("committed_db")


class Received:
    """A message that this worker was given, and what the broker is told of it."""

    def __init__(self, task: Any, headers: dict[str, Any]) -> None:
        self.told: list[Any] = []
        message = SimpleNamespace(
            headers=headers, body=b"", content_type="application/json", content_encoding="utf-8",
            payload=[[], {}, {}], delivery_info={}, properties={},
        )  # fmt: skip
        self.request: Any = JobRequest(
            message, app=app, task=task, hostname="w1@test",
            on_ack=lambda *_: self.told.append("acknowledged"),
            on_reject=lambda _log, _errors, requeue: self.told.append(("rejected", requeue)),
        )  # fmt: skip

    def holds(self, *, pid: int | None = None) -> None:
        """Its child, or the process of this number, has acquired the fire."""
        pid = pid or self.request.worker_pid or os.getpid()
        found = fired(self.request.id, self.request.request_dict, pid=pid)
        assert found is not None
        holder, until = found.delivery.holder, "2090-01-01T00:00Z"
        Fire.objects.update(
            state="running", attempt=1, holder=holder, started_at="2026-03-02T12:00Z", lease_until=until
        )

    def fails(self, error: BaseException, *, return_ok: bool = False) -> None:
        try:
            raise error
        except type(error):
            self.request.on_failure(ExceptionInfo(), return_ok=return_ok)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Wait until the threads that ask the ledger have done so."""
    losses._threads.cache_clear()
    return lambda: losses._threads().shutdown(wait=True)


@pytest.fixture
def dead_child() -> Callable[[], int]:
    """The number of a process that has ended."""

    def ended() -> int:
        child = subprocess.Popen([sys.executable, "-S", "-c", ""])
        child.wait()
        return child.pid

    return ended


@pytest.fixture
def receive(define: Any, fire_of: Any) -> Any:
    def made(**headers: Any) -> Received:
        task = define(lambda: None)
        fire = fire_of(task)
        return Received(task, headers_of(fire) | headers)

    return made


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (WorkerLostError("Worker exited prematurely: signal 9 (SIGKILL)"), "lost"),
        (Terminated(15), "lost"),
        (SystemExit(3), "lost"),
        (TimeLimitExceeded(2.0), "timed_out"),
    ],
)
def test_an_attempt_whose_child_is_gone_ends_at_once(receive, asked, error, state):
    received = receive()
    received.holds()

    received.fails(error)
    asked()

    row, run = Fire.objects.get(), JobRun.objects.get()
    assert (row.state, row.fence, row.attempt) == ("retry_wait", 2, 1)
    assert (run.state, run.worker) == (state, "w1@test")
    assert received.told == ["acknowledged"]


def test_the_history_says_what_happened(receive, asked):
    received = receive()
    received.holds()
    received.fails(TimeLimitExceeded(2.0))
    asked()

    assert JobRun.objects.get().error == "ended by its hard timeout of 2 s"


def test_a_timeout_that_is_told_twice_is_one(receive, asked):
    received = receive()
    received.holds()
    received.fails(TimeLimitExceeded(2.0))
    received.request.on_timeout(False, 2.0)
    asked()

    assert JobRun.objects.count() == 1
    assert received.told == ["acknowledged"]


def test_a_soft_timeout_is_the_childs_own_affair(receive, asked):
    received = receive()
    received.holds()
    received.request.on_timeout(True, 1.0)
    asked()

    assert Fire.objects.get().state == "running"
    assert received.told == []


def test_a_child_that_died_before_it_held_the_fire_leaves_the_message_to_the_collector(receive, asked):
    received = receive()
    received.fails(WorkerLostError("signal 9"))
    asked()

    assert Fire.objects.get().state == "claimed"
    assert received.told == [("rejected", False)]


def test_a_copy_that_runs_elsewhere_is_left_alone(receive, asked):
    received = receive()
    received.holds()
    Fire.objects.update(holder=uuid4())

    received.fails(WorkerLostError("signal 9"))
    asked()

    assert Fire.objects.get().state == "running"
    assert received.told == [("rejected", False)]


def test_a_child_that_was_given_anothers_delivery_does_not_run_what_that_one_began(
    deliver, define, fire_of, dead_child
):
    """Celery's pool does so where it sees the first dead before it has read that the task was accepted."""
    ran: list[int] = []
    fire = fire_of(define(lambda: ran.append(1)))
    received = Received(app.tasks[fire.job.task], headers_of(fire))
    received.request.on_accepted(dead_child(), 0.0)
    received.holds()

    told = deliver(fire, **{HOLDER: received.request.request_dict[HOLDER]})
    assert (told.state, str(told.value), ran) == ("IGNORED", "not run: running", [])


def test_the_death_of_the_child_that_came_second_does_not_end_what_the_first_holds(receive, asked, dead_child):
    received = receive()
    received.request.on_accepted(dead_child(), 0.0)
    received.holds()
    received.request.on_accepted(dead_child(), 0.0)

    received.fails(WorkerLostError("signal 9"))
    asked()

    assert Fire.objects.get().state == "running"


def test_a_greenlet_that_is_timed_out_has_lost_its_attempt_at_once(receive, asked):
    """Celery calls the number of a greenlet its process id, which the ledger has never heard."""
    received = receive()
    received.request.on_accepted(id(received), 0.0)
    received.holds(pid=os.getpid())

    received.request.on_timeout(False, 2.0)
    asked()

    assert (Fire.objects.get().state, JobRun.objects.get().state) == ("retry_wait", "timed_out")
    assert received.told == ["acknowledged"]


def test_no_attempt_is_ended_while_its_child_lives(receive, asked, monkeypatch):
    """Celery tells of a timeout before it kills: a receiver of its signals may take its time in between."""
    monkeypatch.setattr(losses, "GONE_WITHIN_S", 0.1)
    received = receive()
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        received.request.on_accepted(child.pid, 0.0)
        received.holds()
        received.fails(TimeLimitExceeded(2.0))
        asked()

    assert Fire.objects.get().state == "running", "its lease runs out: the child renews it no longer"
    assert received.told == ["acknowledged"]


class Pool:
    """What a worker's pool is asked to end."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[int] = []
        self._error = error

    def terminate_job(self, pid: int, signal: Any = None) -> None:  # noqa: ARG002  (Celery's signature)
        self.asked.append(pid)
        if self._error is not None:
            raise self._error


def test_a_child_that_is_killed_by_remote_control_has_lost_its_attempt_at_once(receive, asked, dead_child):
    """``revoke(terminate=True)``: Celery would acknowledge the message first."""
    received, pool = receive(), Pool()
    child = dead_child()
    received.request.on_accepted(child, 0.0)
    received.holds()
    received.request.terminate(pool)
    assert (pool.asked, received.told) == ([child], [])

    received.fails(Terminated(15))
    asked()

    assert (Fire.objects.get().state, JobRun.objects.get().state) == ("retry_wait", "lost")
    assert received.told == ["acknowledged"]


def test_a_greenlet_that_is_killed_ends_before_celery_says_so_and_is_acknowledged(receive):
    received = receive()
    received.request.on_accepted(id(received), 0.0)
    pool: Any = Pool()
    pool.terminate_job = lambda *_: received.request.on_success((False, None, 0.1))
    received.request.terminate(pool)

    assert received.told == ["acknowledged"]


def test_what_survives_a_remote_kill_is_acknowledged_when_it_has_ended(receive):
    received = receive()
    received.request.on_accepted(os.getpid(), 0.0)
    received.request.terminate(Pool())

    received.request.on_success((False, None, 0.1))

    assert received.told == ["acknowledged"]


def test_a_shutdown_in_haste_leaves_alone_what_the_pool_cannot_end(receive, caplog):
    """In a solo worker the signal comes in the midst of the task, which would fail by this error."""
    received = receive()
    received.request.on_accepted(os.getpid(), 0.0)

    received.request.cancel(Pool(NotImplementedError("no")), emit_retry=False)

    assert "cannot end what runs" in caplog.text
    assert received.told == []


@pytest.mark.parametrize("error", [WorkerLostError("raised by the task"), TimeLimitExceeded(2.0)])
def test_what_a_child_itself_says_is_nobodys_death(receive, asked, error):
    received = receive()
    received.holds()
    received.fails(error, return_ok=True)
    asked()

    assert Fire.objects.get().state == "running"
    assert received.told == ["acknowledged"]


def test_where_the_database_is_away_the_lease_runs_out(receive, asked, monkeypatch, caplog):
    def down(*_, **__):
        raise OperationalError("down")

    monkeypatch.setattr(PostgresLedger, "lose", down)
    received = receive()
    received.holds()
    received.fails(WorkerLostError("signal 9"))
    asked()

    assert received.told == ["acknowledged"]
    assert "could not be written: down" in caplog.text


def test_its_holder_is_the_parents_whatever_the_message_says(receive):
    forged = str(uuid4())
    assert receive(**{HOLDER: forged}).request.request_dict[HOLDER] != forged


def test_inspect_is_told_of_the_arguments_what_the_headers_say(receive):
    info = receive(kwargsrepr='{"token": "********"}').request.info()
    assert info["kwargs"] == '{"token": "********"}'


def test_revoke_does_not_stop_a_fire(receive, caplog):
    received = receive()
    worker_state.revoked.add(received.request.id)
    try:
        assert received.request.revoked() is False
    finally:
        worker_state.revoked.discard(received.request.id)
    assert "cancel it" in caplog.text


class TestResults:
    """A result says how it ends, which only the ledger knows."""

    @pytest.fixture
    def stored(self, receive, asked, monkeypatch):
        from django_celery_results.backends import DatabaseBackend
        from django_celery_results.models import TaskResult

        def after(*, max_attempts: int) -> list[str]:
            received = receive()
            Fire.objects.update(max_attempts=max_attempts)
            received.holds()
            backend = DatabaseBackend(app=app)
            monkeypatch.setattr(type(received.request.task), "backend", backend)
            received.fails(WorkerLostError("signal 9"))
            asked()
            return list(TaskResult.objects.filter(task_id=received.request.id).values_list("status", flat=True))

        return after

    def test_one_that_runs_again_has_not_failed(self, stored):
        assert stored(max_attempts=3) == ["RETRY"]

    def test_one_of_which_nobody_knows_has_none(self, stored, monkeypatch):
        def down(*_, **__):
            raise OperationalError("down")

        monkeypatch.setattr(PostgresLedger, "lose", down)
        assert stored(max_attempts=1) == []

    def test_one_that_does_not_has(self, stored):
        assert stored(max_attempts=1) == ["FAILURE"]
        assert DeadLetter.objects.get().reason == "attempts_exhausted"


def test_the_message_of_a_call_for_nobody_is_celerys(define, asked):
    task = define(lambda: None)
    received = Received(task, {"id": "direct", "task": task.name})
    received.fails(WorkerLostError("signal 9"))
    asked()

    assert HOLDER not in received.request.request_dict
    assert received.told == ["acknowledged"]
