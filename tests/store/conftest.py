from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections

from scheduling.models import JobClock
from scheduling.store.connection import Connection, connector
from scheduling.store.ledger import PostgresLedger
from tests import committed
from tests.fires import NOON
from tests.store.backends import Backend, BucketedBackend, MemoryBackend, PostgresBackend
from tests.store.ledger_plans import keep_all_plans
from tests.store.sessions import InThread, OpenSession

committed_db = committed.committed_db
test_database = committed.test_database


@pytest.fixture(params=["memory", "postgres", "bucketed"])
def world(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Every schedule store, in turn."""
    if request.param == "memory":
        yield MemoryBackend()
        return
    request.getfixturevalue("committed_db")
    backend = BucketedBackend() if request.param == "bucketed" else PostgresBackend()
    yield backend
    backend.close()


@pytest.fixture
def open_session(committed_db: None) -> Iterator[OpenSession]:
    """Opens sessions as a node of this name has them, but without the limit on idling in a transaction."""
    made: list[Connection] = []

    def opened(name: str) -> Connection:
        session = connector(connection.get_connection_params(), name=name)()
        session.execute("SET idle_in_transaction_session_timeout = 0")
        made.append(session)
        return session

    yield opened
    for session in made:
        session.close()


@pytest.fixture
def in_thread() -> Iterator[InThread]:
    """Calls something in a thread, and gives its future."""
    with ThreadPoolExecutor() as pool:

        def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Future[Any]:
            def run() -> Any:
                try:
                    return function(*arguments, **options)
                finally:
                    connections["default"].close()

            return pool.submit(run)

        yield call


@pytest.fixture
def planning_ledger() -> PostgresLedger:
    """It plans every statement anew, as it does while its tables are small."""
    return PostgresLedger("default", lease=timedelta(seconds=30))


@pytest.fixture(params=["planned anew", "kept plans"])
def ledger(request: pytest.FixtureRequest, planning_ledger: PostgresLedger) -> PostgresLedger:
    return planning_ledger if request.param == "planned anew" else keep_all_plans(planning_ledger)


@pytest.fixture
def stopped_clock() -> None:
    """Job time stands still a minute after noon."""
    JobClock.objects.create(job_origin=NOON + timedelta(minutes=1), real_origin=None)
