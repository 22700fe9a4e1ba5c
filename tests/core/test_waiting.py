"""When an engine looks for what waits: no more often than something may have come due."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduling.core.effects import CountPredecessors, ReadWaiting, Settle
from scheduling.core.fire import OverlapPolicy
from scheduling.core.gates import Gates
from scheduling.core.outstanding import Outstanding
from scheduling.core.overlap import Predecessors
from scheduling.core.waiting import REST_S, SOONEST_S, WAIT_S, Waiting, WaitingLooks
from scheduling.testing.clock import NOON, ManualClock
from tests.claims import SECOND, make_due, make_fire, make_work
from tests.engine_desk import Desk, of, one


def looked() -> Desk:
    """Its first look is under way."""
    desk = Desk()
    one(ReadWaiting, desk.pass_time())
    return desk


def looks(desk: Desk, after_s: float) -> int:
    return len(of(ReadWaiting, desk.pass_time(after_s)))


def test_where_nothing_waits_it_looks_once_a_second() -> None:
    assert len(of(ReadWaiting, Desk().run(10.5))) == 11


def test_it_looks_as_soon_as_the_next_is_due() -> None:
    desk = looked()
    desk.engine.waiting_read(Waiting([], NOON + SECOND * 0.6))
    assert (looks(desk, 0.59), looks(desk, 0.02)) == (0, 1)


def test_what_is_due_soon_is_no_reason_to_look_all_the_time() -> None:
    desk = looked()
    desk.engine.waiting_read(Waiting([], NOON + SECOND * 0.01))
    assert (looks(desk, SOONEST_S - 0.01), looks(desk, 0.02)) == (0, 1)


@pytest.mark.parametrize(("took_s", "after_s"), [(0.0, SOONEST_S), (0.01, 0.1), (0.5, WAIT_S)])
def test_while_something_is_found_looks_take_a_tenth_of_the_time(took_s: float, after_s: float) -> None:
    desk = looked()
    desk.clock.advance(took_s)
    desk.engine.waiting_read(Waiting([make_fire(make_work(1, shard=2), seq=0)]))
    assert (looks(desk, after_s - 0.005), looks(desk, 0.01)) == (0, 1)


def test_a_hint_that_comes_during_a_look_stands() -> None:
    desk = looked()
    desk.engine.look_now()
    desk.engine.waiting_read(Waiting([]))
    assert looks(desk, 0) == 1


def test_what_it_has_parked_is_looked_for_when_its_time_comes() -> None:
    desk = Desk()
    (fire,) = desk.claim(make_due(make_work(1, overlap=OverlapPolicy.BUFFER_ALL), NOON))
    desk.engine.waiting_read(Waiting([]))
    count = one(CountPredecessors, desk.run(0.01))
    settle = one(Settle, desk.engine.predecessors_counted(count, {fire.id: Predecessors(1, 0)}))
    desk.engine.settled(settle)
    assert (looks(desk, 0.49), looks(desk, 0.02)) == (0, 1)


@pytest.mark.parametrize(("speed", "rest_s"), [(1.0, REST_S), (4.0, 0.5), (1440.0, SOONEST_S)])
def test_in_a_time_lapse_it_rests_no_longer_than_hints_reach(speed: float, rest_s: float) -> None:
    """What is due within two seconds of job time is hinted."""
    waiting = WaitingLooks(ManualClock(speed=speed), Outstanding(), Gates(), backlog=10)
    assert waiting.begin(0.0, takes_more=True)
    waiting.rest(NOON + timedelta(days=9), 0.0)
    assert waiting.next_at() == rest_s
