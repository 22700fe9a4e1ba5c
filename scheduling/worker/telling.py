"""The signals of a worker: what became of the fire that it ran."""

from __future__ import annotations

from typing import Any

from scheduling import signals
from scheduling.core.fingerprint import first_line
from scheduling.worker.context import JobContext


def tell_succeeded(context: JobContext, result: object) -> None:
    signals.tell(signals.job_succeeded, lambda: _facts(context) | {"result": result})


def tell_failed(context: JobContext, *, reason: str, error: str) -> None:
    """Another attempt follows."""
    signals.tell(signals.job_failed, lambda: _facts(context) | {"reason": reason, "error": first_line(error)})


def tell_dead(context: JobContext, *, reason: str, error: str) -> None:
    signals.tell(signals.job_dead, lambda: _facts(context) | {"reason": reason, "error": first_line(error)})


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
