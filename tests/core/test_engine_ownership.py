"""What the engine does as shards come, are lost, and fall into doubt."""

from __future__ import annotations

import pytest

from scheduling.core.due import DueJob
from scheduling.core.effects import Claim, CountPredecessors, ReadDue, Record, Release, Settle, TakeAgain
from scheduling.core.fire import MisfirePolicy, OverlapPolicy, Verdict
from scheduling.core.overlap import Predecessors
from scheduling.core.waiting import Waiting
from scheduling.testing.clock import NOON
from tests.claims import SECOND, make_due, make_fire, make_work
from tests.engine_desk import Desk, of, one, published


def due(number: int = 1, at_s: float = 0.0, **work: object) -> DueJob:
    return make_due(make_work(number, **work), NOON + SECOND * at_s)


def claiming(desk: Desk, *jobs: DueJob) -> Claim:
    """A claim that waits for its answer."""
    desk.engine.look_now()
    (claim,) = desk.planned(jobs)
    return claim


def test_what_a_take_over_recovered_is_published_and_settles_under_the_new_epoch() -> None:
    desk = Desk(shards=())
    left = [make_fire(make_work(n), seq=n, epoch=4, fence=2) for n in (1, 3)]
    desk.engine.taken({1: 4}, left)
    assert published(desk.run(0.01)) == left
    desk.outcome(Verdict.CONFIRMED, left[0])
    assert one(Record, desk.run(0.1)) == Record({1: 4}, {1: 2})  # number 2 was acquired meanwhile: it has no row
    desk.engine.recorded()
    desk.outcome(Verdict.CONFIRMED, left[1])
    assert one(Record, desk.run(0.1)).marks == {1: 3}


def test_what_was_recovered_and_is_not_due_yet_waits_for_its_time() -> None:
    desk = Desk(shards=())
    desk.engine.taken({1: 2}, [make_fire(at=NOON + SECOND * 0.5, epoch=2)])
    assert published(desk.run(0.499)) == []
    assert len(published(desk.run(0.01))) == 1


def test_a_recovered_fire_that_is_far_too_late_meets_its_misfire_policy() -> None:
    desk = Desk(shards=())
    work = make_work(misfire=MisfirePolicy.SKIP)
    desk.engine.taken({1: 2}, [make_fire(work, NOON - SECOND * 60, epoch=2, claimed_at=-60.0)])
    effects = desk.run(0.01)
    assert published(effects) == []
    assert one(Settle, effects).settlements[0].reason == "missed"


def test_a_stale_epoch_drops_its_shards_and_takes_the_others_of_that_write_again() -> None:
    desk = Desk(shards=(1, 3, 5))
    claim = claiming(desk, due(1, shard=1), due(2, shard=3))
    assert desk.engine.failed(claim, stale=[1]) == [TakeAgain(frozenset({3}))]
    assert desk.engine.shards == {5}


def test_a_claim_of_unknown_outcome_takes_its_shards_again_and_forgets_their_fires() -> None:
    desk = Desk(shards=(1, 2))
    desk.claim(due(1, at_s=0.1, shard=1), due(2, at_s=0.1, shard=2))
    claim = claiming(desk, due(3, shard=1))
    assert desk.engine.failed(claim) == [TakeAgain(frozenset({1}))]
    assert [fire.work.shard for fire in published(desk.run(0.2))] == [2]


def test_without_a_lease_shards_in_doubt_are_given_up_and_not_taken_from_who_may_have_them() -> None:
    desk = Desk(shards=(1, 2))
    claim = claiming(desk, due(1, shard=1))
    desk.engine.lease_until = desk.clock.monotonic()
    assert desk.engine.failed(claim) == []
    assert desk.engine.shards == {2}


@pytest.mark.parametrize("kind", [Release, Settle, Record])
def test_every_other_write_of_unknown_outcome_takes_its_shards_again(kind: type) -> None:
    desk = Desk(shards=(1, 2))
    (fire,) = desk.claim(due(overlap=OverlapPolicy.SKIP))
    if kind is Release:
        desk.pass_time()
        effects = desk.engine.waiting_read(Waiting([make_fire(seq=0, attempt=1)]))
    elif kind is Settle:
        count = one(CountPredecessors, desk.run(0.01))
        effects = desk.engine.predecessors_counted(count, {fire.id: Predecessors(1, 0)})
    else:
        desk.engine.predecessors_counted(one(CountPredecessors, desk.run(0.01)), {})
        desk.outcome(Verdict.CONFIRMED, fire)
        effects = desk.run(0.1)
    assert desk.engine.failed(one(kind, effects)) == [TakeAgain(frozenset({1}))]
    assert desk.engine.shards == {2}


def test_a_failed_read_is_simply_made_again() -> None:
    desk = Desk()
    assert desk.engine.failed(one(ReadDue, desk.pass_time())) == []
    assert desk.engine.shards == {1}
    assert of(ReadDue, desk.pass_time(0.2)) != []


def test_answers_that_come_after_their_shard_was_taken_again_change_nothing() -> None:
    desk = Desk()
    (old,) = desk.claim(due(1))
    late = claiming(desk, due(2))
    assert published(desk.run(0.002)) == [old]
    again = make_fire(old.work, seq=1, epoch=2, fence=2)
    desk.engine.taken({1: 2}, [again])
    desk.engine.claimed(late, {row.fire.id: 1 for plan in late.plans for row in plan.rows})
    desk.outcome(Verdict.CONFIRMED, old)
    effects = desk.run(0.1)
    assert published(effects) == [again]
    assert of(Record, effects) == []
    desk.outcome(Verdict.CONFIRMED, again)
    assert one(Record, desk.run(0.1)) == Record({1: 2}, {1: 1})


def test_an_old_settlement_does_not_settle_the_same_fire_under_its_new_number() -> None:
    desk = Desk(shards=())
    work = make_work(misfire=MisfirePolicy.SKIP)

    def too_late(epoch: int) -> Settle:
        desk.engine.taken({1: epoch}, [make_fire(work, NOON - SECOND * 60, epoch=epoch, claimed_at=-60.0)])
        return one(Settle, desk.run(0.01))

    old, new = too_late(2), too_late(3)
    desk.engine.settled(old)
    assert of(Record, desk.run(0.1)) == []
    desk.engine.settled(new)
    assert one(Record, desk.run(0.1)) == Record({1: 3}, {1: 1})


def test_a_dropped_shard_takes_everything_of_it_along_and_nothing_else() -> None:
    desk = Desk(shards=(1, 2))
    mine, lost = desk.claim(due(1, at_s=0.1, shard=2), due(2, at_s=0.1, shard=1))
    desk.engine.drop([1])
    assert desk.engine.shards == {2}
    assert published(desk.run(0.2)) == [mine]
    assert desk.outcome(Verdict.CONFIRMED, lost) == []


def test_without_shards_or_a_lease_it_wakes_once_a_second() -> None:
    desk = Desk(shards=())
    assert desk.engine.next_wake() == 1.0
    desk = Desk()
    desk.engine.lease_until = 0.0
    assert desk.engine.next_wake() == 1.0
