"""How lanes share one depth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairness.core.lanes import LaneLoad, Lanes

T, B = "transactional", "bulk"


def test_one_lane_alone_has_all() -> None:
    lanes = Lanes()
    assert lanes.depths(0.0, 20, {B: LaneLoad(20, 99)}) == {B: 20}
    assert lanes.depths(0.0, 20, {B: LaneLoad(20, 99), T: LaneLoad()})[B] == 20


def test_bulk_leaves_the_last_quarter_while_transactional_was_active_in_the_last_minute() -> None:
    lanes = Lanes()
    assert lanes.depths(0.0, 20, {B: LaneLoad(20, 99), T: LaneLoad(0, 1)})[B] == 15
    idle = {B: LaneLoad(15, 99), T: LaneLoad()}
    assert lanes.depths(59.0, 20, idle) == {B: 15, T: 5}
    assert lanes.depths(60.0, 20, idle)[B] == 20


def test_transactional_leaves_a_tenth_while_bulk_has_work_waiting() -> None:
    lanes = Lanes()
    assert lanes.depths(0.0, 20, {B: LaneLoad(0, 1), T: LaneLoad(20, 99)}) == {B: 0, T: 18}
    assert lanes.depths(0.0, 20, {B: LaneLoad(0, 1), T: LaneLoad(18, 99)}) == {B: 2, T: 18}
    assert lanes.depths(0.0, 20, {B: LaneLoad(), T: LaneLoad(20, 99)})[T] == 20


@pytest.mark.parametrize(("depth", "most"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 4), (100, 75)])
def test_of_a_small_depth_neither_takes_all_nor_nobody_any(depth: int, most: int) -> None:
    depths = Lanes().depths(0.0, depth, {B: LaneLoad(0, 1), T: LaneLoad(0, 1)})
    assert depths[B] == most
    assert 1 <= depths[T] <= depth


loads = st.builds(LaneLoad, st.integers(0, 60), st.integers(0, 9))


@given(st.integers(1, 60), loads, loads, st.lists(st.sampled_from([T, B]), max_size=80))
def test_two_that_have_enough_fill_the_depth_and_what_ends_never_makes_them_go_beyond_it(
    depth: int, bulk: LaneLoad, urgent: LaneLoad, ends: list[str]
) -> None:
    lanes = Lanes()
    now = {B: bulk.in_flight, T: urgent.in_flight}
    for lane in ends:
        before = sum(now.values())
        now[lane] = max(0, now[lane] - 1)
        for going in (T, B) * depth:
            depths = lanes.depths(0.0, depth, {name: LaneLoad(count, 1) for name, count in now.items()})
            now[going] += now[going] < depths[going]
        assert depth <= sum(now.values()) <= max(depth, before)
