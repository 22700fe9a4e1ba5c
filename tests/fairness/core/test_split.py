"""A limit, in parts for nodes that cannot ask each other."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairness.core.split import part_of, rate_part

nodes = st.lists(st.from_regex(r"[a-z0-9-]{1,12}", fullmatch=True), min_size=1, max_size=9, unique=True)


@given(nodes, st.integers(0, 1000), st.text(max_size=9))
def test_the_parts_are_the_whole_and_differ_by_one_at_most(nodes: list[str], limit: int, tenant: str) -> None:
    parts = [part_of(limit, of=tenant, node=node, nodes=nodes) for node in nodes]
    assert sum(parts) == limit
    assert max(parts) - min(parts) <= 1


@given(nodes, st.floats(0.01, 1e6), st.integers(1, 1000))
def test_the_parts_of_a_rate_are_the_whole(nodes: list[str], per_s: float, burst: int) -> None:
    parts = [rate_part(per_s, burst, of="acme", node=node, nodes=nodes) for node in nodes]
    assert sum(rate for rate, _ in parts) == pytest.approx(per_s)
    assert sum(part for _, part in parts) == burst
    assert all((rate == 0) == (part == 0) for rate, part in parts)


def test_a_limit_of_one_lives_on_one_node_and_not_always_on_the_same() -> None:
    nodes = ["n1", "n2", "n3", "n4"]
    homes = Counter(
        node for tenant in range(400) for node in nodes if part_of(1, of=f"t{tenant}", node=node, nodes=nodes)
    )
    assert sum(homes.values()) == 400
    assert min(homes.values()) > 60


def test_it_stays_where_it_is_when_another_node_goes() -> None:
    nodes = ["n1", "n2", "n3", "n4"]
    for tenant in map(str, range(100)):
        (home,) = [node for node in nodes if part_of(1, of=tenant, node=node, nodes=nodes)]
        for gone in set(nodes) - {home}:
            assert part_of(1, of=tenant, node=home, nodes=[node for node in nodes if node != gone]) == 1


def test_a_node_that_is_not_among_them_is_refused() -> None:
    with pytest.raises(ValueError, match=r"node 'n9': is not among \['n1', 'n2'\]"):
        part_of(1, of="acme", node="n9", nodes=["n2", "n1"])
