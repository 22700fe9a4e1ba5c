from __future__ import annotations

import importlib.util
from collections import Counter

import pytest

from benchmarks.catalogue import BENCHMARKS, CAPACITY, Benchmark
from benchmarks.summary import LATENCY, OTHER_PEERS, PEERS, PUBLISHER


def test_a_share_of_the_capacity_becomes_a_number():
    benchmark = Benchmark("x", "benchmarks.x", "--rate 80% --seconds 30")
    assert benchmark.arguments(quick=False, capacity=12_345) == ["--rate", "9876", "--seconds", "30"]


def test_a_share_of_an_unknown_capacity_is_refused():
    with pytest.raises(ValueError, match="80% of the capacity: fire_path has not measured it"):
        Benchmark("x", "benchmarks.x", "--rate 80%").arguments(quick=False, capacity=None)


def test_names_are_unique_and_the_programs_exist():
    assert max(Counter(benchmark.name for benchmark in BENCHMARKS).values()) == 1
    assert [each.module for each in BENCHMARKS if importlib.util.find_spec(each.module) is None] == []


def test_the_last_line_finds_its_figures():
    names = {benchmark.name for benchmark in BENCHMARKS}
    assert {CAPACITY, PUBLISHER, *LATENCY, *PEERS, *OTHER_PEERS} <= names


def test_a_quick_run_has_what_the_last_line_needs():
    quick = {benchmark.name for benchmark in BENCHMARKS if benchmark.quick is not None}
    assert {CAPACITY, PUBLISHER, LATENCY[0], *PEERS} <= quick
