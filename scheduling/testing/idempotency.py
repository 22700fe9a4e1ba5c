"""Runs one fire again and again from the same state, each time with another mishap; compares what they left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import transaction
from django.db.models import F

from scheduling.core.errors import InvalidField
from scheduling.core.fire import UNFINISHED, State
from scheduling.failpoints import Point
from scheduling.models import Fire, Job, JobClock
from scheduling.store.partitions import day_of, ensure
from scheduling.testing.deaths import OF_LEDGER, counting
from scheduling.testing.joined import joins
from scheduling.testing.rows import Found, Rows, difference, found

if TYPE_CHECKING:
    from scheduling.testing.harness import Harness

REQUEST = "assert_idempotent"  # the same fire, with the same idempotency key, in each run
MOST_MOMENTS = 1000
MOST_HITS = 20  # deaths at one point: a task of a hundred steps is not run hundreds of times


Play = Callable[["Harness", UUID], None]  # of a fire, to its end


class Comparison:
    """Of the runs of one job. ``fresh`` makes a harness that starts at the moment of the test's own."""

    def __init__(
        self,
        fresh: Callable[[], Harness],
        job: Job,
        *,
        using: str,
        rows: Rows,
        ignore: frozenset[str],
        before: Callable[[], object] | None,
    ) -> None:
        self._fresh, self._job, self._using = fresh, job, using
        self._rows, self._ignore, self._before = rows, ignore, before

    def run(self) -> None:
        """Raises AssertionError where two runs differ, or one does not succeed."""
        with counting(OF_LEDGER) as reached:
            first = self._left_by("run by itself", _to_its_end)
        self._compare("delivered twice", first, _delivered_twice)
        for point, times in reached.items():
            for hit in range(1, min(times, MOST_HITS) + 1):
                self._compare(_place(point, hit, times), first, _killed_at(point, hit))

    def _compare(self, what: str, first: Found, play: Play) -> None:
        left = self._left_by(what, play)
        if left != first:
            raise AssertionError(f"{self._job.task}, {what}, left other rows behind:\n{difference(first, left)}")

    def _left_by(self, what: str, play: Play) -> Found:
        if self._before is not None:
            self._before()
        with rolled_back(self._using), self._fresh() as harness:
            fire_id = harness.start(self._job, request=REQUEST)
            play(harness, fire_id)
            fire = harness.fire(fire_id)
            if fire.state != State.SUCCEEDED:
                errors = "; ".join(dict.fromkeys(run.error for run in harness.runs if run.error))
                raise AssertionError(f"{self._job.task}, {what}, ended as {fire.state} {fire.reason}: {errors}")
            return found(self._rows, ignore=self._ignore)


def compare_runs(
    fresh: Callable[[], Harness],
    job: Callable[[], Job],
    *,
    using: str,
    rows: Rows,
    ignore: frozenset[str],
    before: Callable[[], object] | None,
) -> None:
    """``job`` gives the job to run, and may make it: that is undone at the end.

    Raises InvalidField for a job whose killed run is not tried again.
    """
    with rolled_back(using):
        mine = job()
        if mine.max_attempts < 2:
            raise InvalidField(
                "max_attempts", mine.max_attempts, "a run whose worker dies would be its last: give it 2"
            )
        _quieten(using)
        _make_day(mine, using)
        Comparison(fresh, mine, using=using, rows=rows, ignore=ignore, before=before).run()


def _quieten(using: str) -> None:
    """Nothing else runs while the clock waits for a lease to end."""
    Job.objects.using(using).filter(next_fire_at__isnull=False).update(next_scheduled_for=None, next_fire_at=None)
    waiting = Fire.objects.using(using).filter(state__in=[State.PARKED, State.RETRY_WAIT])
    waiting.update(wake_at=F("wake_at") + timedelta(days=36525))


def _make_day(job: Job, using: str) -> None:
    """The partition of the fire, once for all runs; each would else make it anew, and that takes most of its time."""
    day = day_of(job.tenant.history_days, JobClock.objects.db_manager(using).now())
    ensure(joins(using)(), [day])


@contextmanager
def rolled_back(using: str) -> Iterator[None]:
    with transaction.atomic(using=using):
        yield
        transaction.set_rollback(True, using=using)


def _to_its_end(harness: Harness, fire_id: UUID) -> None:
    """Whatever it takes; the clock moves on for that."""
    harness.drain()
    for _ in range(MOST_MOMENTS):
        moment = harness.next_moment()
        if moment is None or harness.fire(fire_id).state not in UNFINISHED:
            return
        harness.run_until(moment)


def _delivered_twice(harness: Harness, fire_id: UUID) -> None:
    harness.deliver_twice(fire_id)
    _to_its_end(harness, fire_id)


def _killed_at(point: Point, hit: int) -> Play:
    def play(harness: Harness, fire_id: UUID) -> None:
        with harness.crash_at(point, hit=hit):
            _to_its_end(harness, fire_id)

    return play


def _place(point: Point, hit: int, times: int) -> str:
    return f"killed at {point}" if times == 1 else f"killed at {point}, the {hit}. of {times} times"
