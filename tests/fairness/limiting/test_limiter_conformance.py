"""What every limiter does, whatever keeps its state."""

from __future__ import annotations

import pytest

from fairness.core.admission import CAP, RATE, Limiter
from fairness.core.leases import Wanted
from fairness.core.limits import LEASE_S
from fairness.core.terms import Bound
from tests.fairness.limiting.asked import LANE, TASK, WHOLE, admit, cap, count, rate, requests
from tests.fairness.limiting.conftest import Clock


def test_after_a_rest_a_burst_goes_and_then_one_at_each_interval(limiter: Limiter, clock: Clock) -> None:
    assert admit(limiter, "abcd", rate(10, 3)) == ["", "", "", RATE]
    clock.sleep(0.05)
    assert admit(limiter, "d", rate(10, 3)) == [RATE]
    clock.sleep(0.06)
    assert admit(limiter, "de", rate(10, 3)) == ["", RATE]


def test_a_rate_names_the_moment_at_which_to_ask_again(limiter: Limiter, clock: Clock) -> None:
    admit(limiter, "ab", rate(4, 2))
    clock.sleep(0.1)
    (refusal,) = limiter.admit(requests("c", rate(4, 2)))
    assert refusal is not None
    assert refusal.key == WHOLE
    assert refusal.after_s == pytest.approx(0.15, abs=1e-5)
    assert refusal.after_s is not None
    clock.sleep(refusal.after_s)
    assert admit(limiter, "c", rate(4, 2)) == [""]


def test_as_many_are_in_flight_as_the_cap_allows(limiter: Limiter) -> None:
    assert admit(limiter, "abc", cap(2)) == ["", "", CAP]
    limiter.leave(requests("a", cap(2)))
    assert admit(limiter, "cd", cap(2)) == ["", CAP]
    limiter.leave(requests("a", cap(2)))  # again, which frees nothing
    assert admit(limiter, "d", cap(2)) == [CAP]


def test_a_cap_of_none_admits_nobody(limiter: Limiter) -> None:
    assert admit(limiter, "a", cap(0)) == [CAP]


def test_a_cap_that_is_full_is_asked_again_when_one_has_left(limiter: Limiter, clock: Clock) -> None:
    admit(limiter, "a", cap(1))
    (refusal,) = limiter.admit(requests("b", cap(1)))
    assert refusal is not None
    assert refusal.after_s is None
    clock.sleep(LEASE_S - 0.5)
    (refusal,) = limiter.admit(requests("b", cap(1)))
    assert refusal is not None
    assert refusal.after_s == pytest.approx(0.5, abs=1e-5)


def test_a_refusal_spends_nothing(limiter: Limiter) -> None:
    both = [*cap(1), *rate(1, 2, key=LANE)]
    assert admit(limiter, "ab", both) == ["", CAP]
    assert admit(limiter, "cd", rate(1, 2, key=LANE)) == ["", RATE]  # b has not spent the second token

    rates = [*rate(1, 2, key=TASK), *rate(1, 1, key=(7, "bulk", "other"))]
    assert admit(limiter, "ef", rates) == ["", RATE]
    assert admit(limiter, "gh", rate(1, 2, key=TASK)) == ["", RATE]

    capped = [*cap(2, key=(8, "", "")), *rate(1, 1, key=(8, "bulk", ""))]
    assert admit(limiter, "ij", capped) == ["", RATE]
    assert admit(limiter, "kl", cap(2, key=(8, "", ""))) == ["", CAP]  # j has not taken the second place


def test_caps_are_asked_before_rates_and_the_widest_bound_first(limiter: Limiter) -> None:
    bounds = [(WHOLE, Bound(rate_per_s=1.0)), (LANE, Bound(max_in_flight=1)), (TASK, Bound(max_in_flight=1))]
    assert admit(limiter, "a", bounds) == [""]
    (refusal,) = limiter.admit(requests("b", bounds))
    assert refusal is not None
    assert (refusal.reason, refusal.key) == (CAP, LANE)


def test_whoever_is_in_is_admitted_again_and_spends_nothing(limiter: Limiter) -> None:
    both = [(WHOLE, Bound(rate_per_s=1.0, burst=2, max_in_flight=2))]
    assert admit(limiter, "aabab", both) == ["", "", "", "", ""]
    assert admit(limiter, "ac", both) == ["", CAP]


