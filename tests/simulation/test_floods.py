"""I8: while all tenants flood, each has its weight of the slots, whatever its tasks cost and on however many nodes."""

from __future__ import annotations

import pytest

from scheduling.testing.simulation.floods import Flooded


@pytest.mark.parametrize("seed", [0, 1, 4])  # of one, two and four nodes
def test_each_tenant_has_its_share_within_two_points(seed: int) -> None:
    shared = Flooded(seed, lasts_s=3.0).play()
    assert shared.problems == ()
    assert shared.idle < 0.08


def test_nodes_that_tell_each_other_nothing_are_found_out() -> None:
    (problem,) = Flooded(1, lasts_s=3.0, exchanges=False).play().problems
    assert problem.startswith("I8")
