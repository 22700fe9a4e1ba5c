"""Fair turns under limits: who is asked for, who waits for what, and what gives a place back."""

from __future__ import annotations

import pytest

from fairness.core.admission import Refusal
from fairness.core.terms import Bound
from scheduling.core.effects import (
    Admit,
    Keep,
    LetGo,
)
from scheduling.core.fire import Verdict
from tests.claims import SECOND
from tests.engine_desk import of, one, published
from tests.fair_desk import CAPPED, FairDesk, stored, terms

DEPTH = 4  # of two slots: one of them is kept from bulk where the other lane is active


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


def test_beside_many_whom_limits_hold_one_may_have_all_places() -> None:
    """They do not take what it leaves."""
    many = range(2, 42)
    desk = FairDesk(*(terms(tenant, bound=CAPPED) for tenant in many), slots=8)
    for tenant in many:
        desk.due(1, tenant=tenant)
    while asked := [each for admit in of(Admit, desk.run(0.01)) for each in admit.asked]:
        desk.engine.admitted(Admit(asked), [Refusal("cap", (fire.work.tenant_id, "", ""), 100.0) for fire, _ in asked])
    desk.due(40)
    desk.go()
    assert desk.turns.rooms["bulk"].left <= 0
    desk.turns.hold_back(desk.clock.monotonic() + 0.1, slots=8, way_s=0.1)
    assert not desk.turns.queue.is_parked(("bulk", 1))
