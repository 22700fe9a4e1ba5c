"""Out of the buckets: what a stop with the bucketed store left as entries goes back to the jobs' rows.

Run by the owner of the shards, before it reads them by their rows. Nothing is there as a rule, and then it costs a
look into empty tables.
"""

from __future__ import annotations

from collections.abc import Collection

from scheduling.store.connection import Connection
from scheduling.store.statements import statements


def back_to_rows(connection: Connection, shards: Collection[int]) -> int:
    """Within the caller's transaction; returns how many jobs."""
    sql, values = statements("buckets"), {"shards": sorted(shards)}
    if connection.execute(sql["any_in_buckets"], values).fetchone() == (False,):
        return 0
    statement = statements("buckets", which=sql["of_shards"], patience="")["back_to_rows"]
    return connection.execute(statement, values).rowcount
