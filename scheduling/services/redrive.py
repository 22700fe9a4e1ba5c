"""Redrive dead letters: their fires run again, at a rate, under the same idempotency keys and higher fences.

::

    ask_redrive -> under way -all are moved or skipped-> finished
                       └─────stop_redrive─────> stopped       what had not moved stays dead, and can be asked for again

Asking marks the letters and returns; a node moves them, a second's worth at a time. A redriven fire has as many
attempts more as its job allows, is never too late, and runs on a paused job too: a person asked for it. Its arguments
are those that its job has by then. What cannot be redriven (``survey`` tells which, and why) is left as it is.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db import DEFAULT_DB_ALIAS
from django.utils import timezone

from scheduling.core.errors import InvalidField
from scheduling.models import Redrive
from scheduling.services.dead_letters import Letters, ids_of_letters, survey
from scheduling.services.session import BY_LIMIT, in_transaction, said
from scheduling.store.arrays import integers
from scheduling.store.statements import statements

logger = logging.getLogger(__name__)
DEFAULT_RATE_PER_S = 100.0
LEAST_PER_S, MOST_PER_S = 0.001, 1_000.0


def ask_redrive(
    letters: Letters, *, by: str, rate_per_s: float = DEFAULT_RATE_PER_S, using: str = DEFAULT_DB_ALIAS
) -> Redrive:
    """Have these letters redriven, in the order of their ids, at most ``rate_per_s`` in a real second.

    Raises InvalidField: ``by`` missing or too long, ``rate_per_s`` out of bounds, ``letters`` of which none can be
    redriven.
    """
    who = said("by", by, limit=BY_LIMIT)
    _check_rate(rate_per_s)
    ids = ids_of_letters(letters)
    sql = statements("redrive")
    with in_transaction(using) as connection:
        connection.execute(sql["one_at_a_time"])
        asked = Redrive.objects.using(using).create(asked_at=timezone.now(), asked_by=who, rate_per_s=rate_per_s)
        marked = connection.execute(sql["mark"], {"letters": integers(ids), "redrive": asked.pk}).rowcount
        if not marked:
            raise InvalidField("letters", len(ids), _why_none(letters, using))
        connection.execute(sql["begin"], {"redrive": asked.pk, "total": marked})
        asked.refresh_from_db()
    logger.info("%s asked for %s, %g a second", who, asked, rate_per_s)
    return asked


def _why_none(letters: Letters, using: str) -> str:
    against = survey(letters, using=using).against
    return f"none of them can be redriven: {', '.join(against)}" if against else "there are none to redrive"


def _check_rate(rate_per_s: float) -> None:
    is_number = isinstance(rate_per_s, int | float) and not isinstance(rate_per_s, bool)
    if not is_number or not LEAST_PER_S <= rate_per_s <= MOST_PER_S:
        raise InvalidField("rate_per_s", rate_per_s, f"is not a number from {LEAST_PER_S:g} to {MOST_PER_S:g}")


def stop_redrive(redrive_id: int, *, by: str, using: str = DEFAULT_DB_ALIAS) -> Redrive:
    """No more is moved; waits for what a node is moving just now, so that its counts are the last.

    Raises InvalidField (``redrive``): there is none, or it has ended already.
    """
    who = said("by", by, limit=BY_LIMIT)
    with in_transaction(using) as connection:
        stopped = connection.execute(statements("redrive")["stop"], {"redrive": redrive_id}).rowcount
    found = _found(redrive_id, using)
    if not stopped:
        raise InvalidField("redrive", redrive_id, f"is {Progress.of(found).state} already")
    logger.info("%s stopped %s", who, found)
    return found


# -- progress --------------------------------------------------------------------------------------------------------


class RedriveState(StrEnum):
    UNDER_WAY = "under way"
    STOPPED = "stopped"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Progress:
    """``left`` will still be moved, or, once it is stopped, never; ``left_s``: for how long still, at its rate."""

    id: int
    state: RedriveState
    total: int
    moved: int
    skipped: int
    left: int
    rate_per_s: float
    left_s: float
    asked_at: datetime
    asked_by: str
    ended_at: datetime | None

    @classmethod
    def of(cls, redrive: Redrive) -> Progress:
        state = RedriveState.UNDER_WAY
        if redrive.stopped_at is not None:
            state = RedriveState.STOPPED
        elif redrive.finished_at is not None:
            state = RedriveState.FINISHED
        left = redrive.total - redrive.moved - redrive.skipped
        return cls(
            id=redrive.pk,
            state=state,
            total=redrive.total,
            moved=redrive.moved,
            skipped=redrive.skipped,
            left=left,
            rate_per_s=redrive.rate_per_s,
            left_s=left / redrive.rate_per_s if state is RedriveState.UNDER_WAY else 0.0,
            asked_at=redrive.asked_at,
            asked_by=redrive.asked_by,
            ended_at=redrive.stopped_at or redrive.finished_at,
        )

    def __str__(self) -> str:
        skipped = f", skipped {self.skipped}" if self.skipped else ""
        rest = f", left {self.left}" if self.left else ""
        return f"redrive {self.id}: {self.state}, moved {self.moved} of {self.total}{skipped}{rest}"


def progress(redrive_id: int, *, using: str = DEFAULT_DB_ALIAS) -> Progress:
    """How far it has got.

    Raises InvalidField (``redrive``).
    """
    return Progress.of(_found(redrive_id, using))


def latest(count: int, *, using: str = DEFAULT_DB_ALIAS) -> list[Progress]:
    """Of the newest redrives."""
    return [Progress.of(redrive) for redrive in Redrive.objects.using(using).order_by("-pk")[:count]]


def _found(redrive_id: int, using: str) -> Redrive:
    redrive = Redrive.objects.using(using).filter(pk=redrive_id).first()
    if redrive is None:
        raise InvalidField("redrive", redrive_id, "there is no such redrive")
    return redrive
