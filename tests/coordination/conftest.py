from __future__ import annotations

from tests.committed import committed_db, test_database  # noqa: F401  (fixtures)
