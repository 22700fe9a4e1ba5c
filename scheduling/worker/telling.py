"""The signals of a worker: what became of the fire that it ran."""

from __future__ import annotations

import logging
from typing import Any

from django.db import Error

from scheduling import signals
from scheduling.core.fingerprint import first_line
from scheduling.worker.context import JobContext

log = logging.getLogger(__name__)


def tell_succeeded(context: JobContext, result: object) -> None:
    signals.tell(signals.job_succeeded, lambda: _facts(context) | {"result": result})


def tell_failed(context: JobContext, *, reason: str, error: str) -> None:
    """Another attempt follows."""
    signals.tell(signals.job_failed, lambda: _facts(context) | {"reason": reason, "error": first_line(error)})


def tell_dead(context: JobContext, *, reason: str, error: str) -> None:
    """As its dead letter says: it may have been asked to stop, and not have heard so. As given, if that is not read."""
    given = {"reason": reason, "error": first_line(error)}
    signals.tell(signals.job_dead, lambda: _facts(context) | given | _letter(context))


def _letter(context: JobContext) -> dict[str, Any]:
    from scheduling.models import DeadLetter

    letters = DeadLetter.objects.using(context.database).filter(fire_id=context.fire_id)
    try:
        found: Any = letters.values("reason", "error").first()
    except Error as problem:
        log.warning("fire %s: its dead letter could not be read: %s", context.fire_id, problem)
        found = None
    return found or {}


def _facts(context: JobContext) -> dict[str, Any]:
    return {
        "fire_id": context.fire_id,
        "job_id": context.job_id,
        "tenant": context.tenant,
        "name": context.name,
        "task": context.task,
        "scheduled_for": context.scheduled_for,
        "origin": context.fired.origin,
        "attempt": context.attempt,
    }
