"""What is kept beside the ledger's days, and goes with them or after them: steps, and dead letters about which somebody
has decided.

===============================  ====================================================================================
steps of a fire                  go with the day of their fire; while a dead letter of it waits, they stay
a dead letter that waits         stays until somebody redrives or discards it: nothing that was due is lost by waiting
one that was redriven            goes after the days of its class, counted from then: it says what became of it
one that was cancelled           the same, counted from its death: a person, or the task itself, has decided
one that names no fire of ours   goes after ``FOREIGN_DAYS``: it cannot be redriven
===============================  ====================================================================================

A call deletes a bounded number of rows; what is left goes with a later one.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from psycopg import sql

from scheduling.store.connection import Connection
from scheduling.store.statements import statements

STEPS = 2_000  # in one call: a node has other things to do meanwhile
LETTERS = 10_000
FOREIGN_DAYS = 90
LONGEST_DAYS = 90  # of the classes of history


def forget_steps(connection: Connection, fires: str, day: datetime) -> bool:
    """Of the finished fires in this partition, whose day begins at ``day``; whether all are gone."""
    query = sql.SQL(statements("leftovers")["steps_of_day"]).format(table=sql.Identifier(fires))
    values = {"day": day, "next_day": day + timedelta(days=1), "limit": STEPS}
    return connection.execute(query, values).rowcount < STEPS


def forget_leftovers(connection: Connection, *, now: datetime) -> None:
    """Once a day has gone: dead letters, and steps whose dead letter has gone after their fire. ``now`` is job time."""
    connection.execute(statements("leftovers")["letters"], {"foreign_days": FOREIGN_DAYS, "limit": LETTERS})
    oldest = now - timedelta(days=LONGEST_DAYS + 1)
    connection.execute(statements("leftovers")["steps"], {"before": oldest, "limit": STEPS})
