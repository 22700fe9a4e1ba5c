"""A clock that stands until it is moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import inf

from scheduling.core.clock import EPOCH, TimeLapse
from scheduling.core.errors import InvalidField

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


class ManualClock:
    """``Clock`` at real second 0, when job time is ``now``; ``speed`` job seconds pass in a real one.

    With ``stops_after_s`` job time stands still from that real second on. Raises InvalidField for a speed that is not
    above 0.
    """

    def __init__(self, now: datetime = NOON, *, speed: float = 1.0, stops_after_s: float | None = None) -> None:
        if not speed > 0:
            raise InvalidField("speed", speed, "is not above 0")
        self._monotonic = 0.0
        self._stops_at = stops_after_s
        self._lapse = TimeLapse(now, EPOCH, speed, stops_after_s)

    @property
    def speed(self) -> float:
        return self._lapse.speed

    def now(self) -> datetime:
        return self.job_time(self._monotonic)

    def monotonic(self) -> float:
        return self._monotonic

    def job_time(self, monotonic: float) -> datetime:
        return self._lapse.job_time(EPOCH + timedelta(seconds=monotonic))

    def real_time(self, job_time: datetime) -> float:
        real = self._lapse.real_time(job_time)
        return inf if real is None else (real - EPOCH).total_seconds()

    def advance(self, seconds: float) -> None:
        """Real seconds pass. Raises InvalidField for negative ones."""
        if seconds < 0:
            raise InvalidField("seconds", seconds, "monotonic time never goes back")
        self._monotonic += seconds

    def advance_to(self, monotonic: float) -> None:
        """Real time gets to this instant, or stays if that has passed."""
        self._monotonic = max(self._monotonic, monotonic)

    def stand(self, seconds: float) -> None:
        """Real seconds pass, and job time does not notice. Raises InvalidField for negative ones."""
        now = self.now()
        self.advance(seconds)
        self.set_job_time(now)

    def move_to(self, now: datetime) -> None:
        """Job time passes up to ``now``, and real time with it. Raises InvalidField if that has passed."""
        self.advance((now - self.now()).total_seconds() / self.speed)
        self.set_job_time(now)

    def set_job_time(self, now: datetime) -> None:
        """Job time jumps, forward or back, and runs on from there; real time does not notice."""
        real = EPOCH + timedelta(seconds=self._monotonic)
        runs_s = None if self._stops_at is None else max(0.0, self._stops_at - self._monotonic)
        self._lapse = TimeLapse(now, real, self._lapse.speed, runs_s)
