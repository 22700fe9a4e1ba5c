"""Cancel fires: by their ids, or all that are unfinished of jobs. What is still to come of a schedule is not touched:
pause or delete the job for that.

What has not started never does (``skipped``, or ``dead`` with a dead letter where it is a retry that waits). What runs
is asked to stop: its task sees it in its context, and is ended there, or goes on to its end if it does not look. A
plain Celery task's messages that are sent already cannot be called back, and its runs are not ours to end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS

from scheduling.core.errors import InvalidField
from scheduling.core.fingerprint import first_line
from scheduling.core.identity import millisecond_of
from scheduling.models import Job
from scheduling.models.told_deaths import tell_of_deaths
from scheduling.services.session import BY_LIMIT, Jobs, ids_of, in_transaction, said
from scheduling.store import cancel, pauses
from scheduling.store.connection import Connection

logger = logging.getLogger(__name__)
REASON_LIMIT = 500
MOST = 10_000  # fires by their ids, at once


@dataclass(frozen=True, slots=True)
class Cancelled:
    """``at_once`` will not run any more; ``asked`` are running, and were asked to stop; ``sent`` are messages of plain
    Celery tasks, which are left as they are; ``over`` had ended before.
    """

    at_once: int
    asked: int
    sent: int = 0
    over: int = 0


def cancel_fires(
    *,
    fires: Iterable[UUID] = (),
    jobs: Jobs = (),
    by: str,
    reason: str = "",
    using: str = DEFAULT_DB_ALIAS,
) -> Cancelled:
    """Cancel these fires, and all that are unfinished of these jobs, in one transaction.

    Raises InvalidField: a ``fire`` that there is none of, more than ``MOST`` ``fires``, ``by`` missing or too long,
    ``reason`` too long.
    """
    who = said("by", by, limit=BY_LIMIT)
    why = first_line(said("reason", reason, limit=REASON_LIMIT)) if reason.strip() else f"cancelled by {who}"
    whole_jobs = ids_of(jobs)
    with in_transaction(using) as connection:
        named = _named(connection, list(dict.fromkeys(fires)))
        job_ids = {*whole_jobs, *named.values()}
        pauses.lock(connection, job_ids)
        shards = set(Job.objects.using(using).filter(pk__in=whole_jobs).values_list("shard_id", flat=True))
        keys = {*named, *cancel.unfinished(connection, whole_jobs, shards)}
        done = cancel.cancel(connection, job_ids, list(keys), reason=why)
        tell_of_deaths(done.died, using=using)
    logger.info("%s cancelled %d fires, and asked %d that run to stop: %s", who, done.at_once, done.asked, why)
    return Cancelled(done.at_once, done.asked, done.sent, len(keys) - done.found)


def _named(connection: Connection, ids: list[UUID]) -> dict[cancel.FireKey, UUID]:
    """The rows of these fires, with the jobs that they are of."""
    if len(ids) > MOST:
        raise InvalidField("fires", len(ids), f"are more than {MOST:,} at once; cancel by their jobs")
    found = cancel.named(connection, {fire: _millisecond(fire) for fire in ids}) if ids else {}
    if missing := set(ids) - {key.id for key in found}:
        raise InvalidField("fire", str(min(missing)), "there is no such fire")
    return found


def _millisecond(fire: UUID) -> datetime:
    try:
        return millisecond_of(fire)
    except OverflowError:
        raise InvalidField("fire", str(fire), "there is no such fire") from None
