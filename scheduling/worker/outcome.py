"""What it means for a fire that its task raised: tried again and when, put off, or given up.

Pure: it decides, and writes nothing. Times are job time.
"""

from __future__ import annotations

import random
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from celery.exceptions import Retry as CeleryRetry

from scheduling.core.errors import InvalidField
from scheduling.core.retry import backoff
from scheduling.store.ledger_port import Acquired, Failure
from scheduling.worker.errors import Retry, delay_of
from scheduling.worker.policy import RetryPolicy


@dataclass(frozen=True, slots=True)
class Again:
    """Tried again after ``delay``, while attempts are left."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Not tried again, however many attempts are left."""

    reason: str  # a DeathReason


class AskedRetry(CeleryRetry):
    """What ``self.retry()`` raises on behalf of a fire: with ``max_retries``, where it was given one."""

    max_retries: int | None = None


def outcome_of(error: Exception, acquired: Acquired, policy: RetryPolicy) -> Again | GivenUp:
    """Whether a failed attempt is tried again, and when: as was asked, else by the job's backoff with full jitter."""
    is_asked = isinstance(error, Retry | CeleryRetry)
    if not is_asked and not policy.is_worth_another(error):
        return GivenUp("gave_up")
    limit = error.max_retries if isinstance(error, AskedRetry) and error.max_retries is not None else policy.max_retries
    if limit is not None and acquired.counted > limit:
        return GivenUp("attempts_exhausted")
    delay = _asked_delay(error)
    return Again(_backoff(acquired) if delay is None else delay)


def failure_of(error: Exception) -> Failure:
    """For the history."""
    return Failure(
        error="".join(traceback.format_exception_only(cause_of(error) or error)).strip(),
        traceback="".join(traceback.format_exception(error)),
    )


def cause_of(error: Exception) -> Exception | None:
    """What went wrong, where what was raised only asks for another attempt."""
    if isinstance(error, CeleryRetry):
        found: Any = error.exc
    elif isinstance(error, Retry):
        found = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    else:
        found = error
    return found if isinstance(found, Exception) else None


def delay_until(field: str, when: Any) -> timedelta:
    """As Celery has it: an instant, or seconds from now; what is past is now. Raises InvalidField, as for ``Retry``."""
    if isinstance(when, datetime):
        when = (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime.now(UTC)
    is_past = when < timedelta(0) if isinstance(when, timedelta) else isinstance(when, int | float) and when < 0
    return timedelta(0) if is_past else delay_of(field, when)


def _backoff(acquired: Acquired) -> timedelta:
    return backoff(acquired.counted, base=acquired.retry_base, cap=acquired.retry_cap, rand=random.random)


def _asked_delay(error: Exception) -> timedelta | None:
    if isinstance(error, Retry):
        return error.in_
    when: Any = error.when if isinstance(error, CeleryRetry) else None
    try:
        return None if when is None else delay_until("when", when)
    except InvalidField:  # raised by hand; what retry() raises is clear
        return None
