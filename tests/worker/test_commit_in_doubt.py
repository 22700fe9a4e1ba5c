"""`current_job().commit()` on a connection of its own: its last statement, and what a lost reply leaves behind."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, OperationalError, connection, transaction

from scheduling import CommitRefused, current_job
from scheduling.models import Fire, JobRun
from scheduling.worker.process import worker_process
from tests.store.ledger_plans import keep_all_plans
from tests.worker.test_commit import write, write_in_commit, written

pytestmark = pytest.mark.usefixtures("committed_db")


@pytest.mark.parametrize("has_kept_plans", [False, True])
def test_the_completion_is_the_last_statement_and_limits_how_long_the_commit_may_take(
    define, deliver, fire_of, monkeypatch, has_kept_plans
):
    before, last, limits = [], [], []
    commit = getattr(connection, "_commit")  # noqa: B009  (typed as if it were not there)

    def task():
        if has_kept_plans:
            keep_all_plans(worker_process().ledger)
        with current_job().commit():
            write()
            before.append(limit())
            monkeypatch.setattr(connection, "_commit", look_and_commit)

    def look_and_commit() -> None:
        monkeypatch.undo()
        last.append(last_statement())
        limits.append(limit())
        commit()

    def last_statement() -> Any:
        """As the server has it."""
        pid = connection.connection.info.backend_pid
        with psycopg.connect(**connection.get_connection_params()) as other:
            return other.execute("SELECT query FROM pg_stat_activity WHERE pid = %s", [pid]).fetchall()[0][0]

    def limit() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SHOW idle_in_transaction_session_timeout")
            return cursor.fetchone()[0]

    assert deliver(fire_of(define(task))).state == "SUCCESS"

    assert len(last) == 1
    assert "SET state = 'succeeded'" in last[0]
    assert limits == ["5s"]
    assert "5s" not in (*before, limit()), "it ends with the transaction"


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


@pytest.mark.parametrize("error", [ValueError("the mail server is down"), IntegrityError("what it wrote is taken")])
def test_what_is_raised_behind_the_commit_opens_no_second_one(define, deliver, fire_of, caplog, error):
    seen = []

    def task():
        try:
            with current_job().commit():
                write()
                transaction.on_commit(mail)
        except type(error):
            seen.append(current_job().is_committed)
        with pytest.raises(CommitRefused), current_job().commit():
            write("effect2")
        raise error

    def mail():
        raise error

    assert deliver(fire_of(define(task))).state == "SUCCESS"
    assert seen == [True]
    assert str(error) in caplog.text
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
