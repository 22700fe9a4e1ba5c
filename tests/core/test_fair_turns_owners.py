"""Fair turns through lost messages and lost shards, take-overs, and beside other nodes: nothing is lost on the way."""

from __future__ import annotations

import pytest

from fairness.core.admission import Refusal
from fairness.core.terms import Bound
from scheduling.core.appetite import CROWDED_S
from scheduling.core.due import Due
from scheduling.core.effects import (
    Admit,
    Claim,
    Exchange,
    LetGo,
    Publish,
    ReadDue,
    ReadHeld,
    ReadTerms,
    Release,
    SendAgain,
)
from scheduling.core.fire import Verdict
from scheduling.core.runs import Held, InFlight
from scheduling.core.turn import FairLimits
from scheduling.core.waiting import Waiting
from scheduling.testing.clock import NOON
from tests.claims import SECOND, make_due, make_fire, make_work
from tests.engine_desk import of, one, published
from tests.fair_desk import CAPPED, FairDesk, report, terms

DEPTH = 4  # of two slots: one of them is kept from bulk where the other lane is active


# -- nothing is lost ---------------------------------------------------------------------------------------------------


def test_a_fire_whose_message_was_lost_keeps_its_place_and_is_sent_again() -> None:
    desk = FairDesk(slots=2)
    fires = desk.due(DEPTH + 1)
    went = desk.go()
    desk.confirm(went[1:])
    desk.outcome(Verdict.LOST, went[0])
    assert desk.go(0.2) == [went[0]]
    assert fires[-1] not in published(desk.effects)


def test_before_the_terms_are_known_nothing_goes() -> None:
    desk = FairDesk()
    desk.turns.terms.is_known, desk.turns.terms._terms = False, {}
    fires = desk.due(2)
    assert desk.go(0.5) == []
    desk.set_terms()
    assert desk.go() == fires


def test_a_tenant_whose_terms_are_not_known_waits_for_them_and_they_are_asked_for() -> None:
    desk = FairDesk()
    known, unknown = desk.due(1), desk.due(2, tenant=77)
    effects = desk.run(0.01)
    assert published(effects) == known
    assert len(of(ReadTerms, effects)) == 1
    desk.set_terms(terms(77, bound=CAPPED))
    assert [fire for fire, _ in one(Admit, desk.run(0.01)).asked] == unknown


def test_what_is_with_the_workers_is_read_once_terms_are_known() -> None:
    """Before it could not be told which places it has under which limits."""
    running = make_fire(make_work(9))
    desk = FairDesk(terms(1, bound=CAPPED), held=Held([InFlight(running, 3.0)]))
    assert desk.turns.kept()[0][0] == running


def test_a_shard_that_is_lost_frees_its_places() -> None:
    desk = FairDesk(slots=2, shards=(1, 2))
    desk.due(10, shard=1)
    desk.confirm(desk.go())
    others = desk.due(2, tenant=2, shard=2)
    desk.engine.drop({1})
    assert desk.go() == others
    assert len(desk.turns) == 2


def test_an_answer_for_a_shard_that_was_lost_meanwhile_gives_back() -> None:
    desk = FairDesk(terms(1, bound=CAPPED))
    fires = desk.due(1)
    admit = one(Admit, desk.run(0.01))
    desk.engine.drop({1})
    assert published(desk.engine.admitted(admit, [None])) == []
    let_go = one(LetGo, desk.run(0.01))
    assert ([fire for fire, _ in let_go.asked], let_go.unspent) == (fires, True)


def test_nothing_of_a_shard_that_leaves_has_a_turn() -> None:
    desk = FairDesk(slots=2, shards=(1, 2))
    fires = desk.due(10)
    went = desk.go()
    desk.engine.hand_over({1})
    desk.confirm(went)
    assert desk.go() == []
    assert fires[DEPTH] not in published(desk.effects)


@pytest.mark.parametrize("others", [0, 1])
def test_what_a_look_finds_in_a_shard_that_leaves_stays_held(others: int) -> None:
    """Its next owner finds it late, and is to know why."""
    desk = FairDesk(shards=(1, 3))
    assert desk.engine._sharing is not None
    holds = desk.engine._sharing.looks.holds
    holds.begin({1}, {1, 3}, desk.clock.monotonic(), desk.clock.now())
    desk.engine.look_now()
    read = one(ReadDue, desk.pass_time())
    desk.engine.hand_over({1})

    found = [make_due(make_work(1, tenant_id=1, shard=1), NOON)]
    found += [make_due(make_work(2 + n, tenant_id=2, shard=3), NOON) for n in range(others)]
    for claim in of(Claim, desk.engine.due_read(read, Due(found, read.shards))):
        desk.engine.claimed(claim, {row.fire.id: 1 for plan in claim.plans for row in plan.rows})

    assert holds.since.keys() == {(1, 1)}


