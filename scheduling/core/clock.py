"""Two times, and what joins them.

*Real* time drives everything that protects us: leases, windows, polls, timeouts, latency. It is read as monotonic
seconds. *Job* time is what schedules are written in: occurrences, jitter, backoff, expiry. It is an aware UTC
datetime.

A time-lapse maps one to the other, so that a day of schedule can be played in a minute::

    real   ──0────────10────────20────────30──▶  seconds since real_origin
    job    ──00:00────04:00─────08:00─────08:00  speed 1440, stops_at 20 s

Without a time-lapse both run alike. All processes of a fleet read the same one from the database.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """Where every component takes its time from."""

    def now(self) -> datetime:
        """Job time, aware UTC."""

    def monotonic(self) -> float:
        """Real seconds that never go back; only differences mean anything."""

    def job_time(self, monotonic: float) -> datetime:
        """The job time at a real instant, past or future."""

    def real_time(self, job_time: datetime) -> float:
        """The real instant (monotonic seconds) at which job time gets there; ``inf`` if it never does."""

    @property
    def speed(self) -> float:
        """Job seconds that pass in one real second while the clock runs."""


@dataclass(frozen=True, slots=True)
class TimeLapse:
    """A line from real (database) time to job time, which may stand still before its start and after its end."""

    job_origin: datetime
    real_origin: datetime | None  # None: not started, job time stands at job_origin
    speed: float = 1.0
    stops_after_s: float | None = None  # real seconds from real_origin, after which job time stands still

    def job_time(self, real: datetime) -> datetime:
        if self.real_origin is None:
            return self.job_origin
        elapsed_s = max(0.0, (real - self.real_origin).total_seconds())
        if self.stops_after_s is not None:
            elapsed_s = min(elapsed_s, self.stops_after_s)
        return self.job_origin + timedelta(seconds=elapsed_s * self.speed)

    def real_time(self, job_time: datetime) -> datetime | None:
        """The real instant at which job time gets to ``job_time``; None if it never does."""
        if self.real_origin is None:
            return None
        elapsed_s = (job_time - self.job_origin).total_seconds() / self.speed
        if self.stops_after_s is not None and elapsed_s > self.stops_after_s:
            return None
        return self.real_origin + timedelta(seconds=elapsed_s)


def micros(moment: datetime) -> int:
    """Whole microseconds since the Unix epoch, exactly (``timestamp()`` is a float and is not exact)."""
    return (moment - EPOCH) // MICROSECOND
