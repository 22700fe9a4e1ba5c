"""Tokens in hand: when more are wanted, when there are none, and what they can do to a rate at most."""

from __future__ import annotations

import random

import pytest

from fairness.core.leases import AGAIN_S, IDLE_S, NODES, Leases, Purse, Wanted, lendable, most_of
from fairness.core.limits import LocalLimiter
from fairness.core.terms import Bound, BoundKey

WHOLE: BoundKey = (7, "", "")
TASK: BoundKey = (7, "", "send")
WIDE = Bound(rate_per_s=100.0, burst=50)


def purses(leases: Leases, *bounds: tuple[BoundKey, Bound]) -> tuple[Purse, ...]:
    found = leases.purses(bounds or [(WHOLE, WIDE)], is_seen=True)
    assert found is not None
    return found


def grant(leases: Leases, tokens: int, now: float = 0.0) -> list[Wanted]:
    wanted = leases.wanted()
    leases.granted(wanted, [tokens] * len(wanted), now)
    return wanted


def test_without_a_token_nothing_is_spent_and_some_are_wanted_once() -> None:
    leases = Leases()
    mine = purses(leases)
    assert not leases.spend(mine, 1, 0.0)
    assert not leases.spend(mine, 1, 0.0)
    assert leases.wanted() == [Wanted(WHOLE, WIDE, 0)]
    assert not leases.spend(mine, 1, 0.0)
    assert leases.wanted() == []  # it is being asked for


def test_as_many_go_as_there_are_tokens_and_more_are_wanted_once_half_of_them_are_spent() -> None:
    leases = Leases()
    mine = purses(leases)
    leases.spend(mine, 1, 0.0)
    grant(leases, 10)
    assert all(leases.spend(mine, 1, 0.1) for _ in range(4))
    assert leases.wanted() == []
    assert leases.spend(mine, 1, 0.1)
    assert leases.wanted() == [Wanted(WHOLE, WIDE, 5)]
    assert [leases.spend(mine, 1, 0.1) for _ in range(6)] == [True] * 5 + [False]


def test_a_fire_needs_a_token_of_each_of_its_rates_and_else_spends_none() -> None:
    leases = Leases()
    whole = purses(leases)
    leases.spend(whole, 1, 0.0)
    grant(leases, 10)
    both = purses(leases, (WHOLE, WIDE), (TASK, Bound(rate_per_s=200.0, burst=50)))
    assert not leases.spend(both, 1, 0.0)
    assert whole[0].left == 10
    assert [one.key for one in grant(leases, 1)] == [TASK]
    assert leases.spend(both, 1, 0.0)
    assert (both[0].left, both[1].left) == (9, 0)


def test_of_several_fires_as_many_go_as_there_are_tokens_of_each_of_their_rates() -> None:
    leases = Leases()
    both = purses(leases, (WHOLE, WIDE), (TASK, Bound(rate_per_s=200.0, burst=50)))
    assert leases.spend(both, 3, 0.0) == 0
    assert [one.key for one in leases.wanted()] == [WHOLE, TASK]
    leases.granted([Wanted(WHOLE, WIDE, 0), Wanted(TASK, both[1].bound, 0)], [10, 4], 0.0)
    assert leases.spend(both, 3, 0.1) == 3
    assert [one.key for one in leases.wanted()] == [TASK]  # of which less than half are left
    assert leases.spend(both, 3, 0.2) == 1
    assert (both[0].left, both[1].left) == (6, 0)
    assert leases.spend(both, 3, 0.3) == 0


def test_a_token_that_nobody_needs_for_a_minute_is_forgotten() -> None:
    leases = Leases()
    mine = purses(leases)
    leases.spend(mine, 1, 0.0)
    grant(leases, 10)
    assert not leases.spend(mine, 1, IDLE_S + 0.01)
    assert leases.wanted() == [Wanted(WHOLE, WIDE, 0)]


def test_whoever_gets_none_does_not_ask_again_at_once() -> None:
    leases = Leases()
    mine = purses(leases)
    leases.spend(mine, 1, 0.0)
    grant(leases, 0)
    leases.spend(mine, 1, AGAIN_S / 2)
    assert leases.wanted() == []
    leases.spend(mine, 1, AGAIN_S)
    assert leases.wanted() == [Wanted(WHOLE, WIDE, 0)]


