"""Gives a Python process a wall clock that is wrong by what a file says, from now on and at every later moment.

Python imports this module at its start where this folder is on its path. The file (``FAIRBEAT_CHAOS_CLOCK``) holds one
float64, seconds. ``time.time``, ``time.time_ns``, ``datetime.now`` and ``datetime.utcnow`` follow it; monotonic time
does not, as on a machine whose wall clock jumps. What is written in C and asks the system itself is not deceived.
"""

from __future__ import annotations

import datetime
import mmap
import os
import struct
import time
from typing import Any, Self

TrueDatetime = datetime.datetime
true_time = time.time


class _AnyDatetime(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, TrueDatetime)


class WrongDatetime(TrueDatetime, metaclass=_AnyDatetime):
    """Every datetime passes for one of these, those made by C included."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Self:
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls) -> Self:
        return cls.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)


def follow(path: str) -> None:
    """From now on this process's wall clock is wrong by what this file says."""
    with open(path, "rb") as file:
        offset = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)

    def wrong_time() -> float:
        (wrong_by_s,) = struct.unpack("d", offset)
        return true_time() + float(wrong_by_s)

    time.time = wrong_time
    time.time_ns = lambda: int(wrong_time() * 1e9)
    datetime.datetime = WrongDatetime  # type: ignore[misc]


if "FAIRBEAT_CHAOS_CLOCK" in os.environ:
    follow(os.environ["FAIRBEAT_CHAOS_CLOCK"])
