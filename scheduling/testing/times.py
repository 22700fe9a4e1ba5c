"""The time of a test: the manual clock, and the database that keeps step with it."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from scheduling.models import JobClock
from scheduling.store.connection import Connect
from scheduling.store.statements import read_statements
from scheduling.testing.clock import ManualClock

_SQL = read_statements(Path(__file__).with_suffix(".sql"))


class Due(NamedTuple):
    """``by_now``: something is due. ``next_moment``: when something comes due that is not; None: nothing ever does."""

    by_now: bool
    next_moment: datetime | None


class Times:
    """Job time stands until it is moved."""

    def __init__(self, connect: Connect, *, using: str, start: datetime | None) -> None:
        self._connect = connect
        self._clocks = JobClock.objects.using(using)
        self._before: JobClock | None = None
        self.clock = ManualClock(JobClock.objects.db_manager(using).now() if start is None else start)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def begin(self) -> None:
        """From now on job time is ours."""
        self._before = self._clocks.first()
        self._run("stand", now=self.now)

    def end(self) -> None:
        """Job time is what it was before."""
        self._run("forget")
        if self._before is not None:
            self._before.save(force_insert=True)

    def move_to(self, moment: datetime) -> None:
        """Time passes up to this moment, job time and real time alike."""
        by = moment - self.now
        self.clock.move_to(moment)
        self._move(by)

    def jump_to(self, moment: datetime) -> None:
        """As ``move_to``; or job time goes back, and real time stands."""
        if moment >= self.now:
            self.move_to(moment)
        else:
            self.clock.set_job_time(moment)
            self._move(timedelta(0))

    def look(self) -> Due:
        """What is due, and will be."""
        return Due(*self._run("due", now=self.now).fetchone())

    def _move(self, by: timedelta) -> None:
        self._run("move", now=self.now, by=by)

    def _run(self, name: str, **values: Any) -> Any:
        return self._connect().execute(_SQL[name], values)
