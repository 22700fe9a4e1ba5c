"""Jitter: spreads the fires of many jobs that share an instant.

``fire_at = scheduled_for + hash(job, scheduled_for) mod jitter``: the same on every node and after every restart,
since nothing is drawn. It stays before the job's next occurrence, so that the fires of one job keep their order.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import blake2b
from uuid import UUID

from scheduling.core.clock import MICROSECOND, micros
from scheduling.core.errors import InvalidField


def jittered(job_id: UUID, scheduled_for: datetime, jitter: timedelta, next_scheduled_for: datetime | None) -> datetime:
    """When an occurrence fires: at least ``scheduled_for``, before ``scheduled_for + jitter`` and before the next
    occurrence.

    ``next_scheduled_for`` is that next occurrence, None if there is none. Raises InvalidField (``jitter``) for a
    negative one.
    """
    if not jitter:
        return scheduled_for
    if jitter < timedelta(0):
        raise InvalidField("jitter", str(jitter), "is negative")
    if next_scheduled_for is not None:
        jitter = min(jitter, next_scheduled_for - scheduled_for)
    told = blake2b(b"%b%d" % (job_id.bytes, micros(scheduled_for)), digest_size=8, person=b"jitter").digest()
    return scheduled_for + int.from_bytes(told) % (jitter // MICROSECOND) * MICROSECOND
