"""What every ``ScheduleStore`` does, in memory and in Postgres: due, claim, ownership, watermarks."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduling.core.effects import Settlement
from scheduling.core.errors import StaleEpoch
from scheduling.core.fire import State
from scheduling.testing.clock import NOON
from tests.claims import SECOND, job_id
from tests.store.backends import SHARDS, Backend, plans
from tests.store.steps import claimed, due, owned, state, waiting

# -- due -------------------------------------------------------------------------------------------------------------


def test_due_is_what_is_due_by_then_in_the_shards_that_were_asked_for(world: Backend) -> None:
    world.add(1, -5)
    world.add(2, 3)
    world.add(3, 3.001)
    world.add(4, 0, shard=2)
    assert {job.work.job_id for job in due(world, until_s=3)} == {job_id(1), job_id(2)}
    assert {job.work.job_id for job in due(world, until_s=3, shards=(1, 2))} == {job_id(1), job_id(2), job_id(4)}
    assert due(world, shards=(3,)) == []


def test_a_due_job_is_read_with_all_that_a_claim_needs(world: Backend) -> None:
    world.add(1, overlap="buffer_one", misfire="all", catch_up_window=timedelta(minutes=7), hard_timeout_s=9.0)
    (job,) = due(world)
    assert (job.next_scheduled_for, job.job.version) == (NOON, 1)
    assert (job.work.shard, job.work.overlap, job.work.misfire) == (1, "buffer_one", "all")
    assert (job.work.catch_up_window, job.work.hard_timeout_s) == (timedelta(minutes=7), 9.0)
    assert (job.work.args, job.work.kwargs) == ("[]", "{}")
    assert job.job.build().next_after(NOON) == NOON + timedelta(minutes=1)


def test_beside_a_flood_of_one_tenant_the_others_are_seen_and_the_rest_is_the_floods(world: Backend) -> None:
    for number in range(40):
        world.add(number, -100 + number, tenant=1)
    world.add(100, -1, tenant=2)
    world.add(101, -2, tenant=3)
    for _ in range(3):
        found = due(world, limit=10)
        assert len(found) == 10
        assert {job_id(100), job_id(101)} <= {job.work.job_id for job in found}
        flood = [job.work.job_id.int for job in found if job.work.job_id.int < 100]
        assert sorted(flood) == list(range(8)), "the flood's own go in order"


def test_a_flood_in_one_shard_takes_what_the_trickles_of_many_leave(world: Backend) -> None:
    for number in range(60):
        world.add(number, -100 + number, tenant=1)
    for number in range(12):
        world.add(100 + number, -1, tenant=2 + number, shard=number % SHARDS)
    for _ in range(3):
        found = due(world, limit=50, shards=tuple(range(SHARDS)))
        assert len(found) == 50
        assert sum(job.work.job_id.int >= 100 for job in found) == 12


# -- claim -----------------------------------------------------------------------------------------------------------


def test_a_claim_moves_the_job_on_and_inserts_its_occurrences(world: Backend) -> None:
    world.add(1)
    epochs = owned(world)
    first, second = claimed(world, epochs, until_s=60)
    assert (first.fence, second.fence) == (1, 1)
    assert world.job(1) == (NOON + SECOND * 120, NOON + SECOND * 120, "")
    row = world.row(second.id)
    assert row is not None
    assert (row.state, row.reason, row.fence, row.attempt, row.number) == ("claimed", "", 1, 0, (epochs[1], 2))
    assert due(world, until_s=119) == []


def test_what_is_planned_as_skipped_is_a_row_with_its_reason_and_not_claimed(world: Backend) -> None:
    world.add(1, -3600, misfire="skip", catch_up_limit=10)
    epochs = owned(world)
    planned = plans(due(world), epoch=epochs[1])
    fences = world.store.claim(epochs, planned)
    rest, *skipped, last = [row.fire for row in planned[0].rows]
    assert (state(world, rest), state(world, skipped[0])) == ("skipped missed", "skipped missed")
    row = world.row(rest.id)
    assert row is not None
    assert row.covers == 61 - len(skipped) - 1
    assert fences == {last.id: 1}


@pytest.mark.parametrize("change", [{"edited": True}, {"deleted": True}])
def test_a_job_that_was_edited_or_deleted_since_it_was_read_is_left_alone(world: Backend, change: dict) -> None:
    world.add(1)
    world.add(2)
    epochs = owned(world)
    planned = plans(due(world), epoch=epochs[1])
    world.change(1, **change)
    before = world.job(1)
    fences = world.store.claim(epochs, planned)
    assert [plan.due.work.job_id for plan in planned if plan.rows[0].fire.id in fences] == [job_id(2)]
    assert world.job(1) == before
    lost = next(plan.rows[0].fire for plan in planned if plan.due.work.job_id == job_id(1))
    assert world.row(lost.id) is None


def test_the_same_claim_once_more_claims_nothing(world: Backend) -> None:
    world.add(1)
    epochs = owned(world)
    planned = plans(due(world), epoch=epochs[1])
    assert len(world.store.claim(epochs, planned)) == 1
    assert world.store.claim(epochs, planned) == {}


def test_occurrences_of_a_paused_job_are_recorded_as_skipped_and_its_schedule_goes_on(world: Backend) -> None:
    world.add(1)
    world.change(1, paused=True)
    (fire,) = claimed(world, owned(world))
    assert fire.fence == 0
    assert state(world, fire) == "skipped paused"
    assert world.job(1)[0] == NOON + SECOND * 60


def test_a_job_with_a_problem_is_put_aside_with_its_reason(world: Backend) -> None:
    world.add(1)
    epochs = owned(world)
    (plan,) = plans(due(world), epoch=epochs[1])
    plan.rows.clear()
    aside = type(plan)(plan.due, None, None, problem="cron '61 * * * *': minute 61 is not in 0-59")
    assert world.store.claim(epochs, [aside]) == {}
    assert world.job(1) == (None, None, aside.problem)


def test_what_a_job_with_a_problem_still_had_to_come_is_recorded_as_it_is_put_aside(world: Backend) -> None:
    world.add(1)
    epochs = owned(world)
    (plan,) = plans(due(world), epoch=epochs[1])
    (row,) = plan.rows
    row.state, row.reason = State.SKIPPED, "superseded"
    aside = type(plan)(plan.due, None, None, [row], problem="cron '61 * * * *': minute 61 is not in 0-59")
    assert world.store.claim(epochs, [aside]) == {}
    assert state(world, row.fire) == "skipped superseded"
    assert world.job(1) == (None, None, aside.problem)


@pytest.mark.parametrize(
    ("state_", "reason"),
    [
        ("claimed", ""),
        ("parked", "overlap"),
        ("retry_wait", ""),  # brought back by the end of a pause, for its time: its worker would take it for superseded
        ("skipped", "superseded"),
        ("skipped", "paused"),
        ("skipped", "excluded"),
    ],
)
def test_what_an_older_schedule_left_unstarted_is_claimed_by_a_newer_one(world, state_: str, reason: str) -> None:
    world.add(1)
    old = world.put(1, state=state_, reason=reason, fence=3, wake_s=9, confirmed=True, number=(0, 7))
    world.change(1, edited=True)
    epochs = owned(world)
    (fire,) = claimed(world, epochs)
    row = world.row(old)
    assert row is not None
    fence = 5 if state_ == "claimed" else 4  # the take-over lifted it once
    assert (fire.id, fire.fence) == (old, fence)
    assert (row.state, row.reason, row.fence, row.version) == ("claimed", "", fence, 2)
    assert (row.number, row.wake_at) == ((epochs[1], 1), None)


@pytest.mark.parametrize(
    ("state_", "reason", "attempt"),
    [
        ("skipped", "cancelled", 0),
        ("skipped", "missed", 0),
        ("skipped", "overlap", 0),
        ("running", "", 1),
        ("succeeded", "", 1),
        ("retry_wait", "", 1),
        ("parked", "overlap", 1),
        ("dead", "attempts_exhausted", 3),
    ],
)
def test_what_a_person_cancelled_or_what_has_started_stays_so(world, state_: str, reason: str, attempt: int) -> None:
    world.add(1)
    old = world.put(1, state=state_, reason=reason, fence=3, attempt=attempt, wake_s=9)
    world.change(1, edited=True)
    before = world.row(old)
    (fire,) = claimed(world, owned(world))
    assert (fire.id, fire.fence) == (old, 0)
    assert world.row(old) == before


def test_a_row_of_the_same_schedule_stays_as_it_is(world: Backend) -> None:
    world.add(1)
    old = world.put(1, state="parked", reason="overlap", wake_s=9)
    before = world.row(old)
    (fire,) = claimed(world, owned(world))
    assert fire.fence == 0
    assert world.row(old) == before


def test_manual_and_scheduled_fires_of_one_instant_are_two(world: Backend) -> None:
    world.add(1)
    manual = world.put(1, state="retry_wait", origin="manual:7", wake_s=0)
    (fire,) = claimed(world, owned(world))
    assert fire.fence == 1
    assert fire.id != manual
    assert state(world, manual) == "retry_wait"


# -- ownership -------------------------------------------------------------------------------------------------------


def test_a_take_over_raises_the_epoch_and_names_the_owner(world: Backend) -> None:
    assert owned(world, 1, 2) == {1: 1, 2: 1}
    epochs, _ = world.store.take_over([2, 3], "node-2")
    assert epochs == {2: 2, 3: 1}
    assert [world.owner(shard) for shard in range(4)] == [None, "node-1", "node-2", "node-2"]


def test_a_shard_that_does_not_exist_is_taken_by_nobody(world: Backend) -> None:
    assert owned(world, 1, 999) == {1: 1}


@pytest.mark.parametrize("write", ["claim", "release", "settle", "record", "reap"])
def test_a_write_under_a_stale_epoch_is_refused_whole_and_names_the_shards(world: Backend, write: str) -> None:
    world.add(1)
    world.add(2, shard=2)
    world.put(2, 7, state="retry_wait", wake_s=0)
    running = world.put(1, 8, state="running", attempt=1, lease_over_s=60)
    held = world.put(1, 9, state="claimed", number=(1, 1))
    epochs = owned(world, 1, 2)
    fires = waiting(world, shards=(2,))
    planned = plans(due(world, shards=(1, 2)), epoch=1)
    planned_fire = planned[0].rows[0].fire
    world.store.take_over([2], "node-2")
    before = [world.row(fire) for fire in (fires[0].id, running, held)], world.job(1), world.mark(1)
    writes = {
        "claim": lambda: world.store.claim(epochs, planned),
        "release": lambda: world.store.release(epochs, fires),
        "settle": lambda: world.store.settle(epochs, [Settlement(planned_fire, State.SKIPPED, "missed")]),
        "record": lambda: world.store.record(epochs, {1: 5, 2: 5}),
        "reap": lambda: world.store.reap(epochs, now=NOON),
    }
    with pytest.raises(StaleEpoch) as refused:
        writes[write]()
    assert refused.value.shards == {2}
    assert before == ([world.row(fire) for fire in (fires[0].id, running, held)], world.job(1), world.mark(1))
    assert world.store.claim({1: 1}, plans(due(world), epoch=1)) != {}, "the next write goes through"


def test_a_take_over_lifts_and_renumbers_what_is_claimed_beyond_the_watermark_alone(world: Backend) -> None:
    world.add(1)
    owned(world)
    world.store.record({1: 1}, {1: 2})
    rows = {
        name: world.put(1, at, **columns)
        for name, at, columns in (
            ("confirmed", 1, {"state": "claimed", "number": (1, 2)}),
            ("of an older epoch", 2, {"state": "claimed", "number": (0, 9)}),
            ("later", 30, {"state": "claimed", "number": (1, 3), "fence": 4}),
            ("beyond", 3, {"state": "claimed", "number": (1, 4)}),
            ("unnumbered", 4, {"state": "claimed"}),
            ("unnumbered, confirmed", 5, {"state": "claimed", "confirmed": True}),
            ("acquired", 6, {"state": "running", "number": (1, 5), "attempt": 1}),
            ("parked", 7, {"state": "parked", "reason": "turn", "number": (1, 6), "wake_s": 9}),
            ("done", 8, {"state": "succeeded", "number": (1, 7), "attempt": 1}),
        )
    }
    before = {name: world.row(fire) for name, fire in rows.items()}
    epochs, recovered = world.store.take_over([1], "node-2")
    assert epochs == {1: 2}
    found = {fire.id: (fire.fence, fire.epoch, fire.seq) for fire in recovered}
    assert found == {rows["beyond"]: (2, 2, 1), rows["unnumbered"]: (2, 2, 2), rows["later"]: (5, 2, 3)}
    for name, fire in rows.items():
        row = world.row(fire)
        assert row is not None
        if fire in found:
            assert (row.state, row.fence, row.number) == ("claimed", found[fire][0], found[fire][1:])
        else:
            assert row == before[name], name
    assert world.mark(1) == (2, 0)


def test_a_take_over_leaves_other_shards_alone(world: Backend) -> None:
    world.add(1, shard=2)
    other = world.put(1, state="claimed", number=(9, 9))
    assert world.store.take_over([1], "node-1")[1] == []
    row = world.row(other)
    assert row is not None
    assert row.fence == 1


def test_what_was_recovered_and_then_recorded_is_not_recovered_again(world: Backend) -> None:
    world.add(1)
    world.put(1, state="claimed", number=(0, 1))
    assert len(world.store.take_over([1], "node-1")[1]) == 1
    world.store.record({1: 1}, {1: 1})
    assert world.store.take_over([1], "node-2")[1] == []


# -- watermarks ------------------------------------------------------------------------------------------------------


def test_a_recorded_mark_never_goes_back(world: Backend) -> None:
    epochs = owned(world, 1, 2)
    world.store.record(epochs, {1: 5, 2: 1})
    world.store.record(epochs, {1: 3})
    assert (world.mark(1), world.mark(2)) == ((1, 5), (1, 1))
    world.store.record(owned(world, 1), {1: 2})
    assert world.mark(1) == (2, 2)
