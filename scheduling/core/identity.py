"""Identifiers: sortable ones for jobs, deterministic ones for fires and runs.

A fire's id is a UUIDv8: the milliseconds of ``scheduled_for`` in front (as in a UUIDv7, so that the day, and with it
the partition, can be told from the id alone), then a hash of (job, ``scheduled_for`` in microseconds, origin). The
same occurrence has the same id on every node, for ever; it is the Celery task id of every attempt.
"""

from __future__ import annotations

import secrets
import time
from datetime import datetime, timedelta
from hashlib import blake2b
from uuid import UUID

from scheduling.core.clock import EPOCH, micros

_VARIANT = 0b10 << 62


def uuid7() -> UUID:
    """A new time-ordered identifier (RFC 9562, version 7). The wall clock only orders it; nothing is decided by it."""
    millis = time.time_ns() // 1_000_000
    random = secrets.randbits(74)
    return UUID(
        int=(millis & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | (random >> 62) << 64 | _VARIANT | random & (1 << 62) - 1
    )


def fire_id(job_id: UUID, scheduled_for: datetime, origin: str = "") -> UUID:
    """The id of the fire of one occurrence; ``origin`` is empty for the schedule's own (RFC 9562, version 8)."""
    at_us = micros(scheduled_for)
    digest = int.from_bytes(blake2b(b"%b%d%b" % (job_id.bytes, at_us, origin.encode()), digest_size=10).digest())
    head = (at_us // 1000 & 0xFFFF_FFFF_FFFF) << 80 | 0x8 << 76 | (digest >> 62 & 0xFFF) << 64
    return UUID(int=head | _VARIANT | digest & (1 << 62) - 1)


def run_id(fire: UUID, fence: int) -> UUID:
    """The id of a fire's run under a fence: the fire's milliseconds in front, so that it tells the same partition."""
    digest = int.from_bytes(blake2b(b"%b%d" % (fire.bytes, fence), digest_size=10).digest())
    head = fire.int >> 80 << 80 | 0x8 << 76 | (digest >> 62 & 0xFFF) << 64
    return UUID(int=head | _VARIANT | digest & (1 << 62) - 1)


def millisecond_of(fire: UUID) -> datetime:
    """The millisecond of ``scheduled_for`` that a fire's id carries."""
    return EPOCH + timedelta(milliseconds=fire.int >> 80)


def idempotency_key(job_id: UUID, scheduled_for: datetime, origin: str = "") -> str:
    """The readable form of a fire's identity: what a task hands to a payment provider.

    >>> from datetime import UTC
    >>> idempotency_key(UUID(int=7), datetime(2026, 3, 8, 7, tzinfo=UTC))
    '00000000-0000-0000-0000-000000000007/2026-03-08T07:00:00.000000Z'
    """
    key = f"{job_id}/{scheduled_for:%Y-%m-%dT%H:%M:%S.%fZ}"
    return f"{key}/{origin}" if origin else key


def shard_of(job_id: UUID, shards: int) -> int:
    """The shard of a job: its random bits, so that jobs made together spread."""
    return (job_id.int & 0xFFFF_FFFF) % shards
