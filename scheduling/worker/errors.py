"""What a task's own code may raise, and what it may meet.

A task that is run for a fire ends by one of these, or by any other exception, of which the job's policy says whether
it is tried again::

    raise Retry(in_=30)            tried again in 30 s, while attempts are left
    raise Snooze(timedelta(...))   run again then, and this attempt does not count
    raise Cancel("no such user")   never again: dead, with that reason
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from scheduling.core.errors import FairbeatError, InvalidField, LeaseLost

LONGEST_DELAY = timedelta(days=366)


class Ending(FairbeatError):
    """The task says itself how its attempt ends. Times are job time."""


class Retry(Ending):
    """Try again ``in_`` this time (a ``timedelta``, or seconds); without one the job's backoff says when.

    Raised ``from`` another exception, it is that one which the history shows.
    """

    def __init__(self, reason: str = "", *, in_: timedelta | float | None = None) -> None:
        _must_be_text("reason", reason, "say when by in_=")
        self.reason = reason
        self.in_ = None if in_ is None else delay_of("in_", in_)
        super().__init__(reason or "to be tried again")

    def __reduce__(self) -> tuple[Any, ...]:
        return _retry, (self.reason, self.in_)


class Snooze(Ending):
    """Run again after this time (a ``timedelta``, or seconds). It is no attempt: as many are left as before."""

    def __init__(self, delay: timedelta | float, reason: str = "") -> None:
        _must_be_text("reason", reason, "the delay comes first")
        self.delay = delay_of("delay", delay)
        self.reason = reason
        super().__init__(reason or f"snoozed for {self.delay}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.delay, self.reason)


class Cancel(Ending):
    """Stop for good: the fire is dead, and its dead letter says ``cancelled``, with this reason."""

    def __init__(self, reason: str = "") -> None:
        _must_be_text("reason", reason, "say why, in a line")
        self.reason = reason or "its task cancelled it"
        super().__init__(self.reason)


class NoCurrentJob(FairbeatError, LookupError):
    """The code does not run on behalf of a fire: it was called directly, or sent by ``delay()``."""


class CommitRefused(FairbeatError):
    """``commit()`` was used where it could not make the task's writes and the completion one transaction."""


class StepRefused(FairbeatError):
    """``step()`` was used where it could not note what it does."""


class StepInDoubt(FairbeatError):
    """An earlier attempt began this step and ended before it said whether it happened. A person has to find out, or
    ``in_doubt``.
    """


class StaleWrite(LeaseLost):
    """A fenced write was refused: a later occurrence, or a later attempt of this one, has written these rows."""


class RejectedByTask(FairbeatError):
    """The task raised Celery's ``Reject``, and its attempts are used up. The ledger decides what becomes of a fire."""


class TaskExited(FairbeatError):
    """The task raised what ends a process or a coroutine, as ``sys.exit()`` does. Only its attempt ends by that."""


class OutOfMemory(FairbeatError):
    """The task raised MemoryError, and its attempts are used up. Only its own fire ends by that."""


def delay_of(field: str, value: timedelta | float) -> timedelta:
    """A ``timedelta``, or seconds. Raises InvalidField for one that is negative, over a year, or no number."""
    if not isinstance(value, timedelta):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidField(field, value, "is neither a timedelta nor a number of seconds")
        if math.isnan(value):
            raise InvalidField(field, value, "is not a number")
        if abs(value) > LONGEST_DELAY.total_seconds():
            raise InvalidField(field, value, f"is not within {LONGEST_DELAY.days} days")
        value = timedelta(seconds=value)
    if not timedelta(0) <= value <= LONGEST_DELAY:
        raise InvalidField(field, str(value), f"is not between 0 and {LONGEST_DELAY.days} days")
    return value


def _retry(reason: str, in_: timedelta | None) -> Retry:
    return Retry(reason, in_=in_)


def _must_be_text(field: str, value: object, problem: str) -> None:
    if not isinstance(value, str):
        raise InvalidField(field, value, f"is not text; {problem}")
