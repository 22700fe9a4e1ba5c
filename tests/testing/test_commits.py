"""In a test's transaction code begins and commits as if there were none; and all of it goes with the test."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import IntegrityError, connection, transaction

from scheduling.testing.commits import InsideTransaction, committing
from tests.testing.shop import Invoice, Line

pytestmark = pytest.mark.django_db


def in_transaction() -> bool:
    return connection.in_atomic_block


def customers() -> list[str]:
    return list(Invoice.objects.order_by("pk").values_list("customer", flat=True))


@transaction.atomic
def fail_with(written: Callable[[], object]) -> None:
    with transaction.atomic():
        written()
    raise ZeroDivisionError


def test_code_finds_itself_in_no_transaction_and_the_test_in_its_own_again() -> None:
    blocks = list(connection.atomic_blocks)
    with committing("default"):
        assert not in_transaction()
        assert connection.get_autocommit()
        with transaction.atomic(durable=True):
            assert in_transaction()
    assert in_transaction()
    assert connection.atomic_blocks == blocks


def test_what_one_statement_wrote_stays_when_the_next_one_fails() -> None:
    with committing("default"):
        invoice = Invoice.objects.create(customer="ada")
        Line.objects.create(invoice=invoice, text="fee")
        with pytest.raises(IntegrityError):
            Line.objects.create(invoice=invoice, text="fee")
        Invoice.objects.create(customer="bob")
    assert customers() == ["ada", "bob"]


def test_a_transaction_that_fails_is_undone_whole_and_nothing_else() -> None:
    with committing("default"):
        Invoice.objects.create(customer="ada")
        with pytest.raises(ZeroDivisionError):
            fail_with(lambda: Invoice.objects.create(customer="bob"))
        assert customers() == ["ada"]


def test_a_failed_block_without_a_savepoint_is_a_failed_transaction() -> None:
    """As bulk_create() and delete() use it; inside the test's own transaction it would have broken that."""
    with committing("default"):
        invoice = Invoice.objects.create(customer="ada")
        with pytest.raises(IntegrityError):
            Line.objects.bulk_create([Line(invoice=invoice, text="fee"), Line(invoice=invoice, text="fee")])
        with transaction.atomic():
            Invoice.objects.create(customer="bob")
    assert customers() == ["ada", "bob"]
    assert not Line.objects.exists()


def test_hooks_run_at_the_commit_and_those_of_the_test_do_not() -> None:
    heard = []
    transaction.on_commit(lambda: heard.append("the test's"))
    with committing("default"):
        with transaction.atomic():
            transaction.on_commit(lambda: heard.append("the task's"))
            assert heard == []
        assert heard == ["the task's"]
        with pytest.raises(ZeroDivisionError):
            fail_with(lambda: transaction.on_commit(lambda: heard.append("undone")))
    assert heard == ["the task's"]


def test_deferred_constraints_are_checked_at_the_commit() -> None:
    with committing("default"):
        with pytest.raises(IntegrityError), transaction.atomic():
            Line.objects.create(invoice_id=404, text="fee")
        assert not Line.objects.exists()


def test_a_limit_that_was_set_for_one_transaction_ends_with_it() -> None:
    def limit() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('idle_in_transaction_session_timeout')")
            return cursor.fetchone()[0]

    before = limit()
    with committing("default"):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '5s'")
        assert limit() == before
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', '5s', true)")
    assert limit() == before


def test_the_connection_is_not_closed_under_the_test() -> None:
    with committing("default"):
        Invoice.objects.create(customer="ada")
        connection.close()
        connection.close_if_unusable_or_obsolete()
    assert customers() == ["ada"]


def test_the_world_is_not_moved_from_inside_a_transaction() -> None:
    with committing("default"):
        with committing("default"):
            Invoice.objects.create(customer="ada")
        with transaction.atomic(), pytest.raises(InsideTransaction, match="leave it first"), committing("default"):
            pass


def test_a_test_may_leave_it_by_an_exception() -> None:
    Invoice.objects.create(customer="ada")
    with pytest.raises(ZeroDivisionError), committing("default"):
        fail_with(lambda: None)
    assert customers() == ["ada"]
    assert in_transaction()


@pytest.mark.django_db(transaction=True)
def test_without_a_transaction_nothing_is_played() -> None:
    with committing("default"):
        assert connection.execute_wrappers == []
        with transaction.atomic():
            Invoice.objects.create(customer="ada")
    assert customers() == ["ada"]