def test_a_retry_ends_the_turn_of_the_attempt_before() -> None:
    desk = FairDesk(slots=2)
    fires = desk.due(1)
    desk.confirm(desk.go())
    again = make_fire(fires[0].work, fires[0].scheduled_for, fence=7, seq=0, attempt=1)
    release = one(Release, desk.engine.waiting_read(Waiting([again])))
    desk.engine.released(release, {again.id})
    assert desk.go() == [again]
    assert len(desk.turns) == 1


# -- take-over ---------------------------------------------------------------------------------------------------------


def test_after_a_take_over_nothing_goes_before_it_is_known_what_is_with_the_workers() -> None:
    desk = FairDesk(slots=2)
    left = make_fire(make_work(9, shard=3), epoch=5)
    read = one(ReadHeld, desk.engine.taken({3: 5}, [left]))
    effects = desk.run(0.5)
    assert published(effects) == []
    assert not any(3 in look.shards for look in of(ReadDue, effects))
    desk.engine.held_read(read, Held())
    assert desk.go() == [left]


def test_what_another_owner_granted_has_its_place() -> None:
    running = make_fire(make_work(9))
    desk = FairDesk(slots=2, held=Held([InFlight(running, 3.0)]))
    fires = desk.due(10)
    assert desk.go() == fires[: DEPTH - 1]
    desk.confirm(fires[: DEPTH - 1])
    desk.end([running])
    assert desk.go() == fires[DEPTH - 1 : DEPTH]


def test_a_read_of_what_is_held_that_failed_is_tried_again() -> None:
    desk = FairDesk(slots=2)
    read = one(ReadHeld, desk.engine.taken({3: 5}, []))
    desk.engine.failed(read)
    again = one(ReadHeld, desk.effects_until(ReadHeld))
    assert again.shards == {3}


# -- bounds that are new -----------------------------------------------------------------------------------------------


def test_what_went_without_a_cap_has_its_place_once_there_is_one() -> None:
    desk = FairDesk(fairness=FairLimits(bounds_lanes=False, exchanges=False))
    went = desk.due(2)
    assert desk.go() == went
    desk.confirm(went)
    desk.set_terms(terms(1, bound=CAPPED))
    read = one(ReadHeld, desk.run(0.001))
    desk.engine.held_read(read, Held([InFlight(fire) for fire in went]))
    assert [fire for fire, _ in desk.turns.kept()] == went
    desk.end(went[:1])
    assert [fire for fire, _ in desk.turns.kept()] == went[1:]


def test_what_went_before_a_worker_has_ever_reported_has_its_place_in_the_depth() -> None:
    desk = FairDesk()
    went = desk.due(10)
    assert desk.go() == went
    desk.confirm(went)
    desk.engine.reported([report(2)])
    read = one(ReadHeld, desk.run(0.001))
    desk.engine.held_read(read, Held([InFlight(fire) for fire in went]))
    desk.due(1, first=100)
    assert desk.go() == [], "the room is full of those"


def test_a_count_of_what_is_in_flight_that_failed_is_tried_again_and_nothing_waits_for_it() -> None:
    desk = FairDesk(terms(1))
    desk.set_terms(terms(1, bound=CAPPED))
    read = one(ReadHeld, desk.run(0.001))
    desk.engine.failed(read)
    others = desk.due(1, tenant=2)
    assert desk.go() == others
    assert one(ReadHeld, desk.effects_until(ReadHeld)).shards == {1}


def test_a_cap_that_is_changed_is_no_new_one() -> None:
    desk = FairDesk(terms(1, bound=CAPPED))
    desk.set_terms(terms(1, bound=Bound(max_in_flight=5)))
    assert of(ReadHeld, desk.run(0.5)) == []


# -- with other nodes --------------------------------------------------------------------------------------------------


def test_with_other_nodes_nothing_goes_beyond_the_places_that_are_ours() -> None:
    from fairness.core.exchange import Settled

    desk = FairDesk(slots=2, fairness=FairLimits())
    fires = desk.due(10)
    effects = desk.effects_until(Exchange)
    assert published(effects) == fires[:1], "who has just come has a head start"
    desk.confirm(fires[:1])
    told = one(Exchange, effects).lanes
    assert [(lane.in_flight, lane.wants, lane.depth) for lane in told if lane.lane == "bulk"] == [(1, 9, 4)]
    desk.engine.exchanged([Settled(one_.lane, places=2) for one_ in told])
    assert desk.go() == fires[:2]
    assert of(Publish, desk.run(0.04)) == []


