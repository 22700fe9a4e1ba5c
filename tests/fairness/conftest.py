"""A database that several sessions look at."""

from __future__ import annotations

from tests import committed

test_database = committed.test_database
committed_db = committed.committed_db
