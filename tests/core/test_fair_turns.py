"""Fair turns, one by one: who goes when there is room, who waits and where, and what ends a turn."""

from __future__ import annotations

import pytest

from fairness.core.admission import Refusal
from fairness.core.terms import Bound
from scheduling.core.effects import (
    Admit,
    Exchange,
    Keep,
    LetGo,
    LookAtRuns,
    Publish,
    ReadDue,
    ReadHeld,
    ReadTerms,
    Release,
    SendAgain,
    Settle,
)
from scheduling.core.fire import Lane, State, Verdict
from scheduling.core.runs import Held, InFlight
from scheduling.core.turn import FairLimits
from scheduling.core.waiting import Waiting
from scheduling.testing.clock import NOON
from tests.claims import SECOND, make_due, make_fire, make_work
from tests.engine_desk import of, one, published
from tests.fair_desk import FairDesk, terms

DEPTH = 4  # of two slots: one of them is kept from bulk where the other lane is active


def tenants(fires: list) -> list[int]:
    return [fire.work.tenant_id for fire in fires]


def stored(desk: FairDesk) -> Settle:
    """What has waited for its turn longer than a second is parked, and that is written."""
    settle = one(Settle, desk.effects_until(Settle))
    desk.engine.settled(settle)
    return settle


# -- whose turn it is ------------------------------------------------------------------------------------------------


def test_without_workers_reports_and_limits_everything_goes_at_once() -> None:
    desk = FairDesk()
    fires = desk.due(50)
    assert desk.go() == fires
    assert of(LookAtRuns, desk.run(1)) == []


def test_no_more_goes_than_the_workers_can_take_and_then_one_for_each_that_ends() -> None:
    desk = FairDesk(slots=2)
    fires = desk.due(10)
    assert desk.go() == fires[:DEPTH]
    desk.confirm(fires[:DEPTH])
    desk.end(fires[:1])
    assert desk.go() == fires[DEPTH : DEPTH + 1]


def test_a_place_is_taken_until_the_run_is_over() -> None:
    desk = FairDesk(slots=2)
    fires = desk.due(10)
    desk.confirm(desk.go())
    desk.end(fires[:1], is_running=True)
    assert desk.go() == []


def test_beside_a_flood_another_tenant_has_its_turn_at_once() -> None:
    desk = FairDesk(slots=2)
    flood = desk.due(20)
    desk.confirm(desk.go())
    desk.due(1, tenant=2)
    desk.end(flood[:1])
    assert tenants(desk.go()) == [2]


def test_turns_are_by_weight() -> None:
    desk = FairDesk(terms(1, weight=1), terms(2, weight=3), slots=20)
    desk.due(20, tenant=1)
    desk.due(20, tenant=2)
    went = tenants(desk.go())
    assert len(went) < 40
    assert went.count(2) == pytest.approx(3 * went.count(1), abs=3)


def test_who_runs_long_has_fewer_turns() -> None:
    desk = FairDesk(slots=2)
    went: list[int] = []
    desk.due(30, tenant=1)
    desk.due(30, tenant=2)
    flying = desk.go()
    for _ in range(30):
        desk.confirm(flying)
        went += tenants(flying)
        ended = flying[0]
        desk.end([ended], ran_s=1.0 if ended.work.tenant_id == 1 else 0.1)
        flying = [*flying[1:], *desk.go()]
    assert went.count(2) > 2 * went.count(1)


def test_by_count_it_makes_no_difference_how_long_one_runs() -> None:
    desk = FairDesk(slots=2, fairness=FairLimits(by_time=False, exchanges=False))
    went: list[int] = []
    desk.due(30, tenant=1)
    desk.due(30, tenant=2)
    flying = desk.go()
    for _ in range(20):
        desk.confirm(flying[-1:])
        ended = flying[0]
        desk.confirm([ended])
        desk.end([ended], ran_s=1.0 if ended.work.tenant_id == 1 else 0.1)
        new = desk.go()
        went += tenants(new)
        flying = [*flying[1:], *new]
    assert went.count(1) == pytest.approx(went.count(2), abs=2)


def test_bulk_leaves_the_other_lane_a_place() -> None:
    desk = FairDesk(slots=8)
    desk.due(1, tenant=2, lane=Lane.TRANSACTIONAL)
    desk.confirm(desk.go())
    desk.due(30)
    desk.go()
    urgent = desk.due(1, tenant=3, lane=Lane.TRANSACTIONAL)
    assert desk.go() == urgent


