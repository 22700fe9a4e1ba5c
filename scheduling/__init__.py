"""Jobs that are fired on schedule and run once.

::

    from scheduling import current_job, job

    @job
    def charge(invoice):
        with current_job().commit():
            Payment.objects.create(invoice_id=invoice, key=current_job().idempotency_key)

Public names, and nothing else. They are loaded when first used, so that this package can be imported before Django is
set up.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scheduling.core.errors import FairbeatError, InvalidField, LeaseLost
    from scheduling.worker.context import JobContext, current_job
    from scheduling.worker.decorator import job
    from scheduling.worker.errors import (
        Cancel,
        CommitRefused,
        NoCurrentJob,
        Retry,
        Snooze,
        StaleWrite,
        StepInDoubt,
        StepRefused,
    )
    from scheduling.worker.fenced import FencedModel as FencedModel
    from scheduling.worker.fenced import FencedQuerySet as FencedQuerySet
    from scheduling.worker.task import JobTask

__all__ = [
    "Cancel",
    "CommitRefused",
    "FairbeatError",
    "InvalidField",
    "JobContext",
    "JobTask",
    "LeaseLost",
    "NoCurrentJob",
    "Retry",
    "Snooze",
    "StaleWrite",
    "StepInDoubt",
    "StepRefused",
    "current_job",
    "job",
]

# FencedModel and FencedQuerySet are public as well, and left out above: a model needs Django set up.

_HOMES = {
    "Cancel": "scheduling.worker.errors",
    "CommitRefused": "scheduling.worker.errors",
    "FairbeatError": "scheduling.core.errors",
    "FencedModel": "scheduling.worker.fenced",
    "FencedQuerySet": "scheduling.worker.fenced",
    "InvalidField": "scheduling.core.errors",
    "JobContext": "scheduling.worker.context",
    "JobTask": "scheduling.worker.task",
    "LeaseLost": "scheduling.core.errors",
    "NoCurrentJob": "scheduling.worker.errors",
    "Retry": "scheduling.worker.errors",
    "Snooze": "scheduling.worker.errors",
    "StaleWrite": "scheduling.worker.errors",
    "StepInDoubt": "scheduling.worker.errors",
    "StepRefused": "scheduling.worker.errors",
    "current_job": "scheduling.worker.context",
    "job": "scheduling.worker.decorator",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
