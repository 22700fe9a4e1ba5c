"""Who else is there: the nodes that live, and what workers last said of themselves."""

from __future__ import annotations

from fairness.core.depth import Report
from scheduling.store.connection import Connection
from scheduling.store.statements import statements


def live_nodes(connection: Connection) -> frozenset[str]:
    """Their names. Raises psycopg.Error."""
    return frozenset(name for (name,) in connection.execute(statements("fleet")["live_nodes"]))


def worker_reports(connection: Connection) -> list[Report]:
    """Those of the last minute, one of each worker. Raises psycopg.Error."""
    return [Report(*row) for row in connection.execute(statements("fleet")["worker_reports"])]
