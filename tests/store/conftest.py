from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections

from scheduling.store.connection import Connection, connector
from tests import committed
from tests.store.backends import Backend, BucketedBackend, MemoryBackend, PostgresBackend
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
