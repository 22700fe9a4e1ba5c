"""What every ``ScheduleStore`` does when the time of a pause has come: what comes back, what stays, and when."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from scheduling.core.due import DueJob
from scheduling.testing.clock import NOON
from tests.claims import SECOND
from tests.store.backends import Backend, plans
from tests.store.steps import claimed, due, owned, state, waiting


def job(world: Backend) -> DueJob:
    (found,) = due(world, until_s=86_400)
    return found


def taken(world: Backend, at_s: float, **columns: Any) -> UUID:
    """A fire that the pause has taken."""
    return world.put(1, at_s, state="skipped", reason="paused", **{"skipped_s": max(at_s, 0), **columns})


def come_back(world: Backend, now_s: float) -> list[float]:
    """Which occurrences are due after the owner has looked at that time: seconds after noon."""
    world.store.reap(owned(world), now=NOON + SECOND * now_s)
    return sorted((fire.scheduled_for - NOON).total_seconds() for fire in waiting(world, now_s=now_s))


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [("none", []), ("latest", [240]), ("all", [0, 60, 120, 180, 240])],
)
def test_a_pause_ends_by_itself_with_the_catch_up_that_was_chosen(
    world: Backend, catch_up: str, expected: list[float]
) -> None:
    world.add(1, 300)
    world.change(1, paused=True, until_s=300, catch_up=catch_up)
    for at_s in (0, 60, 120, 180, 240):
        taken(world, at_s)
    assert come_back(world, 299) == []
    assert job(world).job.paused_until is not None
    assert come_back(world, 300) == expected
    assert job(world).job.paused_until is None
    assert come_back(world, 301) == expected


def test_what_comes_back_is_due_now_under_a_higher_fence_and_says_why(world: Backend) -> None:
    world.add(1, 300)
    world.change(1, paused=True, until_s=300, catch_up="latest")
    fire = taken(world, 240, fence=2, number=(1, 7))
    come_back(world, 305)
    row = world.row(fire)
    assert row is not None
    assert (row.state, row.reason, row.fence, row.attempt) == ("retry_wait", "resumed", 3, 0)
    assert (row.wake_at, row.number) == (NOON + SECOND * 305, None)
    (held,) = waiting(world, now_s=305)
    assert (held.scheduled_for, held.fire_at) == (NOON + SECOND * 240, NOON + SECOND * 305)


def test_all_is_bounded_by_the_jobs_limit_and_window(world: Backend) -> None:
    world.add(1, 600, catch_up_limit=3, catch_up_window=timedelta(seconds=250))
    world.change(1, paused=True, until_s=600, catch_up="all")
    for at_s in range(0, 600, 60):
        taken(world, at_s)
    assert come_back(world, 600) == [420, 480, 540]


def test_all_reaches_back_from_the_end_as_far_as_its_window(world: Backend) -> None:
    world.add(1, 600, catch_up_window=timedelta(seconds=130))
    world.change(1, paused=True, until_s=600, catch_up="all")
    for at_s in range(0, 600, 60):
        taken(world, at_s)
    assert come_back(world, 600) == [480, 540]


@pytest.mark.parametrize("catch_up", ["latest", "all"])
def test_a_window_longer_than_a_timestamp_can_tell_is_no_obstacle(world: Backend, catch_up: str) -> None:
    world.add(1, 600, catch_up_window=timedelta(days=999_999))
    world.change(1, paused=True, until_s=600, catch_up=catch_up)
    taken(world, 0)
    assert come_back(world, 600) == [0]


def test_only_what_this_pause_took_comes_back(world: Backend) -> None:
    world.add(1, 300)
    world.change(1, paused=True, until_s=300, catch_up="all")
    taken(world, -120, skipped_s=-100)  # by an earlier pause
    taken(world, -60, skipped_s=0)  # claimed before this one, and stopped by it
    taken(world, 60, covers=7)  # stands for seven occurrences
    world.put(1, 120, state="skipped", reason="excluded", skipped_s=120)
    world.put(1, 180, state="skipped", reason="cancelled", skipped_s=180)
    world.put(1, 240, state="succeeded", attempt=1)
    assert come_back(world, 300) == [-60]


def test_what_was_taken_ahead_of_its_time_comes_back_for_its_time_whatever_the_choice(world: Backend) -> None:
    """A claim looks a second ahead; then the end of the pause was moved to before that."""
    world.add(1, 360)
    world.change(1, paused=True, until_s=200)
    fire = taken(world, 300, skipped_s=199)
    assert come_back(world, 250) == []
    row = world.row(fire)
    assert row is not None
    assert (row.state, row.wake_at) == ("retry_wait", NOON + SECOND * 300)
    assert come_back(world, 300) == [300]


def test_a_pause_ends_once_every_occurrence_in_it_has_its_row(world: Backend) -> None:
    """No node ran when its time came: what a claim has yet to see is paused, not late."""
    world.add(1, 120)
    world.change(1, paused=True, until_s=150, catch_up="latest")
    epochs = owned(world)
    world.store.reap(epochs, now=NOON + SECOND * 160)
    assert job(world).job.paused_until is not None
    (fire,) = claimed(world, epochs, until_s=160)
    assert state(world, fire) == "skipped paused"
    assert come_back(world, 160) == [120]
    assert job(world).job.paused_until is None


def test_a_finished_jobs_pause_ends_too(world: Backend) -> None:
    world.add(1, 300)
    world.change(1, paused=True, until_s=300, catch_up="latest")
    fire = taken(world, 60)
    world.store.reap(owned(world), now=NOON + SECOND * 310)
    assert state(world, fire) == "retry_wait resumed"


def test_the_owner_ends_the_pauses_of_its_own_shards_and_of_jobs_that_are_there(world: Backend) -> None:
    world.add(1, 300)
    world.change(1, paused=True, until_s=300, catch_up="all")
    fire = taken(world, 60)
    world.store.reap(owned(world, 2), now=NOON + SECOND * 310)
    assert state(world, fire) == "skipped paused"
    world.change(1, deleted=True)
    world.store.reap(owned(world), now=NOON + SECOND * 310)
    assert state(world, fire) == "skipped paused"


def test_max_runs_counts_what_comes_back_and_ends_the_schedule_with_the_last_of_them(world: Backend) -> None:
    world.add(1, 300, max_runs=2)
    world.change(1, paused=True, until_s=300, catch_up="all")
    for at_s in (60, 120, 180):
        taken(world, at_s)
    assert come_back(world, 300) == [60, 120]
    assert world.job(1) == (None, None, "")


def test_a_calendars_closed_times_within_a_pause_are_not_brought_back(world: Backend) -> None:
    world.add(1)
    world.change(1, paused=True)
    epochs = owned(world)
    (plan,) = plans(due(world), epoch=epochs[1])
    row = plan.rows[0]
    plan.rows[0] = type(row)(row.fire, row.state.SKIPPED, "excluded")
    world.store.claim(epochs, [plan])
    assert state(world, row.fire) == "skipped excluded"
