"""When to look how those in flight stand."""

from __future__ import annotations

import pytest

from scheduling.core.run_looks import LATEST_S, PART, SOONEST_S, RunLooks


def looked(*, took_s: float = 0.001, does_anybody_wait: bool = True, still_s: float = 0.0) -> float:
    """How long it is from the end of such a look to the next."""
    looks = RunLooks()
    looks.begin(list, 10.0, is_anything_in_flight=True)
    looks.end(10.0 + took_s, does_anybody_wait=does_anybody_wait, still_s=still_s)
    return looks.next_at(is_anything_in_flight=True) - 10.0 - took_s


def test_while_somebody_waits_for_a_place_the_next_look_is_soon() -> None:
    assert looked() == pytest.approx(SOONEST_S)
    assert looked(does_anybody_wait=False) > 2 * SOONEST_S


def test_looks_take_no_more_than_a_tenth_of_the_time() -> None:
    assert looked(took_s=0.02) == pytest.approx(PART * 0.02)


def test_while_nothing_comes_and_nothing_ends_looks_are_ever_more_seldom() -> None:
    pauses = [looked(still_s=still_s) for still_s in (0.1, 1.0, 2.0, 600.0)]
    assert pauses == sorted(pauses)
    assert pauses[0] == pytest.approx(SOONEST_S)
    assert pauses[-1] == pytest.approx(LATEST_S)
