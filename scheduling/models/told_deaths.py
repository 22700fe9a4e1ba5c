"""Tells ``job_dead`` of fires that a person's wish has ended: once that is committed, and where somebody listens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction

from scheduling import signals
from scheduling.models.dead_letter import DeadLetter


def tell_of_deaths(fire_ids: Sequence[UUID], *, using: str) -> None:
    """These fires have died in the current transaction, each with its letter."""
    if fire_ids:
        transaction.on_commit(partial(_tell, fire_ids, using), using=using, robust=True)


def _tell(fire_ids: Sequence[UUID], using: str) -> None:
    from scheduling.models.job import Job  # which deletes jobs, and so uses this

    if not signals.job_dead.has_listeners(Job):
        return
    letters = DeadLetter.objects.using(using).select_related("job", "tenant").filter(fire_id__in=fire_ids)
    for letter in letters.order_by("pk"):
        signals.tell(signals.job_dead, partial(_facts, letter))


def _facts(letter: DeadLetter) -> dict[str, Any]:
    return {
        "fire_id": letter.fire_id,
        "job_id": letter.job_id,
        "tenant": letter.tenant.slug if letter.tenant is not None else "",
        "name": letter.job.name if letter.job is not None else "",
        "task": letter.task,
        "scheduled_for": letter.scheduled_for,
        "origin": letter.origin,
        "attempt": letter.attempts,
        "error": letter.error,
        "reason": letter.reason,
    }
