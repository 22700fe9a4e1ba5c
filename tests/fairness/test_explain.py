"""Why something of a tenant waits for its turn: one reason, and an expected start that is never in the past."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairness.core.terms import Bound
from fairness.explain import Gate, Pace, Place, Wait, explain

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def why(gate: Gate | None = None, *, ahead: int = 0, pace: Pace | None = None, **place: Any) -> Wait:
    return explain(
        tenant="acme",
        lane="bulk",
        place=Place(ahead=ahead, **place),
        pace=pace or Pace(),
        now=NOW,
        gate=gate,
    )


def seconds(found: Wait) -> float | None:
    return None if found.expected_at is None else (found.expected_at - NOW).total_seconds()


def test_without_a_limit_it_waits_for_its_share_behind_what_is_before_it():
    found = why(ahead=1999, rank=3, tenants=12, pace=Pace(starts_per_s=10))
    assert found.reason == "share"
    assert found.words == (
        "waits for acme's share of the workers in the bulk lane: 1,999 of its tenant's go before it; "
        "its tenant is number 3 of 12 in line"
    )
    assert seconds(found) == pytest.approx(199.95)


def test_what_has_had_its_turn_and_does_not_run_yet_is_before_it_too():
    assert seconds(why(ahead=10, pace=Pace(starts_per_s=10, queued=20))) == pytest.approx(3.05)


def test_before_any_start_was_seen_the_pace_is_its_part_of_the_slots():
    assert seconds(why(ahead=10, pace=Pace(slots=4, mean_s=2.0))) == pytest.approx(5.25)


def test_where_no_pace_is_known_nobody_can_tell():
    assert why(ahead=10).expected_at is None


def test_under_a_rate_it_starts_once_tokens_are_back_for_all_before_it():
    rate = Gate(
        reason="rate", until=NOW + timedelta(seconds=3), key=(1, "", "send"), bound=Bound(rate_per_s=5, burst=2)
    )
    found = why(rate, ahead=50, pace=Pace(starts_per_s=40))
    assert (found.reason, found.until) == ("rate", NOW + timedelta(seconds=13))
    assert found.words.startswith(
        "held by the rate of acme (send) (5 a second, burst 2): tokens for it are back at 2026-03-02"
    )
    assert seconds(found) == pytest.approx(13)


def test_a_tenant_whose_share_is_below_its_rate_goes_by_its_share():
    rate = Gate(reason="rate", until=NOW, bound=Bound(rate_per_s=100))
    assert seconds(why(rate, ahead=50, pace=Pace(starts_per_s=5))) == pytest.approx(10)


def test_a_time_that_has_passed_is_now():
    rate = Gate(reason="rate", until=NOW - timedelta(seconds=3), bound=Bound(rate_per_s=5))
    found = why(rate, ahead=0)
    assert (found.until, seconds(found)) == (NOW, 0)


def test_under_a_cap_the_holders_are_counted_and_their_ends_make_room():
    cap = Gate(reason="cap", bound=Bound(max_in_flight=4), holders=4)
    found = why(cap, ahead=7, pace=Pace(mean_s=2.0))
    assert (found.reason, found.holders) == ("cap", 4)
    assert seconds(found) == pytest.approx(3.75)
    assert "the cap of 4 on what acme has in flight: 4 are" in found.words


def test_what_nothing_may_pass_never_starts_by_itself():
    assert why(Gate(reason="cap", bound=Bound(max_in_flight=0)), pace=Pace(slots=4, mean_s=2.0)).expected_at is None
    found = why(Gate(reason="budget", until=NOW + timedelta(hours=12), daily=0), pace=Pace(starts_per_s=5))
    assert found.expected_at is None
    assert found.words == "held by the daily budget of acme, which is 0; it is the next of its tenant's"


def test_over_the_daily_budget_whole_days_pass_for_what_is_beyond_one():
    budget = Gate(reason="budget", until=NOW + timedelta(hours=12), daily=100)
    assert seconds(why(budget, ahead=250)) == 12 * 3600 + 2 * 86_400
    assert seconds(why(budget, ahead=250, pace=Pace(starts_per_s=5))) == pytest.approx(12 * 3600 + 2 * 86_400 + 10.1)


def test_a_reason_that_is_none_is_refused():
    with pytest.raises(ValueError, match="reason 'luck'"):
        why(Gate(reason="luck"))


@settings(max_examples=50)
@given(
    reason=st.sampled_from(["", "rate", "cap", "budget"]),
    ahead=st.integers(0, 100_000),
    starts=st.floats(0, 1e6),
    mean=st.floats(0, 1e6),
    slots=st.floats(0, 1e4),
    limit=st.floats(1e-9, 1e9),
    until_s=st.none() | st.floats(-1e6, 1e6),
)
def test_every_wait_has_one_reason_and_never_a_start_in_the_past(
    reason: str, ahead: int, starts: float, mean: float, slots: float, limit: float, until_s: float | None
):
    until = None if until_s is None else NOW + timedelta(seconds=until_s)
    bound = Bound(rate_per_s=limit, max_in_flight=3)
    gate = Gate(reason=reason, until=until, bound=bound, daily=7) if reason else None
    found = why(gate, ahead=ahead, pace=Pace(starts_per_s=starts, mean_s=mean, slots=slots))
    assert found.reason == (reason or "share")
    assert found.expected_at is None or found.expected_at >= NOW
    assert found.until is None or found.until >= NOW
