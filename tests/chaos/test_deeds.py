"""What is owed of jobs that were edited and deleted while they fired."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from scheduling.core.recurrence import Bounded, Interval
from tests.chaos.deeds import AHEAD, Deletion, Edit, Made, owed

T0 = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def at(*seconds: float) -> list[datetime]:
    return [T0 + second * SECOND for second in seconds]


def every(seconds: float, *, anchor_s: float = 0.0) -> Bounded:
    return Bounded(Interval(seconds * SECOND, T0 + anchor_s * SECOND), T0, T0 + 60 * SECOND)


def made(schedule: Bounded, *, at_s: float = -1.0) -> Made:
    return Made(schedule, T0 + at_s * SECOND)


def test_a_job_owes_nothing_before_it_was_made() -> None:
    assert owed(made(every(1), at_s=0.5), until=T0 + 2 * SECOND).due == at(1, 2)


def test_a_job_that_nobody_touches_owes_its_occurrences() -> None:
    assert owed(made(every(1)), until=T0 + 2 * SECOND).due == at(0, 1, 2)


def test_an_edit_is_the_end_of_one_schedule_and_the_beginning_of_the_next() -> None:
    edits = [Edit(every(1, anchor_s=0.5), *at(2, 2.01))]
    assert owed(made(every(1)), edits, until=T0 + 4 * SECOND).due == at(0, 1, 2, 2.5, 3.5)


def test_what_the_old_schedule_had_ahead_of_the_edit_is_spare_unless_the_new_one_has_it() -> None:
    edits = [Edit(every(2), *at(2.5, 2.6))]
    found = owed(made(every(1)), edits, until=T0 + 8 * SECOND)
    assert found.due == at(0, 1, 2, 4, 6, 8)
    assert found.spare == dict.fromkeys(at(3, 5), T0 + 2.6 * SECOND)
    assert max(found.spare) <= T0 + 2.5 * SECOND + AHEAD


def test_of_many_edits_the_last_one_before_an_occurrence_takes_it_away() -> None:
    edits = [Edit(every(60), *at(0.5, 0.6)), Edit(every(60), *at(0.7, 0.9)), Edit(every(60), *at(1.5, 1.6))]
    assert owed(made(every(1)), edits, until=T0 + 2 * SECOND).spare[T0 + SECOND] == T0 + 0.9 * SECOND


def test_a_schedule_that_cannot_be_planned_owes_nothing_until_it_is_mended() -> None:
    edits = [Edit(None, *at(1.5, 1.6)), Edit(every(1), *at(3.5, 3.6))]
    found = owed(made(every(1)), edits, until=T0 + 5 * SECOND)
    assert found.due == at(0, 1, 4, 5)
    assert list(found.spare) == at(2, 3)


def test_a_deleted_job_owes_what_had_been_claimed() -> None:
    found = owed(made(every(1)), until=T0 + 3 * SECOND, deletion=Deletion(*at(1.999, 1.5)))
    assert found.due == at(0, 1)
    assert found.spare == dict.fromkeys(at(2, 3), T0 + 1.5 * SECOND)
