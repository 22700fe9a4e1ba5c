"""How the depth of a lane is shared among nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairness.core.exchange import Row
from fairness.core.places import TURN, share_out


def row(
    tenant: int,
    tag: float = 0.0,
    *,
    waiting: int = 1000,
    in_flight: int = 0,
    weight: float = 1.0,
    cost: float = 1.0,
    way: float = 0.0,
) -> Row:
    return Row(tenant, tag, weight, cost, waiting, in_flight, way)


def test_equal_tenants_on_two_nodes_come_to_have_as_much_in_flight() -> None:
    flights = {"n1": 24, "n2": 8}
    for _ in range(20):
        nodes = {"n1": [row(1, in_flight=flights["n1"])], "n2": [row(2, in_flight=flights["n2"])]}
        flights = share_out(32, nodes, flights)
    assert flights == pytest.approx({"n1": 16, "n2": 16}, abs=1)


def test_all_that_comes_free_goes_to_one_that_is_far_behind() -> None:
    nodes = {"n1": [row(1, 5000.0, in_flight=24)], "n2": [row(2, 50.0, in_flight=8)]}
    assert share_out(32, nodes, {"n1": 24, "n2": 8}) == {"n1": 12, "n2": 20}


def test_one_that_is_a_little_behind_has_a_little_more() -> None:
    nodes = {"n1": [row(1, 60.0)], "n2": [row(2, 40.0)]}
    targets = share_out(100, nodes, {})
    assert 45 <= targets["n1"] < targets["n2"] <= 55


def test_what_does_not_divide_goes_to_those_that_are_furthest_behind() -> None:
    nodes = {"n1": [row(1, 0.2)], "n2": [row(2, 0.0)], "n3": [row(3, 0.1)]}
    assert share_out(5, nodes, {}) == {"n1": 1, "n2": 2, "n3": 2}


def test_one_of_little_weight_that_is_ahead_gives_up_even_its_last_place() -> None:
    nodes = {"n1": [row(1, 9000.0, weight=0.1, in_flight=1)], "n2": [row(2, in_flight=31)]}
    assert share_out(32, nodes, {"n1": 1, "n2": 31}) == {"n1": 0, "n2": 32}


def test_what_comes_free_is_shared_by_weight() -> None:
    nodes = {"n1": [row(1, weight=1)], "n2": [row(2, weight=3)]}
    assert share_out(32, nodes, {}) == pytest.approx({"n1": 8, "n2": 24})


def test_a_tenant_whose_requests_are_short_beside_the_way_has_the_more_places() -> None:
    nodes = {"n1": [row(1, cost=0.02, way=0.06)], "n2": [row(2, cost=0.1, way=0.06)]}
    assert share_out(56, nodes, {}) == pytest.approx({"n1": 40, "n2": 16}, abs=1)  # as 1 + 3 is to 1 + 0.6


def test_a_tenant_on_two_nodes_has_its_weight_once() -> None:
    nodes = {"n1": [row(1), row(2)], "n2": [row(1)]}
    assert share_out(32, nodes, {}) == pytest.approx({"n1": 24, "n2": 8})


def test_a_tenant_that_has_little_waiting_leaves_the_rest_to_others() -> None:
    nodes = {"n1": [row(1, waiting=2)], "n2": [row(2)]}
    assert share_out(32, nodes, {}) == pytest.approx({"n1": 2, "n2": 30})


def test_one_that_is_behind_is_not_kept_from_going_by_what_its_node_has_in_flight() -> None:
    """Nine of others are under way on its node, which have nothing waiting: these places it keeps."""
    nodes = {"n1": [row(1, 5.0, waiting=3, in_flight=1)], "n2": [row(2, 9.0, in_flight=22)]}
    targets = share_out(32, nodes, {"n1": 10, "n2": 22})
    assert targets["n1"] == pytest.approx(13)
    assert targets["n2"] == pytest.approx(19)


def test_where_more_is_in_flight_than_the_depth_nobody_has_more_coming() -> None:
    nodes = {"n1": [row(1, in_flight=30)], "n2": [row(2, in_flight=30)]}
    targets = share_out(8, nodes, {"n1": 30, "n2": 30})
    assert targets["n1"] == targets["n2"] < 30


def test_nothing_that_waits_has_nothing_coming() -> None:
    assert share_out(8, {"n1": [], "n2": []}, {"n1": 3}) == {"n1": 3, "n2": 0}


rows = st.builds(
    Row,
    tenant_id=st.integers(1, 6),
    tag=st.floats(-1e6, 1e6),
    weight=st.floats(0.001, 10_000),
    cost=st.floats(1e-6, 1e4),
    waiting=st.integers(0, 1000),
    in_flight=st.integers(0, 50),
    way=st.floats(0, 1e4),
)


@given(st.integers(0, 1000), st.dictionaries(st.sampled_from("abcd"), st.lists(rows, max_size=6), min_size=1))
def test_no_node_has_less_than_is_left_of_its_own_nor_more_than_it_can_use(
    depth: int, nodes: dict[str, list[Row]]
) -> None:
    in_flight = {node: sum(row.in_flight for row in found) for node, found in nodes.items()}
    targets = share_out(depth, nodes, in_flight)
    for node, found in nodes.items():
        assert int((1 - TURN) * in_flight[node]) <= targets[node]
        assert targets[node] <= in_flight[node] + sum(row.waiting for row in found)
    assert sum(targets.values()) <= max(depth, (1 - TURN) * sum(in_flight.values()))
