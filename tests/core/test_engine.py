"""The engine's rules, one by one, on a desk: what it publishes and when, what it holds back, what it records."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from scheduling.core.due import DueJob
from scheduling.core.effects import (
    Claim,
    CountPredecessors,
    Effect,
    Publish,
    ReadDue,
    ReadWaiting,
    Reap,
    Record,
    Release,
    Settle,
)
from scheduling.core.fire import MisfirePolicy, OverlapPolicy, State, Verdict
from scheduling.core.overlap import Predecessors
from scheduling.core.waiting import Waiting
from scheduling.testing.clock import NOON, ManualClock
from tests.claims import SECOND, every, job_id, make_due, make_fire, make_work
from tests.engine_desk import Desk, of, one, published, saw


def due(number: int = 1, at_s: float = 0.0, **work: object) -> DueJob:
    return make_due(make_work(number, **work), NOON + SECOND * at_s)


def reasons(effects: list[Effect]) -> list[tuple[State, str]]:
    return [(s.state, s.reason) for settle in of(Settle, effects) for s in settle.settlements]


# -- before the publication ------------------------------------------------------------------------------------------


def test_it_looks_a_window_ahead_for_due_jobs() -> None:
    desk = Desk(shards=(1, 5), window_s=1.0, batch=77)
    assert one(ReadDue, desk.pass_time()) == ReadDue(frozenset({1, 5}), NOON + SECOND, 77)


def test_nothing_is_published_before_its_time() -> None:
    desk = Desk()
    (fire,) = desk.claim(due(at_s=0.7))
    assert published(desk.run(0.699)) == []
    assert published(desk.run(0.003)) == [fire]
    assert desk.clock.now() >= fire.fire_at


def test_in_a_time_lapse_the_wheel_turns_in_real_time_and_never_early_in_job_time() -> None:
    desk = Desk(clock=ManualClock(speed=1440))
    (fire,) = desk.claim(due(at_s=1440 * 0.5))
    assert published(desk.run(0.499)) == []
    assert published(desk.run(0.003)) == [fire]
    assert desk.clock.now() >= fire.fire_at


def test_what_fires_when_job_time_stands_still_waits_until_it_moves() -> None:
    clock = ManualClock(stops_after_s=0.5)
    desk = Desk(clock=clock)
    fire = make_fire(at=NOON + SECOND * 0.9, epoch=2)
    desk.engine.taken({1: 2}, [fire])
    assert published(desk.run(60)) == []
    clock.set_job_time(fire.fire_at)
    assert published(desk.run(1)) == [fire]


def test_without_a_lease_nothing_is_published_claimed_or_released() -> None:
    desk = Desk(window_s=5)
    desk.claim(due(at_s=2))
    desk.engine.lease_until = 1.0
    assert [type(effect) for effect in desk.run(10) if not isinstance(effect, ReadDue | ReadWaiting | Reap)] == []
    desk.engine.lease_until = 100.0
    assert len(published(desk.pass_time())) == 1


def test_what_was_read_before_the_lease_ran_out_is_not_claimed_after_it() -> None:
    desk = Desk()
    effects = desk.pass_time()
    desk.engine.lease_until = 0.5
    desk.clock.advance(1)
    read = one(ReadDue, effects)
    assert desk.engine.due_read(read, saw(read, due())) == []
    assert desk.engine.waiting_read(Waiting([make_fire(seq=0, epoch=0)])) == []
    desk.engine.lease_until = 100.0
    assert of(ReadDue, desk.pass_time()), "it looks again"


def test_predecessors_that_are_counted_after_the_lease_ran_out_publish_nothing_until_it_is_back() -> None:
    desk = Desk()
    (fire,) = desk.claim(due(overlap=OverlapPolicy.SKIP))
    count = one(CountPredecessors, desk.run(0.01))
    desk.engine.lease_until = desk.clock.monotonic()
    assert desk.engine.predecessors_counted(count, {}) == []
    desk.engine.lease_until = 100.0
    again = one(CountPredecessors, desk.run(1))
    assert published(desk.engine.predecessors_counted(again, {})) == [fire]


def test_a_fire_that_waited_too_long_for_its_first_publication_meets_its_misfire_policy() -> None:
    desk = Desk()
    desk.claim(due(misfire=MisfirePolicy.SKIP))
    desk.engine.lease_until = 0.0
    desk.run(31)
    desk.engine.lease_until = 100.0
    effects = desk.pass_time()
    assert published(effects) == []
    assert reasons(effects) == [(State.SKIPPED, "missed")]


def test_a_claim_that_is_refused_for_a_job_settles_its_number() -> None:
    desk = Desk()
    read = one(ReadDue, desk.pass_time())
    claim = one(Claim, desk.engine.due_read(read, saw(read, due(1), due(2))))
    kept, changed = (plan.rows[0].fire for plan in claim.plans)
    desk.engine.claimed(claim, {kept.id: 4})
    assert kept.fence == 4
    assert published(desk.run(0.01)) == [kept]
    desk.outcome(Verdict.CONFIRMED, kept)
    assert one(Record, desk.run(0.1)).marks == {1: changed.seq}


# -- overlap ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "ahead", "outcome"),
    [
        (OverlapPolicy.SKIP, Predecessors(0, 0), "published"),
        (OverlapPolicy.SKIP, Predecessors(1, 0), (State.SKIPPED, "overlap")),
        (OverlapPolicy.BUFFER_ONE, Predecessors(1, 0), (State.PARKED, "overlap")),
        (OverlapPolicy.BUFFER_ONE, Predecessors(2, 1), (State.SKIPPED, "buffer_full")),
        (OverlapPolicy.BUFFER_ALL, Predecessors(50, 49), (State.PARKED, "overlap")),
    ],
)
def test_a_job_that_may_not_overlap_is_dispatched_by_what_is_ahead(policy, ahead, outcome) -> None:
    desk = Desk()
    (fire,) = desk.claim(due(overlap=policy))
    effects = desk.run(0.01)
    assert published(effects) == []
    answer = desk.engine.predecessors_counted(one(CountPredecessors, effects), {fire.id: ahead} if ahead.ahead else {})
    assert published(answer) == ([fire] if outcome == "published" else [])
    assert reasons(answer) == ([] if outcome == "published" else [outcome])


def test_a_fire_that_was_asked_for_one_at_a_time_waits_though_its_job_allows_overlap() -> None:
    desk = Desk()
    row: dict[str, Any] = {"seq": 0, "epoch": 0, "origin": "backfill:7", "exclusive": True, "fire_at": NOON}
    fires = [make_fire(at=NOON + SECOND * n, **row) for n in (1, 2)]
    release = one(Release, desk.engine.waiting_read(Waiting(fires)))
    desk.note(desk.engine.released(release, {fire.id for fire in fires}))
    effects = desk.run(0.01)
    assert published(effects) == []
    answer = desk.engine.predecessors_counted(one(CountPredecessors, effects), {fires[1].id: Predecessors(8, 0)})
    assert published(answer) == [fires[0]]
    (settlement,) = one(Settle, answer).settlements
    assert (settlement.fire, settlement.state, settlement.reason) == (fires[1], State.PARKED, "overlap")
    assert settlement.wake_at is not None
    assert 3.9 < (settlement.wake_at - NOON).total_seconds() < 4.1  # the further behind, the later the next look


def test_a_count_that_failed_is_made_again_and_costs_no_take_over() -> None:
    desk = Desk()
    (fire,) = desk.claim(due(overlap=OverlapPolicy.SKIP))
    assert desk.engine.failed(one(CountPredecessors, desk.run(0.01))) == []
    again = one(CountPredecessors, desk.run(1))
    assert again.fires == [fire]


# -- what waits ------------------------------------------------------------------------------------------------------


def test_a_retry_is_numbered_anew_released_and_published_at_once() -> None:
    desk = Desk()
    read = one(ReadWaiting, desk.pass_time())
    assert (read.shards, read.now) == (frozenset({1}), NOON)
    retry = make_fire(at=NOON - SECOND * 90, seq=0, epoch=0, attempt=1, fence=2, claimed_at=0.0)
    release = one(Release, desk.engine.waiting_read(Waiting([retry])))
    assert ((retry.epoch, retry.seq), release.epochs) == ((1, 1), {1: 1})
    desk.engine.released(release, {retry.id})
    assert published(desk.pass_time(0.001)) == [retry]


def test_what_no_longer_waits_when_it_is_released_is_not_published() -> None:
    desk = Desk()
    desk.pass_time()
    release = one(Release, desk.engine.waiting_read(Waiting([make_fire(seq=0, attempt=1)])))
    desk.engine.released(release, set())
    effects = desk.run(0.1)
    assert published(effects) == []
    assert one(Record, effects).marks == {1: 1}


def test_a_fire_whose_worker_failed_before_its_confirm_came_holds_two_numbers_until_both_are_settled() -> None:
    desk = Desk()
    (first,) = desk.claim(due())
    desk.run(0.01)
    again = make_fire(seq=0, attempt=1, fence=2, claimed_at=0.0)
    desk.engine.released(one(Release, desk.engine.waiting_read(Waiting([again]))), {again.id})
    assert published(desk.pass_time(0.001)) == [again]
    desk.outcome(Verdict.CONFIRMED, again)
    assert of(Record, desk.run(0.2)) == []
    desk.outcome(Verdict.CONFIRMED, first)
    assert one(Record, desk.run(0.2)).marks == {1: 2}


# -- after the publication -------------------------------------------------------------------------------------------


def test_the_watermark_never_passes_what_is_outstanding() -> None:
    desk = Desk()
    one_, two, three = desk.claim(due(1), due(2), due(3))
    desk.run(0.01)
    desk.outcome(Verdict.CONFIRMED, three, one_)
    assert one(Record, desk.run(0.02)).marks == {1: one_.seq}
    desk.engine.recorded()
    desk.outcome(Verdict.CONFIRMED, two)
    assert one(Record, desk.run(0.1)).marks == {1: three.seq}


def test_one_record_is_under_way_at_a_time_and_at_most_one_in_fifty_milliseconds() -> None:
    desk = Desk()
    fires = desk.claim(*(due(n) for n in range(3)))
    desk.run(0.01)
    desk.outcome(Verdict.CONFIRMED, fires[0])
    assert of(Record, desk.pass_time()) != []
    desk.outcome(Verdict.CONFIRMED, fires[1])
    assert of(Record, desk.run(1)) == []
    desk.engine.recorded()
    assert of(Record, desk.run(0.049)) == []
    assert of(Record, desk.run(0.002)) != []


def test_a_nack_closes_the_gate_of_its_tenant_for_longer_and_longer_and_others_go_on() -> None:
    desk = Desk()
    full, other = desk.claim(due(1, tenant_id=1), due(2, tenant_id=2))
    desk.run(0.002)
    desk.outcome(Verdict.CONFIRMED, other)
    waits = []
    for _ in range(3):
        desk.outcome(Verdict.NACKED, full)
        refused_at = desk.clock.monotonic()
        (free,) = desk.claim(due(3, tenant_id=2))
        assert free in published(desk.run(0.002))
        desk.outcome(Verdict.CONFIRMED, free)
        while full not in published(desk.run(0.001)):
            assert desk.clock.monotonic() < refused_at + 1
        waits.append(desk.clock.monotonic() - refused_at)
    assert waits == pytest.approx([0.05, 0.1, 0.2], abs=0.003)


@pytest.mark.parametrize("verdict", [Verdict.UNSENT, Verdict.LOST])
def test_a_broken_connection_closes_the_gate_of_all_tenants(verdict: Verdict) -> None:
    desk = Desk()
    sent, _ = desk.claim(due(1, tenant_id=1), due(2, at_s=0.02, tenant_id=2))
    desk.run(0.002)
    desk.outcome(verdict, sent)
    assert published(desk.run(0.049)) == []
    assert len(published(desk.run(0.003))) == 2


def test_while_the_broker_is_gone_nothing_more_is_claimed_or_released() -> None:
    desk = Desk()
    (fire,) = desk.claim(due())
    desk.run(0.002)
    desk.outcome(Verdict.UNSENT, fire)
    desk.engine.look_now()
    effects = desk.run(0.04)
    assert of(ReadDue, effects) + of(ReadWaiting, effects) == []
    assert of(ReadDue, desk.run(0.2)) != []


def test_a_full_backlog_stops_claims_and_releases() -> None:
    desk = Desk(backlog=2)
    fires = desk.claim(due(1), due(2))
    assert len(published(desk.run(0.002))) == 2
    effects = desk.run(2)
    assert of(ReadDue, effects) + of(ReadWaiting, effects) == []
    desk.outcome(Verdict.CONFIRMED, *fires)
    assert of(ReadDue, desk.run(0.2)) != []


def test_a_fire_that_waits_over_a_second_for_its_turn_is_parked_and_lets_the_watermark_pass() -> None:
    desk = Desk()
    full, behind = desk.claim(due(1, tenant_id=1), due(2, tenant_id=2))
    desk.run(0.002)
    desk.outcome(Verdict.CONFIRMED, behind)
    settle: list[Settle] = []
    while not settle:
        settle = of(Settle, desk.outcome(Verdict.NACKED, full))
        if not settle:
            assert desk.clock.monotonic() < 2, "it was neither parked nor published again"
            while full not in published(desk.run(0.01)):
                assert desk.clock.monotonic() < 3
    (parked,) = settle[0].settlements
    assert (parked.fire, parked.state, parked.reason) == (full, State.PARKED, "turn")
    assert parked.wake_at == desk.clock.now() + timedelta(milliseconds=500)
    desk.engine.settled(settle[0])
    assert one(Record, desk.run(0.1)).marks == {1: 2}


def test_a_parked_fire_is_looked_at_again_within_half_a_real_second_also_where_job_time_stands_still() -> None:
    fast = Desk(clock=ManualClock(speed=1440))
    assert _wake_of_a_parked_fire(fast) == fast.clock.now() + timedelta(seconds=720)
    still = Desk(clock=ManualClock(stops_after_s=0.01))
    assert _wake_of_a_parked_fire(still) <= still.clock.job_time(100)


def _wake_of_a_parked_fire(desk: Desk) -> datetime:
    (fire,) = desk.claim(due(overlap=OverlapPolicy.BUFFER_ONE))
    desk.clock.advance(0.02)
    count = one(CountPredecessors, desk.pass_time())
    settle = one(Settle, desk.engine.predecessors_counted(count, {fire.id: Predecessors(1, 0)}))
    wake_at = settle.settlements[0].wake_at
    assert wake_at is not None
    return wake_at


def test_latency_is_confirmed_minus_due_in_real_time_and_leaves_retries_out() -> None:
    desk = Desk(clock=ManualClock(speed=60))
    (fire,) = desk.claim(due(at_s=30))
    desk.run(0.502)
    desk.clock.advance(0.1)
    desk.outcome(Verdict.CONFIRMED, fire)
    assert desk.engine.latency.quantile(1.0) == pytest.approx(0.102, rel=0.1)
    retry = make_fire(seq=0, attempt=1)
    desk.engine.released(one(Release, desk.engine.waiting_read(Waiting([retry]))), {retry.id})
    desk.run(0.01)
    desk.outcome(Verdict.CONFIRMED, retry)
    assert (desk.engine.latency.count, desk.engine.confirmed) == (1, 2)


def test_more_is_looked_for_at_once_while_there_may_be_more() -> None:
    desk = Desk(batch=4, poll_s=60)
    read = one(ReadDue, desk.pass_time())
    claim = one(Claim, desk.engine.due_read(read, saw(read, *(due(n) for n in range(3)))))
    assert of(ReadDue, desk.pass_time()) == [], "one claim at a time"
    desk.engine.claimed(claim, {})
    assert of(ReadDue, desk.pass_time()) != []


def test_a_hint_does_not_wait_for_the_poll() -> None:
    desk = Desk(poll_s=60)
    read = one(ReadDue, desk.pass_time())
    desk.engine.due_read(read, saw(read))
    assert of(ReadDue, desk.run(1)) == []
    desk.engine.look_now()
    assert desk.engine.next_wake() <= desk.clock.monotonic()
    assert of(ReadDue, desk.pass_time()) != []


def test_several_occurrences_of_a_fast_job_go_out_in_order() -> None:
    desk = Desk(window_s=1.0)
    desk.claim(make_due(make_work(), schedule=every(0.25)), due(9, at_s=0.6))
    order = published(desk.run(1.01))
    assert [(f.fire_at - NOON).total_seconds() for f in order] == [0, 0.25, 0.5, 0.6, 0.75, 1.0]
    assert order[3].work.job_id == job_id(9)


def test_publish_is_one_effect_for_all_that_are_due() -> None:
    desk = Desk()
    desk.claim(*(due(n) for n in range(50)))
    assert len(one(Publish, desk.run(0.002)).fires) == 50