# -- waiting -----------------------------------------------------------------------------------------------------------


def test_what_waits_longer_than_a_second_is_stored_and_goes_when_it_is_its_turn() -> None:
    desk = FairDesk(slots=2)
    fires = desk.due(6)
    went = desk.go()
    desk.confirm(went)
    settle = stored(desk)
    assert [(s.fire, s.state, s.reason) for s in settle.settlements] == [
        (fire, State.PARKED, "share") for fire in fires[DEPTH:]
    ]
    assert all(s.wake_at - desk.clock.now() == 30 * SECOND for s in settle.settlements if s.wake_at)
    desk.end(went[:1])
    release = one(Release, desk.run(0.01))
    assert (release.fires, release.is_turn) == ([fires[DEPTH]], True)
    desk.engine.released(release, {fires[DEPTH].id})
    assert desk.go() == [fires[DEPTH]]


def test_a_turn_that_comes_while_its_fire_is_being_stored_is_not_lost() -> None:
    desk = FairDesk(slots=2)
    fires = desk.due(5)
    went = desk.go()
    desk.confirm(went)
    settle = one(Settle, desk.effects_until(Settle))
    desk.end(went[:1])
    assert of(Release, desk.run(0.01)) == []
    desk.engine.settled(settle)
    release = one(Release, desk.run(0.01))
    desk.engine.released(release, {fires[-1].id})
    assert desk.go() == fires[-1:]


def test_what_waits_does_not_hold_the_watermark_longer_than_a_second() -> None:
    desk = FairDesk(slots=2)
    desk.due(6)
    desk.confirm(desk.go())
    stored(desk)
    assert desk.engine._marks.unrecorded or any(desk.run(0.1))
    assert desk.engine._marks._marks[1].mark == 6


def test_a_stored_fire_that_a_look_finds_keeps_its_place() -> None:
    desk = FairDesk(slots=2)
    fires = desk.due(6)
    went = desk.go()
    desk.confirm(went)
    stored(desk)
    again = make_fire(fires[DEPTH].work, fires[DEPTH].scheduled_for, fence=fires[DEPTH].fence, seq=0)
    release = one(Release, desk.engine.waiting_read(Waiting([again])))
    assert not release.is_turn
    desk.engine.released(release, {again.id})
    assert desk.go() == []
    desk.end(went[:1])
    assert desk.go() == [again]
    assert len(desk.turns.queue) == 1


def test_a_stored_fire_that_a_person_ended_gives_its_turn_to_the_next() -> None:
    desk = FairDesk(slots=2)
    fires = desk.due(6)
    went = desk.go()
    desk.confirm(went)
    stored(desk)
    desk.end(went[:1])
    release = one(Release, desk.run(0.01))
    desk.engine.released(release, set())
    release = one(Release, desk.run(0.01))
    assert release.fires == [fires[DEPTH + 1]]


def test_waiting_for_its_turn_is_no_misfire() -> None:
    desk = FairDesk(slots=2)
    fires = desk.due(5, misfire_grace_s=0.2)
    went = desk.go()
    desk.confirm(went)
    stored(desk)
    desk.run(60)
    desk.end(went[:1])
    release = one(Release, desk.run(0.01))
    desk.engine.released(release, {fires[-1].id})
    assert desk.go() == fires[-1:]


# -- full tenants ------------------------------------------------------------------------------------------------------


def test_a_tenant_of_which_enough_waits_is_left_out_of_looks_and_held() -> None:
    desk = FairDesk(slots=2)
    desk.due(40)
    desk.confirm(desk.go())
    desk.run(0.1)
    desk.engine.look_now()
    read = one(ReadDue, desk.effects_until(ReadDue))
    assert read.full == {1}


# -- limits ------------------------------------------------------------------------------------------------------------


CAPPED = Bound(max_in_flight=2)


def test_a_limited_tenant_is_asked_for_and_others_are_not() -> None:
    desk = FairDesk(terms(1, bound=CAPPED))
    mine, others = desk.due(2), desk.due(2, tenant=2)
    effects = desk.run(0.01)
    assert published(effects) == others
    admit = one(Admit, effects)
    assert [fire for fire, _ in admit.asked] == mine
    assert published(desk.engine.admitted(admit, [None, None])) == mine


