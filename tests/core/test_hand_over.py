"""Shards that leave: what is in flight is brought to an end, nothing begins, and then they go."""

from __future__ import annotations

from scheduling.core.effects import (
    Claim,
    CountPredecessors,
    Effect,
    HandOver,
    Promote,
    Publish,
    ReadDue,
    ReadWaiting,
    Reap,
    Record,
    Release,
    Settle,
    TakeAgain,
)
from scheduling.core.fire import MisfirePolicy, OverlapPolicy, Verdict
from scheduling.core.hand_over import HAND_OVER_S
from scheduling.core.waiting import Waiting
from scheduling.testing.clock import NOON
from tests.claims import SECOND, make_fire, make_work
from tests.core.test_engine_ownership import claiming, due
from tests.engine_desk import Desk, of, one, published, saw

ALMOST_S = HAND_OVER_S - 0.01


def handed_over(effects: list[Effect]) -> set[int]:
    return {shard for effect in of(HandOver, effects) for shard in effect.shards}


def test_a_shard_with_nothing_in_flight_is_released_at_once() -> None:
    desk = Desk(shards=(1, 2))
    desk.run(0.01)
    assert desk.engine.hand_over([1]) == []
    assert desk.engine.next_wake() <= desk.clock.monotonic()
    assert handed_over(desk.pass_time()) == {1}
    assert desk.engine.shards == {2}


def test_what_is_in_flight_is_confirmed_and_recorded_first_and_the_record_does_not_wait() -> None:
    desk = Desk()
    sent, other = desk.claim(due(1), due(2))
    desk.run(0.01)
    desk.outcome(Verdict.CONFIRMED, other)
    desk.run(0.1)
    desk.engine.recorded()
    desk.engine.hand_over([1])
    assert handed_over(desk.run(ALMOST_S)) == set()
    desk.outcome(Verdict.CONFIRMED, sent)
    effects = desk.pass_time()
    assert (one(Record, effects).marks, handed_over(effects)) == ({1: max(sent.seq, other.seq)}, set())
    desk.engine.recorded()
    assert handed_over(desk.pass_time()) == {1}


def test_what_waits_in_the_wheel_is_left_to_the_next_owner() -> None:
    desk = Desk()
    desk.claim(due(1, at_s=0.5))
    desk.engine.hand_over([1])
    effects = desk.run(1)
    assert (published(effects), of(Record, effects), handed_over(effects)) == ([], [], {1})


def test_for_a_shard_that_leaves_nothing_begins_and_the_others_go_on() -> None:
    desk = Desk(shards=(1, 2))
    desk.claim(due(1, shard=1))
    desk.engine.waiting_read(Waiting([]))
    desk.run(0.01)
    desk.engine.hand_over([1])
    effects = desk.run(ALMOST_S)
    assert {shard for read in of(ReadDue, effects) for shard in read.shards} == {2}
    assert {shard for read in of(ReadWaiting, effects) for shard in read.shards} == {2}
    assert {shard for reap in of(Reap, effects) for shard in reap.epochs} == {2}
    assert {shard for promote in of(Promote, effects) for shard in promote.epochs} == {2}
    assert handed_over(effects) == set()


def test_a_look_under_way_finds_nothing_for_a_shard_that_leaves() -> None:
    desk = Desk(shards=(1, 3))
    read = one(ReadDue, desk.pass_time())
    desk.engine.hand_over([1])
    assert handed_over(desk.pass_time()) == {1}, "a look is no write: it is not waited for"
    claim = one(Claim, desk.engine.due_read(read, saw(read, due(1, shard=1), due(2, shard=3))))
    assert claim.epochs == {3: 1}


def test_a_claim_under_way_is_waited_for_and_its_fires_are_left_to_the_next_owner() -> None:
    desk = Desk(shards=(1, 2))
    claim = claiming(desk, due(1))
    desk.engine.hand_over([1])
    assert handed_over(desk.run(0.1)) == set()
    desk.engine.claimed(claim, {row.fire.id: 1 for plan in claim.plans for row in plan.rows})
    effects = desk.run(0.1)
    assert (published(effects), of(Record, effects), handed_over(effects)) == ([], [], {1})


def test_a_claim_under_way_that_wrote_nothing_moves_the_mark_before_the_shard_goes() -> None:
    desk = Desk()
    claim = claiming(desk, due(1))
    desk.engine.hand_over([1])
    desk.engine.claimed(claim, {})
    effects = desk.pass_time()
    assert (one(Record, effects).marks, handed_over(effects)) == ({1: 1}, set())


def test_waiting_fires_that_are_being_released_are_waited_for_and_left_to_the_next_owner() -> None:
    desk = Desk()
    desk.run(0.01)
    release = one(Release, desk.engine.waiting_read(Waiting([make_fire(seq=0, attempt=1)])))
    desk.engine.hand_over([1])
    assert handed_over(desk.run(0.1)) == set()
    desk.engine.released(release, {fire.id for fire in release.fires})
    effects = desk.run(0.1)
    assert (published(effects), handed_over(effects)) == ([], {1})


