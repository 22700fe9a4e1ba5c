"""Redrives on several sessions: who waits for whom, and that nobody is in the way of the others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from django.db import connection, transaction

from scheduling.core.errors import InvalidField
from scheduling.models import DeadLetter, Fire, Job, Redrive
from scheduling.services.dead_letters import discard
from scheduling.services.redrive import ask_redrive, stop_redrive
from scheduling.store.connection import Connection, connector
from scheduling.store.partitions import ensure
from scheduling.store.redrive import redrive
from scheduling.store.statements import statements
from tests.ledger_rows import DAY
from tests.letters import add_dead, add_many_dead, asked_ago, carry_out
from tests.store.sessions import InThread, OpenSession, until_someone_waits

SQL = statements("redrive")


@pytest.fixture
def job(committed_db: None) -> Job:
    return Job.objects.cron("t", "0 * * * *", name="report")


@pytest.fixture
def node(committed_db: None) -> Iterator[Connection]:
    with connector(connection.get_connection_params(), name="redrives")() as session:
        yield session


def asked_for(job: Job, letters: int) -> Redrive:
    add_many_dead(job, letters)
    asked = ask_redrive(DeadLetter.objects.all(), by="anna", rate_per_s=1000)
    asked_ago(asked, 1)
    return asked


def test_while_one_node_moves_letters_another_passes_the_redrive_over(job: Job, node: Connection) -> None:
    asked = asked_for(job, 2)
    with transaction.atomic():
        assert carry_out() == 2
        assert redrive(node, now=DAY) == 0
    assert redrive(node, now=DAY) == 0
    assert Redrive.objects.get().moved == 2
    assert asked.total == 2


def test_a_second_click_takes_no_letters_from_the_first(job: Job, in_thread: InThread) -> None:
    letters = add_many_dead(job, 2)
    with transaction.atomic():
        first = ask_redrive(letters, by="anna")
        again = in_thread(ask_redrive, letters, by="anna")
        until_someone_waits()
    with pytest.raises(InvalidField, match="none of them can be redriven: 2 being redriven already"):
        again.result()
    assert set(DeadLetter.objects.values_list("redrive", flat=True)) == {first.pk}


def test_who_discards_meanwhile_passes_over_what_was_just_asked_for(job: Job, in_thread: InThread) -> None:
    letters = add_many_dead(job, 2)
    with transaction.atomic():
        ask_redrive(letters[:1], by="anna")
        discarding = in_thread(discard, letters, by="ben")
        until_someone_waits()
    assert discarding.result() == 1
    assert DeadLetter.objects.get() == letters[0]


def test_to_stop_it_waits_for_what_is_being_moved(job: Job, in_thread: InThread) -> None:
    asked = asked_for(job, 2)
    with transaction.atomic():
        carry_out()
        Redrive.objects.update(finished_at=None)
        stopping = in_thread(lambda: stop_redrive(asked.pk, by="ben").moved)
        until_someone_waits()
    assert stopping.result() == 2


def test_what_someone_holds_is_left_to_the_next_second(job: Job, node: Connection, open_session: OpenSession) -> None:
    asked_for(job, 3)
    other = Job.objects.cron("t", "0 * * * *", name="other")
    add_dead(other, DAY + timedelta(hours=5))
    asked_ago(ask_redrive(DeadLetter.objects.filter(job=other), by="anna", rate_per_s=1000), 1)
    person = open_session("a person")
    person.execute("BEGIN")
    person.execute("SELECT FROM scheduling_job WHERE id = %s FOR UPDATE", [job.pk])
    letter = DeadLetter.objects.filter(job=job).latest("pk").pk
    person.execute("SELECT FROM scheduling_deadletter WHERE id = %s FOR UPDATE", [letter])
    assert redrive(node, now=DAY) == 1
    person.execute("COMMIT")
    assert redrive(node, now=DAY) == 3
    assert not Redrive.objects.filter(finished_at=None).exists()


def test_a_day_that_is_dropped_while_its_fire_is_made_is_made_again(
    job: Job, node: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for(job, 1)
    Fire.objects.all().delete()
    real = ensure
    dropped: list[bool] = []

    def drop_first(session: psycopg.Connection, days: object) -> None:
        if not dropped:
            dropped.append(True)
            raise psycopg.errors.CheckViolation("no partition of relation found for row")
        real(session, days)  # type: ignore[arg-type]

    monkeypatch.setattr("scheduling.store.redrive.partitions.ensure", drop_first)
    assert redrive(node, now=DAY) == 1
    assert Fire.objects.get().state == "retry_wait"


@pytest.mark.parametrize("name", ["open", "hold", "take", "move", "make", "note_moved", "note_skipped", "count"])
def test_no_statement_of_a_node_scans_a_table(job: Job, node: Connection, name: str) -> None:
    ensure(node, [(30, DAY.date()), (30, DAY.date() + timedelta(days=1))])
    node.execute("ANALYZE scheduling_fire, scheduling_job, scheduling_deadletter, scheduling_redrive")
    values = {
        "redrive": 1, "limit": 10, "letters": [1], "ids": [job.pk], "scheduled_fors": [DAY], "history_days": [30],
        "job_ids": [job.pk], "wake_ats": [DAY], "moved": 1, "skipped": 0,
    }  # fmt: skip
    plan = node.execute(f"EXPLAIN {SQL[name]}".encode(), values).fetchall()
    assert not [line for (line,) in plan if "Seq Scan" in line]
