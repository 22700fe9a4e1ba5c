"""The checks that follow a run: what each would find, were it there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from scheduling.core.fire import State
from scheduling.store.memory_rows import StoredFire, StoredLetter
from scheduling.testing.simulation.checks import check
from scheduling.testing.simulation.run import Run
from scheduling.testing.simulation.workers import commits

SEED = 1


def first(run: Run, wanted: Callable[[StoredFire], bool]) -> StoredFire:
    return next(fire for fire in run.rows.fires.values() if wanted(fire))


def lose_a_row(run: Run) -> None:
    del run.rows.fires[first(run, lambda fire: not fire.origin and fire.covers == 1).id]


def run_between_occurrences(run: Run) -> None:
    def is_of_the_last_schedule(fire: StoredFire) -> bool:
        edited_at = run.chronicles[fire.work.job_id].schedules[-1][0]
        return not fire.origin and fire.state is State.SUCCEEDED and fire.scheduled_for > edited_at

    first(run, is_of_the_last_schedule).scheduled_for += timedelta(milliseconds=1)


def miscount(run: Run) -> None:
    fire = first(run, lambda fire: not fire.origin)
    fire.covers, fire.covers_to = 7, fire.scheduled_for


def double_an_effect(run: Run) -> None:
    run.audit.effects[first(run, lambda fire: commits(fire.id) and fire.state is State.SUCCEEDED).id] += 1


def forget_an_effect(run: Run) -> None:
    del run.audit.effects[first(run, lambda fire: commits(fire.id) and fire.state is State.SUCCEEDED).id]


def leave_one_claimed(run: Run) -> None:
    first(run, lambda fire: not commits(fire.id)).state = State.CLAIMED


def skip_without_a_reason(run: Run) -> None:
    fire = first(run, lambda fire: not commits(fire.id))
    fire.state, fire.reason = State.SKIPPED, ""


def die_without_a_letter(run: Run) -> None:
    fire = first(run, lambda fire: fire.state is State.SUCCEEDED and not commits(fire.id))
    fire.state, fire.reason = State.DEAD, "gave_up"


def keep_a_letter(run: Run) -> None:
    fire = first(run, lambda fire: fire.state is State.SUCCEEDED)
    run.rows.letters[fire.id] = StoredLetter("gave_up", fire.fence, fire.attempt)


def try_once_more_than_it_may_be(run: Run) -> None:
    fire = first(run, lambda fire: fire.attempt > 0)
    fire.attempt = fire.max_attempts + 1


@pytest.mark.parametrize(
    ("tamper", "invariants"),
    [
        (lose_a_row, {"I1", "I5"}),
        (run_between_occurrences, {"I1", "I5"}),
        (miscount, {"I1", "I5"}),
        (double_an_effect, {"I2"}),
        (forget_an_effect, {"I2"}),
        (leave_one_claimed, {"I6"}),
        (skip_without_a_reason, {"I7"}),
        (die_without_a_letter, {"I7"}),
        (keep_a_letter, {"I7"}),
        (try_once_more_than_it_may_be, {"I7"}),
    ],
)
def test_each_check_finds_its_violation(tamper: Callable[[Run], None], invariants: set[str]) -> None:
    run = Run(SEED)
    assert not run.play().violations
    tamper(run)
    assert {invariant for invariant, _ in check(run.rows, run.chronicles, run.audit)} == invariants