def test_other_nodes_are_told_at_once_who_comes_after_a_long_quiet() -> None:
    from fairness.core.exchange import Settled

    desk = FairDesk(slots=2, fairness=FairLimits())
    desk.due(1)
    pauses = []
    for _ in range(100):
        before = desk.clock.monotonic()
        told = one(Exchange, desk.effects_until(Exchange)).lanes
        pauses.append(desk.clock.monotonic() - before)
        desk.engine.exchanged([Settled(lane.lane, places=1) for lane in told])
        desk.confirm(desk.go(0.0))
    assert pauses[-1] > 0.2
    desk.run(0.06)
    desk.due(5, tenant=2)
    assert one(Exchange, desk.run(0.01))


def test_other_nodes_are_told_what_fires_cost_as_it_is_known_by_now() -> None:
    """And not as it was thought to be when they came."""
    from fairness.core.exchange import Settled

    desk = FairDesk(slots=2, fairness=FairLimits())
    fires = desk.due(10)
    told = one(Exchange, desk.effects_until(Exchange)).lanes
    desk.engine.exchanged([Settled(lane.lane, places=4) for lane in told])
    desk.go()
    desk.confirm(fires[:2])
    desk.end(fires[:2], ran_s=0.02)
    ((row,),) = [lane.rows for lane in one(Exchange, desk.effects_until(Exchange)).lanes if lane.lane == "bulk"]
    assert row.cost == 0.02
    assert row.way > 0


def test_a_tenant_that_fills_the_wheel_leaves_room_for_others() -> None:
    desk = FairDesk(ahead=20)
    desk.claim(*(make_due(make_work(n, tenant_id=1), NOON + SECOND * 0.9) for n in range(12)))
    desk.run(CROWDED_S)
    desk.engine.look_now()
    assert one(ReadDue, desk.effects_until(ReadDue)).full == {1}


def test_who_has_just_come_has_a_head_start_beyond_the_room_of_a_flood() -> None:
    desk = FairDesk(slots=2)
    desk.due(20)
    desk.confirm(desk.go())
    light = desk.due(3, tenant=2)
    assert desk.go() == light[:1]


def test_a_tenant_whose_fires_stand_somewhere_does_not_take_all_places() -> None:
    """Workers run of it far less than it is granted."""
    desk = FairDesk(terms(2, weight=4.0), slots=8)
    desk.turns.rooms["bulk"].limit = 100
    desk.due(200, tenant=2)
    went = desk.go()
    desk.due(90, tenant=1)
    for _ in range(40):
        desk.confirm(went)
        desk.end([next(turn.fire for turn in desk.turns._in_flight.values() if turn.path[1] == 2)], ran_s=0.5)
        went = desk.go()
    assert 10 < dict(desk.turns.standings)["bulk", 1].in_flight < 28


def test_what_another_owner_granted_and_is_sent_again_waits_where_its_tenant_is_refused() -> None:
    rate = Bound(rate_per_s=1.0)
    lost = make_fire(make_work(9))
    desk = FairDesk(terms(1, bound=rate), slots=2, held=Held([InFlight(lost)]))
    again = SendAgain({1: 1}, [lost])
    desk.engine._numbering.anew([lost])
    desk.engine.sent_again(again, {lost.id})
    admit = one(Admit, desk.run(0.01))
    desk.engine.admitted(admit, [Refusal("rate", (1, "", ""), 0.5)])
    admit = one(Admit, desk.run(0.6))
    assert published(desk.engine.admitted(admit, [None])) == [lost]


def test_what_becomes_of_the_message_of_an_earlier_attempt_is_nothing_to_the_turn_of_the_next() -> None:
    """Its worker was faster than the broker's answer, and failed."""
    desk = FairDesk(slots=2)
    (first,) = desk.due(1)
    desk.go()
    flood = desk.due(9, tenant=2)
    desk.go()
    again = make_fire(first.work, first.scheduled_for, fence=7, seq=0, attempt=1)
    release = one(Release, desk.engine.waiting_read(Waiting([again])))
    desk.engine.released(release, {again.id})
    desk.outcome(Verdict.LOST, first)
    desk.confirm(flood[:3])
    went = desk.go(0.5)
    assert again in went
    desk.confirm([again])
    assert again in desk.turns.in_flight()
