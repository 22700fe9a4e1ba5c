"""What was published and is not acquired: when it is looked for, and when it is sent again."""

from __future__ import annotations

from typing import Any

from scheduling.core.effects import LookAtQueues, ReadUnstarted, Record, SendAgain, TakeAgain
from scheduling.core.fire import Fire, MisfirePolicy, Verdict
from scheduling.core.gates import lane_of
from scheduling.core.unstarted import LIMIT, QUEUES, SOON_S, START, Unstarted, Walk
from scheduling.testing.clock import NOON
from tests.claims import SECOND, make_due, make_fire, make_work
from tests.engine_desk import Desk, of, one, published

PATIENCE_S = 60.0
NOTHING = Unstarted([], (), {})


def a_desk(**limits: Any) -> Desk:
    return Desk(start_patience_s=PATIENCE_S, **limits)


def suspect(number: int = 1, **values: Any) -> Fire:
    """A fire as the store reads it back, published a minute ago under number 1 of an older epoch."""
    work = make_work(number, **{"misfire": MisfirePolicy.SKIP} | values)
    return make_fire(work, NOON - SECOND * 70, claimed_at=-70.0, epoch=0)


def found(desk: Desk, *suspects: Fire, overtaken: tuple[Fire, ...] = ()) -> list[Any]:
    """What is asked for when the next round has found these."""
    desk.run(SOON_S)
    return desk.note(desk.engine.unstarted_read(Unstarted(suspects, {fire.id for fire in overtaken}, {})))


# -- the walk ----------------------------------------------------------------------------------------------------------


def test_of_many_queues_each_is_asked_for_in_its_turn() -> None:
    walk = Walk(PATIENCE_S)
    suspects = [suspect(tenant, tenant_id=tenant) for tenant in range(1, QUEUES + 11)]

    def asked() -> set[int]:
        (look,) = walk.read(Unstarted(suspects, (), {}), [1], 0.0)
        return {fire.work.tenant_id for fire in look.fires}

    assert asked() == {*range(1, QUEUES + 1)}
    assert {*range(QUEUES + 1, QUEUES + 11)} < asked()


def test_without_a_patience_nothing_is_looked_for() -> None:
    assert of(ReadUnstarted, Desk().run(600)) == []


def test_a_round_begins_each_five_seconds_and_never_beside_another() -> None:
    desk = a_desk()
    first = one(ReadUnstarted, desk.run(30))
    assert (dict(first.after), first.patience_s, first.limit) == ({1: START}, PATIENCE_S, LIMIT)
    desk.note(desk.engine.unstarted_read(NOTHING))
    assert of(ReadUnstarted, desk.run(4.9)) == []
    assert len(of(ReadUnstarted, desk.run(0.2))) == 1


def test_a_walk_goes_on_where_it_was_and_sooner_while_there_is_more_and_begins_anew_at_its_end() -> None:
    walk = Walk(PATIENCE_S)
    assert [dict(read.after) for read in walk.begin([1, 2], 0.0)] == [{1: START, 2: START}]
    walk.read(Unstarted([], (), {1: (3, 500)}), [1, 2], 0.0)
    assert walk.next_at() == SOON_S
    assert [dict(read.after) for read in walk.begin([1, 2], SOON_S)] == [{1: (3, 500), 2: START}]
    walk.read(NOTHING, [1, 2], SOON_S)
    assert [dict(read.after) for read in walk.begin([1, 2], 10.0)] == [{1: START, 2: START}]


def test_a_read_that_failed_costs_no_take_over_and_is_made_again() -> None:
    desk = a_desk()
    assert desk.engine.failed(one(ReadUnstarted, desk.run(0.1))) == []
    assert len(of(ReadUnstarted, desk.run(5.1))) == 1


# -- evidence ----------------------------------------------------------------------------------------------------------


def test_a_suspect_is_not_sent_again_while_messages_wait_in_its_queue() -> None:
    desk = a_desk()
    fire = suspect()
    assert [lane_of(asked) for asked in one(LookAtQueues, found(desk, fire)).fires] == [lane_of(fire)]
    assert desk.engine.queues_seen([]) == []
    assert of(ReadUnstarted, desk.run(5.1)), "the round is over"


def test_one_whose_queue_is_empty_or_gone_is_sent_again_under_the_same_fence_and_a_new_number() -> None:
    desk = a_desk()
    fire = suspect()
    fire.fence = 4
    found(desk, fire)
    send = one(SendAgain, desk.note(desk.engine.queues_seen([lane_of(fire)])))
    assert (send.fires, dict(send.epochs), fire.fence) == ([fire], {1: 1}, 4)
    assert (fire.epoch, fire.seq) == (1, 1)
    desk.note(desk.engine.sent_again(send, {fire.id}))
    assert published(desk.run(0.01)) == [fire], "its misfire policy was judged before it was published first"
    assert of(Record, desk.run(1)) == [], "the watermark does not pass it before its confirm"
    desk.outcome(Verdict.CONFIRMED, fire)
    assert one(Record, desk.run(0.1)).marks == {1: 1}


def test_one_that_a_later_fire_of_its_queue_has_overtaken_is_sent_again_whatever_waits_there() -> None:
    desk = a_desk()
    waits, gone = suspect(1), suspect(2)
    found(desk, waits, gone, overtaken=(gone,))
    assert one(SendAgain, desk.engine.queues_seen([])).fires == [gone]


def test_each_queue_is_asked_for_once_and_not_for_what_was_overtaken() -> None:
    desk = a_desk()
    suspects = [suspect(1), suspect(2), suspect(3, tenant_id=2), suspect(4, tenant_id=3)]
    asked = one(LookAtQueues, found(desk, *suspects, overtaken=(suspects[3],))).fires
    assert sorted(fire.work.tenant_id for fire in asked) == [1, 2]


def test_what_was_acquired_meanwhile_is_not_published_and_holds_no_watermark() -> None:
    desk = a_desk()
    fire = suspect()
    found(desk, fire)
    send = one(SendAgain, desk.engine.queues_seen([lane_of(fire)]))
    desk.note(desk.engine.sent_again(send, set()))
    effects = desk.run(0.1)
    assert (published(effects), one(Record, effects).marks) == ([], {1: 1})


# -- ownership ---------------------------------------------------------------------------------------------------------


def test_a_shard_that_leaves_sends_nothing_again() -> None:
    desk = a_desk()
    fire = suspect()
    found(desk, fire)
    desk.engine.hand_over([1])
    assert desk.engine.queues_seen([lane_of(fire)]) == []


def test_when_nobody_knows_whether_it_was_written_the_shard_is_taken_over_again() -> None:
    desk = a_desk()
    fire = suspect()
    found(desk, fire)
    send = one(SendAgain, desk.engine.queues_seen([lane_of(fire)]))
    assert one(TakeAgain, desk.engine.failed(send)).shards == {1}
    desk.engine.taken({1: 2}, [])
    assert of(ReadUnstarted, desk.run(5.1)), "the walk goes on"


def test_without_a_lease_nothing_is_sent_again() -> None:
    desk = a_desk()
    fire = suspect()
    found(desk, fire)
    desk.engine.lease_until = desk.clock.monotonic() - 1
    assert desk.engine.queues_seen([lane_of(fire)]) == []


def test_while_one_round_is_under_way_claims_go_on() -> None:
    desk = a_desk()
    found(desk, suspect())
    (fire,) = desk.claim(make_due(make_work(9)))
    assert published(desk.run(0.01)) == [fire]
