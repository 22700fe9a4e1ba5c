"""When the ledger keeps its plans, and what becomes of a statement whose kept plan does not do any more."""

from __future__ import annotations

import sys
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import OperationalError, connection, transaction

from scheduling.models import Fire
from scheduling.store.ledger import PostgresLedger
from scheduling.store.ledger_port import Acquired, Refusal, Refused
from tests import committed
from tests.fires import NOON, delivery_of, make_fire, make_job
from tests.store.ledger_plans import counted_round_trips

committed_db = committed.committed_db
test_database = committed.test_database

GROW = """
INSERT INTO scheduling_fire
    (id, job_id, tenant_id, shard_id, history_days, scheduled_for, fire_at, schedule_version, state)
SELECT gen_random_uuid(), gen_random_uuid(), 1, 1, 30, %(noon)s, %(noon)s, 1, 'succeeded' FROM generate_series(1, 3000);
INSERT INTO scheduling_job SELECT (jsonb_populate_record(j, jsonb_build_object('id', gen_random_uuid(), 'name', n))).*
FROM scheduling_job j, generate_series(1, 1500) n;
"""


@pytest.fixture
def ledger() -> PostgresLedger:
    return PostgresLedger("default", lease=timedelta(seconds=30))


def run(ledger: PostgresLedger, fire: Fire) -> None:
    verdict = ledger.acquire(delivery_of(fire))
    assert isinstance(verdict, Acquired)
    ledger.complete(verdict, worker="w", result="")


def prepared() -> list[tuple[str, int]]:
    """The ledger's statements on this session: name, and number of parameters."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name, cardinality(parameter_types) FROM pg_prepared_statements WHERE name LIKE 'fairbeat%'"
        )
        return cursor.fetchall()


@pytest.mark.django_db
class TestWhenPlansAreKept:
    @pytest.fixture(autouse=True)
    def _no_statement_is_left(self):
        with connection.cursor() as cursor:
            cursor.execute("DEALLOCATE ALL")

    def test_not_while_a_table_is_so_small_that_a_plan_might_read_it_whole(self, ledger):
        for _ in range(3):
            run(ledger, make_fire(make_job()))

        assert prepared() == []

    def test_once_the_tables_have_grown_and_every_plan_then_finds_its_rows_by_an_index(self, ledger):
        job = make_job()
        run(ledger, make_fire(job))
        with connection.cursor() as cursor:
            cursor.execute(GROW, {"noon": NOON})
            cursor.execute("ANALYZE scheduling_fire, scheduling_job")
        for minute in range(1, 9):  # the server itself plans the first five times anew
            fire = make_fire(job, NOON + timedelta(minutes=minute))
            run(ledger, fire)
            ledger.acquire(delivery_of(fire))  # refused: by the statement that judges all cases

        assert len(prepared()) == 3
        with connection.cursor() as cursor:
            for name, parameters in prepared():
                cursor.execute(f"EXPLAIN EXECUTE {name} ({', '.join(['NULL'] * parameters)})")
                plan = "\n".join(line for (line,) in cursor.fetchall())
                assert "= $" in plan
                assert "Seq Scan" not in plan

    def test_not_behind_a_pooler_that_changes_sessions(self, ledger, monkeypatch):
        monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
        ledger._session.keep_plans(delivery_of(make_fire(make_job())), "scheduling_fire_30_20260302")

        run(ledger, make_fire(make_job()))
        assert prepared() == []

    def test_not_under_gevent_where_a_call_of_libpq_would_hold_up_every_task(self, ledger, monkeypatch):
        monkeypatch.setitem(sys.modules, "gevent.monkey", SimpleNamespace(is_module_patched=lambda _: True))
        ledger._session.keep_plans(delivery_of(make_fire(make_job())), "scheduling_fire_30_20260302")

        run(ledger, make_fire(make_job()))
        assert prepared() == []


@pytest.mark.usefixtures("committed_db")
class TestWithKeptPlans:
    @pytest.fixture
    def ledger(self, ledger: PostgresLedger) -> PostgresLedger:
        ledger._session.keep_plans(delivery_of(make_fire(make_job())), "scheduling_fire_30_20260302")
        connection.close()
        return ledger

    def test_a_run_costs_two_round_trips_once_its_statements_are_prepared(self, ledger):
        run(ledger, make_fire(make_job()))  # on a new connection, planned anew
        run(ledger, make_fire(make_job()))
        fire = make_fire(make_job())

        with counted_round_trips() as trips:
            run(ledger, fire)
        assert len(trips) == 2

    def test_a_session_that_ends_between_two_statements_is_made_anew(self, ledger):
        run(ledger, make_fire(make_job()))
        fire = make_fire(make_job())

        verdict = ledger.acquire(delivery_of(fire))
        with connection.cursor() as cursor, pytest.raises(OperationalError):
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        ledger.complete(verdict, worker="w", result="")

        assert Fire.objects.by_id(fire.id).state == "succeeded"

    def test_discard_all_in_a_task_costs_a_new_connection_and_nothing_else(self, ledger):
        for _ in range(2):
            run(ledger, make_fire(make_job()))
        with connection.cursor() as cursor:
            cursor.execute("DISCARD ALL")

        run(ledger, make_fire(make_job()))
        assert set(Fire.objects.filter(attempt=1).values_list("state", flat=True)) == {"succeeded"}

    def test_a_message_of_a_day_that_was_dropped_is_refused(self, ledger):
        fire = make_fire(make_job())
        run(ledger, fire)
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE scheduling_fire_30_20260302, scheduling_jobrun_30_20260302")

        assert ledger.acquire(delivery_of(fire)) == Refused(Refusal.GONE)

    def test_a_completion_in_a_transaction_is_part_of_it(self, ledger):
        run(ledger, make_fire(make_job()))
        fire = make_fire(make_job())
        verdict = ledger.acquire(delivery_of(fire))

        with transaction.atomic():
            ledger.complete(verdict, worker="w", result="")
            transaction.set_rollback(True)
        assert Fire.objects.by_id(fire.id).state == "running"
