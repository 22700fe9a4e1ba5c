"""What a read touches, counted and not timed: the pages of all its statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scheduling.store.connection import Connection
from scheduling.store.postgres import PostgresStore


class Counted:
    """Runs each statement as the session does, and once more to count."""

    def __init__(self, session: Connection) -> None:
        self._session = session
        self.pages = 0

    def execute(self, statement: str, values: dict[str, Any], *, binary: bool = False) -> Any:
        plan = self._session.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}".encode(), values).fetchone()
        assert plan is not None
        (top,) = plan[0]
        self.pages += top["Plan"]["Shared Hit Blocks"] + top["Plan"]["Shared Read Blocks"]
        return self._session.execute(statement.encode(), values, binary=binary)


def pages_of(store: PostgresStore, read: Callable[[Any], object]) -> int:
    """That ``read`` touches; it is given the connection."""
    with store._link() as session:
        counted = Counted(session)
        read(counted)
    return counted.pages
