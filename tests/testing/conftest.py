"""The user's app of these tests has tables of its own, and an empty world outside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from tests.testing.shop import MODELS, calls


@pytest.fixture(autouse=True)
def shop(request: pytest.FixtureRequest) -> Iterator[None]:
    """In the transaction of the test, where it has one."""
    calls.clear()
    marker = request.node.get_closest_marker("django_db")
    if marker is None:
        yield
        return
    request.getfixturevalue("db")
    with connection.schema_editor() as editor:
        for model in MODELS:
            editor.create_model(model)
    yield
    if marker.kwargs.get("transaction"):
        with connection.schema_editor() as editor:
            for model in reversed(MODELS):
                editor.delete_model(model)
