"""`current_job().commit()` on a connection of its own: its last statement, and what a lost reply leaves behind."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.db import OperationalError, connection

from scheduling import current_job
from scheduling.models import Fire, JobRun
from scheduling.worker.process import worker_process
from tests.worker.test_commit import write, write_in_commit, written

pytestmark = pytest.mark.usefixtures("committed_db")


def test_the_completion_is_the_last_statement_and_limits_how_long_the_commit_may_take(define, deliver, fire_of):
    timeouts = []

    def task():
        with connection.execute_wrapper(watch), current_job().commit():
            write()

    def watch(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if connection.in_atomic_block:
            with connection.connection.cursor() as cursor:
                timeouts.append(cursor.execute("SHOW idle_in_transaction_session_timeout").fetchone()[0])
        return result

    deliver(fire_of(define(task)))

    assert timeouts[-1] == "5s"
    assert "5s" not in timeouts[:-1]
    with connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        assert cursor.fetchone()[0] != "5s"


@pytest.fixture
def lose_the_reply(monkeypatch):
    """The next COMMIT reaches the server, or not, and its reply is lost with the connection."""

    def arrange(*, is_committed: bool) -> None:
        commit = getattr(connection, "_commit")  # noqa: B009  (typed as if it were not there)

        def lost() -> None:
            monkeypatch.undo()
            if is_committed:
                commit()
            connection.connection.close()
            raise OperationalError("the connection was lost")

        monkeypatch.setattr(connection, "_commit", lost)

    return arrange


def test_a_commit_whose_reply_was_lost_has_succeeded_if_it_was_written(define, deliver, fire_of, lose_the_reply):
    def task():
        lose_the_reply(is_committed=True)
        return write_in_commit()

    told = deliver(fire_of(define(task)))
    assert (told.state, told.value) == ("SUCCESS", "done"), "the task went on behind its commit()"
    assert written() == ["effect"]
    assert [run.state for run in JobRun.objects.all()] == ["succeeded"]


def test_a_commit_whose_reply_was_lost_is_a_failed_attempt_if_it_was_not(define, deliver, fire_of, lose_the_reply):
    def task():
        lose_the_reply(is_committed=False)
        return write_in_commit()

    assert deliver(fire_of(define(task))).state == "RETRY"
    assert written() == []
    assert Fire.objects.get().state == "retry_wait"
    assert [run.state for run in JobRun.objects.all()] == ["failed"]


def test_a_task_that_tries_again_while_its_commit_is_in_doubt_writes_nothing_twice(
    define, deliver, fire_of, lose_the_reply
):
    """The reply is lost, and the database does not say either what was written."""

    def task():
        lose_the_reply(is_committed=True)
        with pytest.MonkeyPatch.context() as patch, suppress(OperationalError):
            patch.setattr(worker_process().ledger, "is_completed", unreachable)
            write_in_commit()
        with current_job().commit():
            write("effect2")

    def unreachable(delivery):
        raise OperationalError("there is no database")

    assert deliver(fire_of(define(task))).state == "SUCCESS"
    assert written() == ["effect"]
    assert [run.state for run in JobRun.objects.all()] == ["succeeded"]


def test_a_connection_lost_before_the_completion_is_a_failed_attempt(define, deliver, fire_of):
    def task():
        with current_job().commit():
            write()
            connection.connection.close()
            write("effect2")

    assert deliver(fire_of(define(task))).state == "RETRY"
    assert written() == []
