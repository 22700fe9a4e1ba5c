"""How many may be in flight at once."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairness.core.caps import Cap


def test_it_admits_up_to_its_limit() -> None:
    cap = Cap(2, lease_s=10)
    assert [cap.admit(member, 0.0) for member in "abc"] == [True, True, False]
    assert cap.opens_at(0.0) == 10.0
    assert cap.leave("a")
    assert cap.opens_at(0.0) == 0.0


def test_one_who_is_in_already_is_admitted_again_and_counts_once() -> None:
    cap = Cap(1, lease_s=10)
    assert cap.admit("a", 0.0)
    assert cap.admit("a", 5.0)
    assert (len(cap), cap.opens_at(9.0)) == (1, 15.0)


def test_a_full_cap_names_a_time_that_is_not_after_the_next_end_and_at_that_time_the_next_one() -> None:
    cap = Cap(1, lease_s=10)
    cap.admit("a", 0.0)
    assert cap.opens_at(1.0) == 10.0
    cap.leave("a")
    cap.admit("b", 5.0)
    assert 6.0 < cap.opens_at(6.0) <= 15.0
    assert cap.opens_at(10.0) == 15.0
    cap.leave("b")
    cap.limit = 0
    assert cap.opens_at(11.0) == inf
    cap.limit = 1
    cap.admit("c", 12.0)
    assert 13.0 < cap.opens_at(13.0) <= 22.0
    assert cap.opens_at(15.0) == 22.0


def test_leaving_twice_is_leaving_once() -> None:
    cap = Cap(2, lease_s=10)
    cap.admit("a", 0.0)
    cap.admit("b", 0.0)
    cap.leave("a")
    cap.leave("a")
    cap.undo("a")
    assert len(cap) == 1


def test_who_does_not_renew_is_dropped() -> None:
    cap = Cap(2, lease_s=10)
    cap.admit("a", 0.0)
    cap.admit("b", 0.0)
    cap.renew(["b", "never in"], 9.0)
    assert cap.admit("c", 10.0)
    assert ("a" in cap, "b" in cap, "never in" in cap) == (False, True, False)
    assert cap.drop_ended(20.0) == ["b", "c"]


def test_a_limit_below_what_is_in_flight_throws_nobody_out() -> None:
    cap = Cap(3, lease_s=10)
    for member in "abc":
        cap.admit(member, 0.0)
    cap.limit = 1
    assert len(cap) == 3
    cap.leave("a")
    cap.leave("b")
    assert not cap.admit("d", 1.0)
    cap.leave("c")
    assert cap.admit("d", 1.0)


def test_a_limit_of_none_admits_nobody() -> None:
    cap = Cap(0, lease_s=10)
    assert cap.opens_at(5.0) == inf
    assert not cap.admit("a", 5.0)


@pytest.mark.parametrize("limit", [-1, nan])
def test_an_absurd_limit_is_refused(limit: int) -> None:
    with pytest.raises((ValueError, TypeError), match="limit .*: must be at least 0|int object expected"):  # compiled
        Cap(limit, lease_s=10)


@pytest.mark.parametrize("lease_s", [0, -1, nan])
def test_an_absurd_lease_is_refused(lease_s: float) -> None:
    with pytest.raises(ValueError, match="lease_s .*: must be above 0"):
        Cap(1, lease_s=lease_s)


@given(
    st.integers(0, 4),
    st.lists(
        st.tuples(st.sampled_from(["admit", "leave", "renew"]), st.integers(0, 7), st.integers(0, 6)), max_size=80
    ),
)
def test_never_more_than_the_limit_are_in(limit: int, steps: list[tuple[str, int, int]]) -> None:
    cap, now = Cap(limit, lease_s=10), 0.0
    model: dict[int, float] = {}
    for what, member, wait in steps:
        now += wait
        model = {each: end for each, end in model.items() if end > now}
        if what == "admit":
            room = member in model or len(model) < limit
            # one whose lease has just ended may still be in, as long as nobody needs the place
            assert cap.admit(member, now) == (room or member in cap)
            if room:
                model[member] = now + 10
        elif what == "leave":
            cap.leave(member)
            model.pop(member, None)
        else:
            cap.drop_ended(now)
            cap.renew([member], now)
            if member in model:
                model[member] = now + 10
        assert len(model) <= limit
        assert set(model) <= {each for each in range(8) if each in cap}
