"""A histogram of latencies with logarithmic buckets: small, mergeable, and right to 2 % at any size.

Bucket i > 0 holds what is above ``FLOOR_S * GROWTH**(i-1)``, up to ``FLOOR_S * GROWTH**i``. It answers with the value
between its bounds that is wrong by the same fraction of either, at most (GROWTH - 1) / (GROWTH + 1) = 1.96 %. From a
microsecond to an hour that is 562 buckets, of which only the used ones are kept. (The method of DDSketch: Masson, Rim
and Lee, 2019.)

Percentiles of several nodes cannot be averaged; their buckets can be added. Bucket 0 holds everything up to a
microsecond, what was early included, and answers 0. The maximum is kept exactly, and no quantile is above it. It knows
no time and no window: whoever wants the last minute starts a new one each minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from math import ceil, isfinite, log
from typing import Any

from scheduling.core.errors import InvalidField

FLOOR_S = 1e-6
GROWTH = 1.04

_PER_BUCKET = 1 / log(GROWTH)
_MIDDLE = FLOOR_S * 2 / (1 + GROWTH)  # of bucket 0, were it like the others


class LatencyHistogram:
    """Latencies in seconds. Not safe for several threads: give each its own, and merge."""

    __slots__ = ("_buckets", "_count", "_max")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self._count = 0
        self._max: float | None = None

    @property
    def count(self) -> int:
        return self._count

    @property
    def max(self) -> float | None:
        """The largest, exactly; None before the first."""
        return self._max

    def record(self, seconds: float) -> None:
        """Count one latency; a negative one is early. Raises InvalidField for infinity and NaN."""
        if not isfinite(seconds):
            raise InvalidField("seconds", seconds, "is not a finite number")
        bucket = ceil(log(seconds / FLOOR_S) * _PER_BUCKET) if seconds > FLOOR_S else 0
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self._count += 1
        if self._max is None or seconds > self._max:
            self._max = seconds

    def merge(self, other: LatencyHistogram) -> None:
        """Add what another has counted."""
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self._count += other._count
        if other._max is not None:
            self._max = other._max if self._max is None else max(self._max, other._max)

    def quantile(self, q: float) -> float | None:
        """The latency, in seconds, that the fraction ``q`` of all does not exceed: nearest rank, within 2 %.

        None if nothing was recorded. Raises InvalidField if ``q`` is not in 0 to 1.
        """
        if not 0 <= q <= 1:
            raise InvalidField("q", q, "is not a fraction from 0 to 1")
        if self._max is None:
            return None
        rank = ceil(round(q * self._count, 6))  # 0.07 * 100 is 7.000000000000001, and means the 7th
        if rank == self._count:
            return self._max
        for bucket in sorted(self._buckets):
            rank -= self._buckets[bucket]
            if rank <= 0:
                break
        return min(_MIDDLE * GROWTH**bucket, self._max) if bucket else min(0.0, self._max)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: the buckets as one flat list of number, count, number, count, …"""
        return {"growth": GROWTH, "max": self._max, "buckets": list(chain.from_iterable(sorted(self._buckets.items())))}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LatencyHistogram:
        """What ``to_dict`` gave, on whichever node. Raises InvalidField if its buckets are not ours."""
        if values.get("growth") != GROWTH:
            raise InvalidField(
                "growth", values.get("growth"), f"buckets of another size cannot be read; ours is {GROWTH}"
            )
        flat = values["buckets"]
        histogram = cls()
        histogram._buckets = dict(zip(flat[::2], flat[1::2], strict=True))
        histogram._count = sum(histogram._buckets.values())
        histogram._max = values["max"]
        return histogram
