from __future__ import annotations

from tests import committed

committed_db = committed.committed_db
test_database = committed.test_database
