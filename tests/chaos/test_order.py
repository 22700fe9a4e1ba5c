"""Which fault comes when."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from tests.chaos.order import injections

SCENARIOS = {"1": ["a", "b", "c"], "2": ["-"], "3": ["x", "y"]}


def drawn(seed: int, n: int) -> list[tuple[str, str]]:
    return [(one.scenario, one.variant) for one in islice(injections(SCENARIOS, seed=seed), n)]


def test_all_scenarios_are_used_before_one_repeats() -> None:
    order = [scenario for scenario, _ in drawn(1, 30)]
    for begin in range(0, 30, 3):
        assert sorted(order[begin : begin + 3]) == ["1", "2", "3"]


def test_all_variants_of_a_scenario_are_used_before_one_repeats() -> None:
    variants = [variant for scenario, variant in drawn(1, 60) if scenario == "1"]
    assert Counter(variants[:3]) == Counter(variants[3:6]) == {"a": 1, "b": 1, "c": 1}


def test_a_seed_decides_order_and_details_and_another_one_otherwise() -> None:
    first, again, other = (list(islice(injections(SCENARIOS, seed=seed), 20)) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_the_order_changes_from_round_to_round() -> None:
    order = [scenario for scenario, _ in drawn(3, 60)]
    assert len({tuple(order[begin : begin + 3]) for begin in range(0, 60, 3)}) > 1
