"""Resume paused jobs, with or without what they missed.

::

    none     nothing is brought back (the default)
    latest   the newest occurrence that the pause took
    all      each one, at most the job's catch_up_limit and within its catch_up_window

What comes back keeps its identity, under a higher fence, and is due now: expiry and latency count from now. Rows that
stand for several occurrences stay skipped.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from django.db import DEFAULT_DB_ALIAS

from scheduling.core.fire import CatchUp
from scheduling.core.recurrence.schedule import option
from scheduling.models.hints import hint_due
from scheduling.services.session import BY_LIMIT, Jobs, ids_of, in_transaction, said
from scheduling.store import pauses

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Resumed:
    """How many jobs were paused and are not any more, and how many fires came back. ``closing``: of how many the owner
    has yet to record what came due during the pause; it brings back what is to come back, a moment later.
    """

    jobs: int
    fires: int
    closing: int


def resume(jobs: Jobs, *, by: str, catch_up: CatchUp | str = CatchUp.NONE, using: str = DEFAULT_DB_ALIAS) -> Resumed:
    """End the pauses of these jobs in one transaction; jobs that are not paused are passed over.

    Raises InvalidField (``by``, ``catch_up``).
    """
    who, choice = said("by", by, limit=BY_LIMIT), option("catch_up", CatchUp, catch_up)
    with in_transaction(using) as connection:
        ids = ids_of(jobs)
        now = pauses.lock(connection, ids)
        were_paused, ended = pauses.end_now(connection, ids, choice, now=now)
        for shard in set(were_paused.values()):
            hint_due(shard, now, now=now, using=using)
    done = Resumed(len(were_paused), sum(ended.values()), len(were_paused) - len(ended))
    logger.info("%s resumed %d jobs, catch-up %s: %d fires come back", who, done.jobs, choice, done.fires)
    return done
