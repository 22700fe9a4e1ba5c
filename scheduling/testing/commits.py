"""Commits inside the transaction of a test, which is rolled back: they are savepoints there, and nobody notices.

A test case's transaction is the whole database of its test. But a task, a node and the ledger begin and commit
transactions of their own, and what one statement wrote by itself stays, though the next one fails. Within
``committing`` the Django connection behaves so: it says that it is in no transaction, ``atomic()`` at the outermost is
one with its commit (deferred constraints are checked, ``on_commit`` hooks run), and a single statement that fails
undoes itself alone.

Where the connection is in no transaction (``django_db(transaction=True)``, ``TransactionTestCase``) nothing is played.
Does not do: other sessions, which see nothing of a test's transaction; constraints that are declared ``IMMEDIATE`` are
checked at commits only, from the first one on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from scheduling.core.errors import FairbeatError

COMMIT, STATEMENT = "fairbeat_commit", "fairbeat_statement"  # savepoints
_STATE = (  # what a connection keeps of the transaction that it is in
    "in_atomic_block",
    "atomic_blocks",
    "savepoint_ids",
    "needs_rollback",
    "rollback_exc",
    "commit_on_exit",
    "autocommit",
    "run_on_commit",
    "run_commit_hooks_on_set_autocommit_on",
)


class InsideTransaction(FairbeatError):
    """Nodes and other workers do not see what this transaction has not committed; leave it first."""


@contextmanager
def committing(using: str) -> Iterator[None]:
    """Raises InsideTransaction within a transaction that was begun within."""
    connection = connections[using]
    connection.ensure_connection()
    if _played(connection) is not None:
        if connection.in_atomic_block:
            raise InsideTransaction(InsideTransaction.__doc__)
        yield
    elif connection.in_atomic_block:
        with _Played(connection).instead():
            yield
    else:
        yield


def is_broken(using: str) -> bool:
    """Whether nothing more can be done in the transaction that the connection is in."""
    connection = connections[using]
    if connection.connection is None:
        return False
    failed = connection.connection.info.transaction_status is TransactionStatus.INERROR
    return failed or (connection.in_atomic_block and connection.needs_rollback)


class _Played:
    """Takes the place of a connection's state, and of what begins and ends its transactions."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection
        self._idle = self._run("SELECT current_setting('idle_in_transaction_session_timeout')").fetchone()[0]

    @contextmanager
    def instead(self) -> Iterator[None]:
        state = vars(self._connection)
        before = {name: state[name] for name in _STATE}
        state.update(
            dict.fromkeys(_STATE, False),
            atomic_blocks=[],
            savepoint_ids=[],
            rollback_exc=None,
            commit_on_exit=True,
            autocommit=True,
            run_on_commit=[],
        )
        methods: dict[str, Any] = {
            "_set_autocommit": self._set_autocommit,
            "_commit": self._commit,
            "_rollback": self._rollback,
            "close": self._keep,
            "close_if_unusable_or_obsolete": self._keep,
            "_fairbeat_played": self,
        }
        state.update(methods)
        try:
            with self._connection.execute_wrapper(self._execute):
                yield
        finally:
            for name in methods:
                del state[name]
            state.update(before)

    @property
    def _idle_as_before(self) -> str:
        """ctx.commit() limits how long its transaction may idle: that ends with it, and ours goes on."""
        return f"SET LOCAL idle_in_transaction_session_timeout = '{self._idle}'"

    def _run(self, sql: str) -> Any:
        with self._connection.wrap_database_errors:
            return self._connection.connection.execute(sql)

    def _execute(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if self._connection.in_atomic_block:
            return execute(sql, params, many, context)
        self._run(f"SAVEPOINT {STATEMENT}")
        try:
            result = execute(sql, params, many, context)
        except BaseException:
            if not self._connection.connection.closed:
                self._run(f"ROLLBACK TO {STATEMENT}; RELEASE {STATEMENT}")
            raise
        self._run(f"RELEASE {STATEMENT}; {self._idle_as_before}")
        return result

    def _set_autocommit(self, autocommit: bool) -> None:
        if not autocommit:
            self._run(f"SAVEPOINT {COMMIT}")

    def _commit(self) -> None:
        self._run(
            f"SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED; RELEASE {COMMIT}; {self._idle_as_before}"
        )

    def _rollback(self) -> None:
        self._run(f"ROLLBACK TO {COMMIT}; RELEASE {COMMIT}")

    def _keep(self) -> None:
        """Closed, the test's transaction would be gone."""


def _played(connection: BaseDatabaseWrapper) -> _Played | None:
    found: _Played | None = vars(connection).get("_fairbeat_played")
    return found
