"""A clock that reads database time once in a while, and monotonic time in between.

The machine's wall clock is never asked: one that is off by an hour changes nothing. Between two samples the error is
the drift of the monotonic clock, and half the round trip of the sample.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from math import inf
from typing import NamedTuple

from scheduling.core.clock import EPOCH, TimeLapse
from scheduling.store.connection import Connection

SAMPLE = """
SELECT clock_timestamp(), c.job_origin, c.real_origin, c.speed, c.stops_after_s
FROM (VALUES (1)) AS one(id) LEFT JOIN scheduling_jobclock c USING (id)
"""


class _Sample(NamedTuple):
    real: datetime
    monotonic: float
    lapse: TimeLapse


class DatabaseClock:
    """``Clock``, once it was calibrated. Any thread may read it while one calibrates."""

    def __init__(self) -> None:
        self._sample = _Sample(EPOCH, 0.0, TimeLapse(EPOCH, EPOCH))

    def calibrate(self, connection: Connection) -> None:
        before = time.monotonic()
        row = connection.execute(SAMPLE).fetchone()
        after = time.monotonic()
        assert row is not None
        real, job_origin, real_origin, speed, stops_after_s = row
        lapse = (
            TimeLapse(EPOCH, EPOCH) if job_origin is None else TimeLapse(job_origin, real_origin, speed, stops_after_s)
        )
        self._sample = _Sample(real, (before + after) / 2, lapse)

    @property
    def speed(self) -> float:
        return self._sample.lapse.speed

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return self.job_time(time.monotonic())

    def job_time(self, monotonic: float) -> datetime:
        sample = self._sample
        return sample.lapse.job_time(sample.real + timedelta(seconds=monotonic - sample.monotonic))

    def real_time(self, job_time: datetime) -> float:
        sample = self._sample
        real = sample.lapse.real_time(job_time)
        return inf if real is None else sample.monotonic + (real - sample.real).total_seconds()