def test_tokens_of_a_limit_that_was_changed_are_forgotten_also_those_on_their_way() -> None:
    leases = Leases()
    mine = purses(leases)
    leases.spend(mine, 1, 0.0)
    wanted = leases.wanted()
    slower = Bound(rate_per_s=50.0, burst=50)
    leases.keep_only(lambda _: slower)
    leases.granted(wanted, [10], 0.0)
    assert not leases.spend(purses(leases, (WHOLE, slower)), 1, 0.0)


def test_tokens_of_a_limit_that_stays_as_it_was_are_kept() -> None:
    leases = Leases()
    leases.spend(purses(leases), 1, 0.0)
    grant(leases, 10)
    leases.keep_only(lambda _: WIDE)
    assert leases.spend(purses(leases), 1, 0.0)


def test_of_tokens_that_come_back_together_no_more_are_in_hand_than_were_leased_at_once() -> None:
    leases = Leases()
    (mine,) = purses(leases)
    leases.spend((mine,), 1, 0.0)
    grant(leases, 10)
    for n in range(100):
        assert leases.spend((mine,), 1, 0.1 * n)
        grant(leases, 10 - mine.left, 0.1 * n)
    for _ in range(100):
        mine.give_back()
    assert mine.left == 10


def test_what_was_asked_for_under_limits_that_are_back_is_not_added_to_what_was_asked_for_since() -> None:
    leases = Leases()
    leases.spend(purses(leases), 1, 0.0)
    before = leases.wanted()
    leases.keep_only(lambda _: None)
    mine = purses(leases)
    leases.spend(mine, 1, 0.0)
    since = leases.wanted()
    for wanted in (before, since):
        leases.granted(wanted, [10], 0.0)
    assert mine[0].left == 10


@pytest.mark.parametrize(
    ("bound", "is_seen", "why"),
    [
        (Bound(rate_per_s=10.0, burst=50), True, "a tenth of a second of it is a single fire"),
        (Bound(rate_per_s=1000.0, burst=5), True, "a fifth of its burst is one"),
        (Bound(rate_per_s=100.0, burst=50, max_in_flight=4), True, "its end frees a place"),
        (Bound(rate_per_s=100.0, burst=50, max_in_flight=4, is_strict=True), False, "its slot is a row"),
        (Bound(rate_per_s=100.0, burst=50, max_in_flight=0), False, "nothing is to go"),
    ],
)
def test_under_such_a_limit_each_fire_is_asked_for(bound: Bound, is_seen: bool, why: str) -> None:
    assert Leases().purses([(WHOLE, bound)], is_seen=is_seen) is None, why


def test_whose_end_nobody_sees_needs_no_place_under_a_cap() -> None:
    bound = Bound(rate_per_s=100.0, burst=50, max_in_flight=4)
    assert Leases().purses([(WHOLE, bound)], is_seen=False)


def test_a_node_has_ten_tokens_of_a_rate_of_a_hundred_with_a_burst_of_fifty_and_more_nodes_share_forty() -> None:
    assert [most_of(WIDE, nodes) for nodes in (1, NODES, 8, 40)] == [10, 10, 5, 1]


def test_what_is_lent_leaves_half_of_the_bucket() -> None:
    assert [lendable(WIDE, tokens, 0) for tokens in (50.0, 33.5, 25.9, 10.0)] == [10, 8, 0, 0]
    assert lendable(WIDE, 50.0, 4) == 6
    assert lendable(WIDE, 50.0, 12) == 0


@pytest.mark.parametrize("seed", range(20))
def test_in_no_span_of_time_goes_more_than_the_rate_lets_through_and_what_was_in_hand(seed: int) -> None:
    rng = random.Random(seed)
    now = 1000.0
    limiter = LocalLimiter(node="n", nodes=lambda: ["n"], clock=lambda: now)
    now += 100  # its bucket is full
    leases, went = Leases(), list[float]()
    mine = purses(leases)
    for _ in range(3000):
        now += rng.choice((0.0, 0.001, 0.005, 0.02, 0.02, 1.5 * (rng.random() < 0.01)))
        if leases.spend(mine, 1, now):
            went.append(now)
        if rng.random() < 0.8:
            wanted = leases.wanted()
            leases.granted(wanted, limiter.lease(wanted), now)
    assert len(went) > 500
    for first in range(len(went)):
        for last in range(first, min(first + 200, len(went))):
            assert last - first + 1 <= 50 + 10 + 100 * (went[last] - went[first]) + 1e-6