def test_whoever_did_not_go_gives_its_tokens_back(limiter: Limiter) -> None:
    both = [(WHOLE, Bound(rate_per_s=1.0, burst=2, max_in_flight=9))]
    assert admit(limiter, "abc", both) == ["", "", RATE]
    limiter.leave(requests("a", both), unspent=True)
    limiter.leave(requests("a", both), unspent=True)
    assert admit(limiter, "cd", both) == ["", RATE]
    limiter.leave(requests("b", both))
    assert admit(limiter, "d", both) == [RATE]


def test_whoever_was_held_has_no_token_to_give_back(limiter: Limiter) -> None:
    assert count(limiter, "a", rate(1, 1)) == 1
    limiter.hold(requests("b", rate(1, 1)))
    limiter.leave(requests("b", rate(1, 1)), unspent=True)
    assert admit(limiter, "c", rate(1, 1)) == [RATE]


def test_whoever_is_held_is_in_above_the_cap_and_nobody_enters_until_enough_have_left(limiter: Limiter) -> None:
    limiter.hold(requests("abc", cap(2)))
    assert admit(limiter, "ad", cap(2)) == ["", CAP]
    limiter.leave(requests("ab", cap(2)))
    assert admit(limiter, "de", cap(2)) == ["", CAP]


def test_a_member_that_nobody_holds_any_more_is_let_go(limiter: Limiter, clock: Clock) -> None:
    admit(limiter, "ab", cap(2))
    clock.sleep(LEASE_S - 1)
    limiter.hold(requests("a", cap(2)))
    assert admit(limiter, "c", cap(2)) == [CAP]
    clock.sleep(2)
    assert admit(limiter, "cd", cap(2)) == ["", CAP]


def test_what_is_leased_is_spent_and_at_most_half_of_a_bucket_is(limiter: Limiter, clock: Clock) -> None:
    ((key, bound),) = rate(100, 50)
    assert limiter.lease([Wanted(key, bound, 4), Wanted(LANE, bound, 0)]) == [6, 10]
    assert count(limiter, range(50), rate(100, 50)) == 44
    assert limiter.lease([Wanted(key, bound, 0)]) == [0]
    clock.sleep(0.2801)
    assert limiter.lease([Wanted(key, bound, 0)]) == [3]
    assert count(limiter, range(100, 150), rate(100, 50)) == 25


def test_another_limit_counts_at_once(limiter: Limiter, clock: Clock) -> None:
    assert count(limiter, range(5), cap(5)) == 5
    assert admit(limiter, "x", cap(2)) == [CAP]  # below what is in flight
    assert count(limiter, "xy", cap(6)) == 1

    assert count(limiter, range(8), rate(10, 10, key=LANE)) == 3 + 5  # five are in already
    assert count(limiter, range(100, 120), rate(100, 20, key=LANE)) == 17  # what was spent stays spent
    assert count(limiter, "z", rate(1, 2, key=LANE)) == 0  # it is empty, and not in debt
    clock.sleep(1.001)
    assert count(limiter, "zw", rate(1, 2, key=LANE)) == 1


def test_bounds_of_other_tenants_lanes_and_tasks_are_other_limits(limiter: Limiter) -> None:
    for n, key in enumerate([(7, "", ""), (7, "bulk", ""), (7, "", "bulk"), (7, "bulk", "bulk"), (77, "", "")]):
        assert count(limiter, [f"{n}a", f"{n}b"], cap(1, key=key)) == 1


def test_whoever_has_no_limit_goes(limiter: Limiter) -> None:
    assert admit(limiter, "ab", []) == ["", ""]
    assert admit(limiter, "cd", [(WHOLE, Bound())]) == ["", ""]


def test_thousands_are_asked_at_once_in_their_order(limiter: Limiter) -> None:
    both = [(WHOLE, Bound(rate_per_s=1.0, burst=1700, max_in_flight=1800))]
    assert admit(limiter, range(2000), both) == [""] * 1700 + [RATE] * 300
    limiter.hold(requests(range(3000), both))
    limiter.leave(requests(range(2999), both))
    assert admit(limiter, ["x"], cap(2)) == [""]
    assert admit(limiter, ["y"], cap(2)) == [CAP]
