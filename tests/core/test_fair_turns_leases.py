"""Fair turns with tokens in hand: who goes without being asked for, and who does not."""

from __future__ import annotations

from fairness.core.admission import Refusal
from fairness.core.terms import Bound
from scheduling.core.effects import Admit, Lease, LetGo
from scheduling.core.fire import Fire, Verdict
from tests.claims import make_fire, make_work
from tests.engine_desk import of, one
from tests.fair_desk import FairDesk, terms

WIDE = Bound(rate_per_s=100.0, burst=50)


def leasing(tokens: int, *, bound: Bound = WIDE, slots: int | None = None) -> FairDesk:
    """A desk of a tenant of which one fire has gone, and so many tokens are in hand."""
    desk = FairDesk(terms(1, bound=bound), slots=slots)
    first = desk.due(1)
    effects = desk.run(0.01)
    desk.engine.admitted(one(Admit, effects), [None])
    desk.confirm(first)
    desk.engine.leased(one(Lease, effects), [tokens])
    desk.go()
    return desk


def asked(desk: FairDesk, seconds: float = 0.01) -> list[Fire]:
    return [fire for admit in of(Admit, desk.run(seconds)) for fire, _ in admit.asked]


def test_with_a_token_in_hand_a_fire_goes_without_being_asked_for() -> None:
    desk = leasing(10)
    fires = desk.due(3, first=100)
    assert desk.go() == fires
    assert of(Admit, desk.effects)[1:] == []


def test_of_more_than_there_are_tokens_the_rest_is_asked_for() -> None:
    desk = leasing(2)
    fires = desk.due(5, first=100)
    assert asked(desk) == fires[2:]
    assert desk.go() == fires[:2]


def test_of_a_tenant_of_which_something_has_to_wait_no_other_task_goes_with_a_token_either() -> None:
    desk = leasing(2)
    works = [make_work(number, tenant_id=1, task=f"task-{number % 2}") for number in range(6)]
    now = desk.clock.monotonic()
    fires = [make_fire(work) for work in works]
    assert desk.turns.go(fires, now) == [fires[0], fires[2]]
    for purse in desk.turns.terms.leases.purses([((1, "", ""), WIDE)], is_seen=True) or ():
        purse.left = 2
    assert desk.turns.go([make_fire(make_work(7, tenant_id=1, task="task-2"))], now) == []
    assert desk.turns.waiting == 5


def test_tokens_that_run_low_are_asked_for_again_at_once() -> None:
    desk = leasing(4)
    desk.due(2, first=100)
    (wanted,) = one(Lease, desk.effects_until(Lease)).wanted
    assert wanted.in_hand == 2


def test_nobody_goes_before_one_of_its_tenant_that_waits() -> None:
    desk = leasing(0)
    waits = desk.due(1, first=100)
    admit = one(Admit, desk.run(0.01))
    desk.engine.admitted(admit, [Refusal("rate", (1, "", ""), 0.5)])
    desk.turns.terms.leases.granted(of(Lease, desk.effects)[0].wanted, [10], desk.clock.monotonic())
    later = desk.due(1, first=200)
    assert desk.go(0.4) == []
    assert desk.go(0.2) == [*waits, *later]


def test_whose_turn_comes_goes_with_a_token_in_hand_where_lanes_have_bounds() -> None:
    desk = leasing(10, slots=8)
    fires = desk.due(3, first=100)
    assert desk.go() == fires
    assert of(Admit, desk.effects)[1:] == []


def test_a_token_of_a_fire_that_the_broker_refused_is_in_hand_again() -> None:
    desk = leasing(4, slots=8)
    fires = desk.due(1, first=100)
    assert desk.go() == fires
    (purse,) = desk.turns.terms.tokens(("bulk", 1, fires[0].work.task), desk.clock.monotonic()) or ()
    left = purse.left
    desk.outcome(Verdict.NACKED, *fires)
    assert purse.left == left + 1
    assert of(LetGo, desk.run(0.001)) == []


def test_of_a_cap_each_fire_is_asked_for() -> None:
    desk = FairDesk(terms(1, bound=Bound(rate_per_s=100.0, burst=50, max_in_flight=40)))
    fires = desk.due(2)
    assert asked(desk) == fires
    assert of(Lease, desk.effects) == []


def test_after_a_change_of_its_rate_what_was_in_hand_is_gone() -> None:
    desk = leasing(10)
    desk.set_terms(terms(1, bound=Bound(rate_per_s=50.0, burst=50)))
    fires = desk.due(2, first=100)
    assert asked(desk) == fires


def test_fires_that_go_with_a_token_are_counted_as_starts_of_their_tenant() -> None:
    desk = leasing(10)
    desk.turns.told(desk.clock.monotonic())
    desk.due(3, first=100)
    desk.go()
    (row,) = [row for row in desk.turns.told(desk.clock.monotonic()) if row.tenant_id == 1]
    assert row.starts == 3


def test_nobody_goes_before_one_of_its_tenant_that_is_being_asked_for() -> None:
    desk = leasing(1)
    first, *asked_for = desk.due(2, first=100)
    assert asked(desk) == asked_for
    assert desk.go() == [first]
    (purse,) = desk.turns.terms.leases.purses([((1, "", ""), WIDE)], is_seen=True) or ()
    purse.left = 5
    desk.due(1, first=200)
    assert desk.go() == []
