"""Whether what a task raised is tried again: ``retry_on`` and ``give_up_on`` of ``@job``, and Celery's words for them.

==========================  ==========================================================================================
said by                     what it means
==========================  ==========================================================================================
``give_up_on``              these are not tried again
``dont_autoretry_for``      the same, in Celery's word
``retry_on``                these alone are tried again
``autoretry_for``           the same, where ``retry_on`` is not given
``max_retries``             given to the task, or to ``self.retry()``: no more retries than that, however many attempts
                            the job has left (Celery's own default of 3 is nobody's wish, and does not count)
(nothing)                   everything is tried again, until the job's attempts are used up
==========================  ==========================================================================================

A class in both lists: the one nearer to what was raised decides, and ``give_up_on`` where they are the same. A step in
doubt and a stale write are not tried again unless ``retry_on`` names them: another attempt would meet the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.core.errors import InvalidField
from scheduling.worker.errors import Ending, StaleWrite, StepInDoubt

Types = tuple[type[Exception], ...]
HOPELESS: Types = (StaleWrite, StepInDoubt)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Of one task."""

    retry_on: Types = ()  # empty: all
    give_up_on: Types = ()
    max_retries: int | None = None  # None: the job's attempts alone

    def is_worth_another(self, error: Exception) -> bool:
        """Whether this exception is tried again, attempts permitting."""
        for raised in type(error).__mro__:
            if raised in self.give_up_on:
                return False
            if raised in self.retry_on:
                return True
        return not self.retry_on and not isinstance(error, HOPELESS)


def policy_of(task: Any) -> RetryPolicy:
    """What the task's options say. Its class has checked them."""
    return RetryPolicy(
        retry_on=_types("retry_on", task.retry_on) or tuple(getattr(task, "autoretry_for", ())),
        give_up_on=_types("give_up_on", task.give_up_on) + tuple(getattr(task, "dont_autoretry_for", ())),
        max_retries=_own_max_retries(type(task)),
    )


def refuse_unclear(options: Mapping[str, Any]) -> None:
    """Raises InvalidField for a ``retry_on`` or ``give_up_on`` that says nothing, or contradicts the other."""
    retry_on, give_up_on = (_types(name, options.get(name, ())) for name in ("retry_on", "give_up_on"))
    both = [found.__name__ for found in retry_on if found in give_up_on]
    if both:
        raise InvalidField("retry_on", ", ".join(both), "is in give_up_on as well; which of the two is it?")


def _types(field: str, value: Any) -> Types:
    found = value if isinstance(value, tuple | list | set | frozenset) else (value,)
    for one in found:
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise InvalidField(field, value, "is not an exception class, nor a tuple of them")
        if not issubclass(one, Exception):
            raise InvalidField(field, one.__name__, "ends the process, and not an attempt; it cannot be decided upon")
        if issubclass(one, Ending):
            raise InvalidField(field, one.__name__, "says itself how the attempt ends; leave it out")
    return tuple(found)


def _own_max_retries(task: type) -> int | None:
    """As somebody has set it: on the task, or on a base class of one's own."""
    for cls in task.__mro__:
        if cls.__module__.startswith(("scheduling.worker.", "celery.")):
            return None
        if "max_retries" in vars(cls):
            found: int | None = cls.__dict__["max_retries"]
            return found
    return None
