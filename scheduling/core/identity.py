"""Identifiers: sortable ones for jobs, deterministic ones for fires and runs.

A fire's id is a UUIDv8: the milliseconds of ``scheduled_for`` in front (as in a UUIDv7, so that the day, and with it
the partition, can be told from the id alone), then a hash of (job, ``scheduled_for`` in microseconds, origin). The
same occurrence has the same id on every node, for ever; it is the Celery task id of every attempt.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from hashlib import blake2b
from struct import Struct
from uuid import UUID

from scheduling.core.clock import EPOCH, micros

SIZE = 16  # of an identifier, in bytes

_VARIANT = 0b10 << 62
_VERSION_7 = (0x7 << 76 | _VARIANT).to_bytes(10)  # behind the milliseconds
_RANDOM_OF_7 = (0xFFF << 64 | (1 << 62) - 1).to_bytes(SIZE)
_RANDOM_END = Struct(">12xI")


def uuid7() -> UUID:
    """A new time-ordered identifier (RFC 9562, version 7). The wall clock only orders it; nothing is decided by it."""
    return UUID(bytes=uuid7s(1)[0])


def uuid7s(count: int) -> list[bytes]:
    """Many at once, in ascending order, so that the index they are the key of grows at its end.

    The bits of all of them are set as those of one long number: a tenth of the time that one by one would take.
    """
    length = count * SIZE
    stamp = (time.time_ns() // 1_000_000).to_bytes(6) + _VERSION_7
    random = int.from_bytes(secrets.token_bytes(length)) & int.from_bytes(_RANDOM_OF_7 * count)
    ids = (random | int.from_bytes(stamp * count)).to_bytes(length)
    return sorted(ids[start : start + SIZE] for start in range(0, length, SIZE))


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
    return shards_of([job_id.bytes], shards)[0]


def shards_of(job_ids: Iterable[bytes], shards: int) -> list[int]:
    """The shard of each of these jobs."""
    return [end % shards for (end,) in _RANDOM_END.iter_unpack(b"".join(job_ids))]
