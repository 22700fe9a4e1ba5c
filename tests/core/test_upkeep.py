"""What the engine does for its shards from time to time: it reaps, promotes, expires."""

from __future__ import annotations

from scheduling.core.effects import Expire, Promote, ReadWaiting, Reap, Redrive, TakeAgain
from tests.engine_desk import Desk, of, one


def test_leases_of_workers_are_reaped_twice_a_second_and_history_expires_by_the_owner_of_shard_zero() -> None:
    effects = Desk(shards=(1, 2)).run(10.5)
    assert (len(of(Reap, effects)), of(Expire, effects)) == (22, [])
    assert of(Reap, effects)[0].epochs == {1: 1, 2: 1}
    assert len(of(Expire, Desk(shards=(0,)).run(119))) == 2


def test_after_some_were_reaped_it_looks_at_once_for_more_and_for_what_they_free() -> None:
    desk = Desk()
    desk.run(0.4)
    desk.engine.reaped()
    effects = desk.pass_time()
    assert (len(of(Reap, effects)), len(of(ReadWaiting, effects))) == (1, 1)


def test_a_reap_that_failed_costs_no_take_over() -> None:
    desk = Desk()
    assert desk.engine.failed(one(Reap, desk.pass_time())) == []
    assert desk.engine.shards == {1}
    assert of(TakeAgain, desk.effects) == []


def test_what_comes_near_is_promoted_each_second_and_at_once_while_there_is_more() -> None:
    desk = Desk()
    assert len(of(Promote, desk.run(10.5))) == 11
    desk.engine.promoted(more=False)
    assert of(Promote, desk.pass_time()) == []
    desk.engine.promoted(more=True)
    assert desk.engine.next_wake() <= desk.clock.monotonic()
    assert len(of(Promote, desk.pass_time())) == 1


def test_dead_letters_are_redriven_each_second_by_the_owner_of_shard_zero_alone() -> None:
    assert of(Redrive, Desk(shards=(1, 2)).run(10.5)) == []
    assert len(of(Redrive, Desk(shards=(0, 1)).run(10.5))) == 11