def test_who_is_refused_waits_until_the_time_that_is_named() -> None:
    desk = FairDesk(terms(1, bound=Bound(rate_per_s=1.0)))
    fires = desk.due(2)
    admit = one(Admit, desk.run(0.01))
    refusal = Refusal("rate", (1, "", ""), 0.5)
    assert published(desk.engine.admitted(admit, [None, refusal])) == fires[:1]
    assert of(Admit, desk.run(0.4)) == []
    again = one(Admit, desk.run(0.2))
    assert [fire for fire, _ in again.asked] == fires[1:]


def test_whom_a_limit_holds_has_no_backlog_of_its_share() -> None:
    desk = FairDesk(terms(1, bound=Bound(rate_per_s=1.0)), slots=2)
    desk.due(1)
    desk.due(20, tenant=2)
    admit = one(Admit, desk.run(0.01))
    desk.engine.admitted(admit, [Refusal("rate", (1, "", ""), 100.0)])
    desk.run(0.9)
    stand = {row.tenant_id: row for row in desk.turns.told(desk.clock.monotonic())}
    assert stand[1].waiting == 1
    assert stand[1].backlogged_s == 0
    assert stand[2].waiting > 0
    assert stand[2].backlogged_s > 0.5


def test_a_refused_fire_that_waits_longer_than_a_second_is_stored_with_its_reason() -> None:
    desk = FairDesk(terms(1, bound=Bound(rate_per_s=0.01)))
    desk.due(1)
    admit = one(Admit, desk.run(0.01))
    desk.engine.admitted(admit, [Refusal("rate", (1, "", ""), 100.0)])
    (settlement,) = stored(desk).settlements
    assert settlement.reason == "rate"
    assert settlement.wake_at is not None
    assert settlement.wake_at - desk.clock.now() == pytest.approx(99 * SECOND, abs=2 * SECOND)


def test_who_waits_under_a_cap_is_asked_for_as_soon_as_one_of_its_own_is_over() -> None:
    desk = FairDesk(terms(1, bound=CAPPED))
    fires = desk.due(3)
    admit = one(Admit, desk.run(0.01))
    desk.engine.admitted(admit, [None, None, Refusal("cap", (1, "", ""))])
    desk.confirm(fires[:2])
    desk.end(fires[:1])
    effects = desk.run(0.001)
    assert [fire for fire, _ in one(LetGo, effects).asked] == fires[:1]
    assert [fire for fire, _ in one(Admit, effects).asked] == fires[2:]


def test_a_fire_that_the_broker_refused_gives_its_token_back_and_waits_again() -> None:
    desk = FairDesk(terms(1, bound=CAPPED))
    fires = desk.due(1)
    desk.engine.admitted(one(Admit, desk.run(0.01)), [None])
    desk.outcome(Verdict.NACKED, *fires)
    effects = desk.run(0.2)
    assert one(LetGo, effects).unspent
    assert [fire for fire, _ in one(Admit, effects).asked] == fires


def test_after_a_change_of_terms_whoever_they_held_asks_again() -> None:
    desk = FairDesk(terms(1, bound=Bound(rate_per_s=0.01)))
    fires = desk.due(1)
    desk.engine.admitted(one(Admit, desk.run(0.01)), [Refusal("rate", (1, "", ""), 100.0)])
    desk.set_terms()
    assert desk.go() == fires


def test_all_that_is_in_flight_under_limits_is_told_again_and_again() -> None:
    desk = FairDesk(terms(1, bound=CAPPED))
    fires = desk.due(1)
    desk.engine.admitted(one(Admit, desk.run(0.01)), [None])
    desk.confirm(fires)
    kept = of(Keep, desk.run(11))
    assert len(kept) in (2, 3)
    assert [fire for fire, _ in kept[-1].asked] == fires


def test_of_a_tenant_that_is_refused_few_are_asked_for_at_once() -> None:
    desk = FairDesk(terms(1, bound=Bound(rate_per_s=1.0)))
    desk.due(100)
    admit = one(Admit, desk.run(0.01))
    desk.engine.admitted(admit, [Refusal("rate", (1, "", ""), 0.1)] * len(admit.asked))
    assert len(one(Admit, desk.effects_until(Admit)).asked) == 1


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


def test_a_tenant_that_fills_the_wheel_leaves_room_for_others() -> None:
    desk = FairDesk(ahead=20)
    desk.claim(*(make_due(make_work(n, tenant_id=1), NOON + SECOND * 0.9) for n in range(12)))
    desk.run(0.1)
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
    desk.engine._numbered_anew([lost])
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
