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
    origin: float | None  # monotonic seconds at which the lapse begins; None: it has not started

    @classmethod
    def at(cls, real: datetime, monotonic: float, lapse: TimeLapse) -> _Sample:
        begins = lapse.real_origin
        return cls(real, monotonic, lapse, None if begins is None else monotonic + (begins - real).total_seconds())


class DatabaseClock:
    """``Clock``, once it was calibrated. Any thread may read it while one calibrates."""

    def __init__(self) -> None:
        self._sample = _Sample.at(EPOCH, 0.0, TimeLapse(EPOCH, EPOCH))

    def calibrate(self, connection: Connection) -> None:
        before = time.monotonic()
        row = connection.execute(SAMPLE).fetchone()
        after = time.monotonic()
        assert row is not None
        real, job_origin, real_origin, speed, stops_after_s = row
        lapse = (
            TimeLapse(EPOCH, EPOCH) if job_origin is None else TimeLapse(job_origin, real_origin, speed, stops_after_s)
        )
        self._sample = _Sample.at(real, (before + after) / 2, lapse)

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
        """As ``TimeLapse.real_time``; asked several times for each fire, so without a datetime in between."""
        lapse, origin = self._sample.lapse, self._sample.origin
        elapsed_s = (job_time - lapse.job_origin).total_seconds() / lapse.speed
        if origin is None or (lapse.stops_after_s is not None and elapsed_s > lapse.stops_after_s):
            return inf
        return origin + elapsed_s
