"""Reads what tenants may have, when it has changed; and which tasks acquire their fires, so that their end is seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from psycopg.rows import TupleRow

from fairness.core.terms import Bound, Terms
from scheduling.store.connection import Connection
from scheduling.store.statements import statements


class TermsReader:
    """Knows nothing before the first ``read``. One thread."""

    def __init__(self) -> None:
        self.terms: Mapping[int, Terms] = {}
        self.guarded: frozenset[str] = frozenset()
        self._sql = statements("terms")
        self._seen: TupleRow | None = None

    def read(self, connection: Connection) -> bool:
        """Whether something has changed. Raises psycopg.Error, and then all is known as it was."""
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")  # one view of it all
            seen = connection.execute(self._sql["changed"]).fetchone()
            if seen == self._seen:
                return False
            bounds: dict[int, dict[tuple[str, str], Bound]] = defaultdict(dict)
            for tenant, lane, task, *bound in connection.execute(self._sql["limits"]).fetchall():
                bounds[tenant][lane, task] = Bound(*bound)
            terms = {row[0]: _terms(row, bounds.get(row[0], {})) for row in connection.execute(self._sql["terms"])}
            guarded = frozenset(name for (name,) in connection.execute(self._sql["guarded_tasks"]))
        self.terms, self.guarded, self._seen = terms, guarded, seen
        return True


def _terms(row: TupleRow, bounds: dict[tuple[str, str], Bound]) -> Terms:
    tenant, slug, weight, transactional_weight, daily_fires, *bound = row
    whole = Bound(*bound)
    if whole.bounds_anything:
        bounds = {("", ""): whole, **bounds}
    return Terms(tenant, slug, weight, transactional_weight, daily_fires, bounds)
