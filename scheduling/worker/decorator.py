"""``@job``: a function becomes a task that jobs can name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import shared_task

from scheduling.core.errors import InvalidField
from scheduling.worker.task import JobTask, refuse_unsafe


def job(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a Celery task of a function, run under the ledger: ``@job`` or ``@job(name="shop.charge")``.

    The options are those of Celery's ``shared_task``. Raises InvalidField for one that would break the guarantees.
    """
    base = options.setdefault("base", JobTask)
    if not (isinstance(base, type) and issubclass(base, JobTask)):
        raise InvalidField("base", base, "is not a subclass of JobTask")
    refuse_unsafe(options)
    if function is None:
        return shared_task(**options)
    if not callable(function):
        raise InvalidField("function", function, "is not a function; options are given by name")
    return shared_task(**options)(function)
