from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.committed import committed_db, test_database  # noqa: F401  (fixtures)
from tests.store.backends import Backend, MemoryBackend, PostgresBackend


@pytest.fixture(params=["memory", "postgres"])
def world(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Every schedule store, in turn."""
    if request.param == "memory":
        yield MemoryBackend()
        return
    request.getfixturevalue("committed_db")
    backend = PostgresBackend()
    yield backend
    backend.store.close()
