"""``@job``: a function becomes a task that jobs can name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import shared_task

from scheduling.core.errors import InvalidField
from scheduling.worker.policy import refuse_unclear
from scheduling.worker.task import JobTask, refuse_unsafe


def job(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a Celery task of a function, run under the ledger: ``@job`` or ``@job(name="shop.charge")``.

    ``retry_on`` and ``give_up_on`` are exception classes, one or a tuple: which of them are tried again (all, where
    neither is given), and which are not. The other options are those of Celery's ``shared_task``. Raises InvalidField
    for one that would break the guarantees.
    """
    base = options.setdefault("base", JobTask)
    if not (isinstance(base, type) and issubclass(base, JobTask)):
        raise InvalidField("base", base, "is not a subclass of JobTask")
    refuse_unsafe(options)
    refuse_unclear(options)
    if function is None:
        return shared_task(**options)
    if not callable(function):
        raise InvalidField("function", function, "is not a function; options are given by name")
    return shared_task(**options)(function)
