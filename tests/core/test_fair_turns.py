"""Fair turns, one by one: who goes when there is room, who waits and where, and what ends a turn."""

from __future__ import annotations

import pytest

from scheduling.core.effects import (
    LookAtRuns,
    ReadDue,
    Release,
    Settle,
)
from scheduling.core.fire import Lane, State
from scheduling.core.turn import FairLimits
from scheduling.core.waiting import Waiting
from tests.claims import SECOND, make_fire
from tests.engine_desk import of, one
from tests.fair_desk import FairDesk, stored, terms

DEPTH = 4  # of two slots: one of them is kept from bulk where the other lane is active


def tenants(fires: list) -> list[int]:
    return [fire.work.tenant_id for fire in fires]


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


def test_a_tenant_of_which_enough_waits_is_left_out_of_looks() -> None:
    desk = FairDesk(slots=2)
    desk.due(40)
    desk.confirm(desk.go())
    desk.run(0.1)
    desk.engine.look_now()
    read = one(ReadDue, desk.effects_until(ReadDue))
    assert read.full == {1}
