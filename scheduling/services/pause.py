"""Pause jobs: from the commit on no fire of their schedules starts, until someone resumes them, or until a set time.

What was claimed and has not started is skipped, with the reason ``paused``, and so is what comes due meanwhile; the end
of the pause can bring it back. A run goes on; its retry waits for the end. *Run now*, backfills and redrives run all
the same: a person asked for them. A plain Celery task's messages that are sent already cannot be called back.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from django.db import DEFAULT_DB_ALIAS

from scheduling.core.errors import InvalidField
from scheduling.core.fire import CatchUp
from scheduling.core.recurrence.schedule import option, utc
from scheduling.services.session import BY_LIMIT, Jobs, ids_of, in_transaction, said
from scheduling.store import pauses

logger = logging.getLogger(__name__)
REASON_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Paused:
    """How many jobs are paused now, and how many of their fires were skipped by it."""

    jobs: int
    skipped: int


def pause(
    jobs: Jobs,
    *,
    reason: str,
    by: str,
    until: datetime | None = None,
    catch_up: CatchUp | str = CatchUp.NONE,
    using: str = DEFAULT_DB_ALIAS,
) -> Paused:
    """Pause these jobs in one transaction; deleted ones are passed over.

    ``until`` (aware, job time) is when the pause ends by itself; ``catch_up`` is what becomes then of the occurrences
    that it skipped. A job that is paused already stays so since when it was, and the rest is said anew.

    Raises InvalidField: ``reason`` or ``by`` missing or too long, ``until`` naive or not in the future, an unknown
    ``catch_up``.
    """
    given = pauses.Pause(
        reason=said("reason", reason, limit=REASON_LIMIT),
        by=said("by", by, limit=BY_LIMIT),
        until=None if until is None else utc("until", until),
        catch_up=option("catch_up", CatchUp, catch_up),
    )
    with in_transaction(using) as connection:
        ids = ids_of(jobs)
        now = pauses.lock(connection, ids)
        if given.until is not None and given.until <= now:
            raise InvalidField("until", given.until.isoformat(), f"is not in the future: it is {now.isoformat()}")
        done = Paused(*pauses.pause(connection, ids, given, now=now))
    logger.info("%s paused %d jobs, which skips %d fires: %s", given.by, done.jobs, done.skipped, given.reason)
    return done
