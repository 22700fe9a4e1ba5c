"""When jobs fire next: all that a page shows, or a chunk holds, by one question to the store."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS

from scheduling.models import Job
from scheduling.services.session import ids_of, in_transaction
from scheduling.store import next_runs as store
from scheduling.store.next_runs import NextRun


def next_runs(jobs: Iterable[Job], *, using: str = DEFAULT_DB_ALIAS) -> dict[UUID, NextRun]:
    """By job, as the database has it now; of those that exist."""
    with in_transaction(using) as connection:
        return store.next_runs(connection, ids_of(jobs))
