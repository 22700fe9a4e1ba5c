"""For tests of the ledger: what it lets run, plans that are kept from the start, and what passes between us and the
server.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from scheduling.store.ledger import PostgresLedger
from scheduling.store.ledger_port import Acquired, Delivery
from scheduling.store.partitions import Day


class EveryDay(dict[Day, str]):
    """As if all tables were too big to be scanned."""

    def get(self, day: Day, _default: object = None) -> str:
        return f"scheduling_fire_{day[0]}_{day[1]:%Y%m%d}"

    def __contains__(self, day: object) -> bool:
        return True


def keep_all_plans(ledger: PostgresLedger) -> PostgresLedger:
    ledger._session._kept = EveryDay()
    return ledger


def acquired(ledger: PostgresLedger, delivery: Delivery) -> Acquired:
    """What acquiring it gave, which was not a refusal."""
    verdict = ledger.acquire(delivery)
    assert isinstance(verdict, Acquired)
    return verdict


@contextmanager
def counted_round_trips() -> Iterator[list[str]]:
    """What the session of this thread sends meanwhile, one for each time that it waits for an answer."""
    trips: list[str] = []
    connection.ensure_connection()
    with tempfile.TemporaryFile("w+") as trace:
        connection.connection.pgconn.trace(trace.fileno())
        try:
            yield trips
        finally:
            connection.connection.pgconn.untrace()
            trace.seek(0)
            trips += [line for line in trace if "ReadyForQuery" in line]