def test_waiting_fires_that_were_only_read_are_not_released_any_more() -> None:
    desk = Desk(shards=(1, 2))
    desk.run(0.01)
    desk.engine.hand_over([1])
    theirs, mine = (make_fire(make_work(shard=shard), seq=0, attempt=1) for shard in (1, 2))
    assert one(Release, desk.engine.waiting_read(Waiting([theirs, mine]))).fires == [mine]


def test_a_fire_that_the_broker_does_not_take_is_left_to_the_next_owner() -> None:
    for verdict in (Verdict.NACKED, Verdict.LOST, Verdict.UNSENT):
        desk = Desk()
        (fire,) = desk.claim(due())
        desk.run(0.01)
        desk.engine.hand_over([1])
        assert desk.outcome(verdict, fire) == []
        effects = desk.run(5)
        assert (of(Publish, effects), of(Record, effects), handed_over(effects)) == ([], [], {1})


def test_a_count_of_predecessors_is_not_waited_for() -> None:
    desk = Desk()
    desk.claim(due(overlap=OverlapPolicy.SKIP))
    count = one(CountPredecessors, desk.run(0.01))
    desk.engine.hand_over([1])
    assert handed_over(desk.pass_time()) == {1}
    assert desk.engine.predecessors_counted(count, {}) == []


def test_a_skip_that_is_being_written_is_waited_for() -> None:
    desk = Desk(shards=())
    work = make_work(misfire=MisfirePolicy.SKIP)
    desk.engine.taken({1: 2}, [make_fire(work, NOON - SECOND * 60, epoch=2, claimed_at=-60.0)])
    settle = one(Settle, desk.run(0.01))
    desk.engine.hand_over([1])
    assert handed_over(desk.run(0.1)) == set()
    desk.engine.settled(settle)
    assert one(Record, desk.pass_time()).marks == {1: 1}
    desk.engine.recorded()
    assert handed_over(desk.pass_time()) == {1}


def test_a_broker_that_says_nothing_holds_a_shard_for_a_second_however_often_it_is_to_leave() -> None:
    desk = Desk()
    (fire,) = desk.claim(due())
    desk.run(0.01)
    desk.engine.hand_over([1])
    desk.run(ALMOST_S)
    desk.engine.hand_over([1])
    assert desk.engine.shards == {1}
    assert handed_over(desk.run(0.02)) == {1}
    assert desk.outcome(Verdict.CONFIRMED, fire) == []
    assert of(Record, desk.run(1)) == []


def test_without_a_lease_a_hand_over_is_still_brought_to_its_end() -> None:
    desk = Desk()
    (fire,) = desk.claim(due())
    desk.run(0.01)
    desk.engine.hand_over([1])
    desk.engine.lease_until = 0.0
    desk.outcome(Verdict.CONFIRMED, fire)
    assert one(Record, desk.pass_time()).marks == {1: fire.seq}
    desk.engine.recorded()
    assert handed_over(desk.pass_time()) == {1}


def test_a_shard_that_is_to_stay_after_all_is_taken_over_again() -> None:
    desk = Desk(shards=(1, 2))
    waits, _ = desk.claim(due(1, at_s=0.3, shard=1), due(2, shard=1))
    desk.run(0.01)
    desk.engine.hand_over([1])
    assert desk.engine.hand_over([]) == [TakeAgain(frozenset({1}))]
    assert desk.engine.shards == {2}
    again = make_fire(waits.work, waits.fire_at, seq=1, epoch=2, fence=2)
    desk.engine.taken({1: 2}, [again])
    effects = desk.run(2)
    assert (published(effects), handed_over(effects)) == ([again], set())


def test_a_shard_that_came_back_may_leave_again() -> None:
    desk = Desk()
    desk.engine.hand_over([1])
    assert handed_over(desk.pass_time()) == {1}
    desk.engine.taken({1: 3}, [])
    assert handed_over(desk.run(2)) == set()
    desk.engine.hand_over([1])
    assert handed_over(desk.pass_time()) == {1}


def test_a_write_of_unknown_outcome_sends_a_shard_that_leaves_to_its_next_owner_at_once() -> None:
    desk = Desk(shards=(1, 3))
    claim = claiming(desk, due(1, shard=1), due(2, shard=3))
    desk.engine.hand_over([1])
    assert desk.engine.failed(claim) == [TakeAgain(frozenset({3})), HandOver(frozenset({1}))]
    assert desk.engine.shards == set()


def test_a_shard_that_another_took_meanwhile_is_not_released() -> None:
    desk = Desk(shards=(1, 3))
    claim = claiming(desk, due(1, shard=1))
    desk.engine.hand_over([1])
    assert desk.engine.failed(claim, stale=[1]) == []
    assert handed_over(desk.run(2)) == set()


def test_shards_that_are_not_ours_do_not_leave() -> None:
    desk = Desk()
    assert desk.engine.hand_over([7]) == []
    assert handed_over(desk.pass_time()) == set()


def test_a_node_that_has_handed_everything_over_wakes_once_a_second() -> None:
    desk = Desk()
    desk.run(5)
    desk.engine.hand_over(desk.engine.shards)
    desk.pass_time()
    assert desk.engine.next_wake() == desk.clock.monotonic() + 1
