"""Several sessions of the database at once: one is stopped in the middle of a transaction, the others go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import psycopg
from django.db import connection

from scheduling.core.plans import JobPlan
from scheduling.store.connection import Connection
from scheduling.store.partitions import KnownDays
from scheduling.store.statements import statements
from scheduling.store.values import claim_values
from tests.processes import eventually

InThread = Callable[..., "Future[Any]"]
OpenSession = Callable[[str], Connection]
SQL = statements("schedule")


def begin_claim(session: Connection, epochs: dict[int, int], plans: Sequence[JobPlan]) -> None:
    """Everything of a claim but its commit."""
    KnownDays().ensure(session, plans)
    session.execute("BEGIN")
    session.execute(SQL["hold_epochs"], {"shards": list(epochs), "epochs": list(epochs.values())})
    session.execute(SQL["claim"], claim_values(plans))


def until_someone_waits(how_many: int = 1) -> None:
    """Until so many sessions wait for a lock."""
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as session:

        def waiting() -> bool:
            found = session.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0"
            ).fetchone()
            return found is not None and found[0] >= how_many

        eventually(waiting, interval_s=0.005)
