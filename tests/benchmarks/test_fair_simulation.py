"""What the simulation shows of sharing, in short runs; at length: python -m benchmarks.fair_simulation."""

from __future__ import annotations

import random

import pytest

from benchmarks.fair_simulation.experiments import EXPERIMENTS, PLACED, Scale, exponential, poisson, spread
from benchmarks.fair_simulation.nodes import Rules, World

SHORT = Scale(part=0.05)


@pytest.mark.parametrize("name", ["idle_slots", "alone"])
def test_its_figures_are_as_expected(name: str) -> None:
    assert [figure for figure in EXPERIMENTS[name](SHORT) if not figure.is_kept] == []


def test_nodes_that_tell_each_other_share_by_weight_and_by_themselves_they_do_not() -> None:
    alone, _ = spread(SHORT, PLACED[4], sync_s=None, slots=40)
    assert alone.done().jain(alone.weights, 3, 10) < 0.8
    together, _ = spread(SHORT, PLACED[4], sync_s=0.1, slots=40)
    workers = together.done()
    assert workers.jain(together.weights, 4, 10) > 0.998
    assert workers.worst_second(together.weights, 4, 10) >= 0.95
    assert workers.idle(4, 10) <= 0.03


@pytest.mark.parametrize(("mean_s", "round_trip_s"), [(0.01, 0.05), (0.1, 0.05), (1.0, 0.02)])
def test_the_depth_that_workers_ask_for_leaves_no_slot_idle_and_nothing_standing(
    mean_s: float, round_trip_s: float
) -> None:
    world = World(slots=6, rules=Rules(round_trip_s=round_trip_s), weights={1: 1, 2: 1})
    rng = random.Random(1)
    for tenant in (1, 2):
        world.nodes[0].flood(tenant, exponential(rng, world, tenant, mean_s))
    stood = 0
    for second in range(8, 20):
        world.run_until(second)
        stood += len(world.workers.line)
    world.run_until(20)
    assert world.done().idle(8, 20) <= 0.02
    assert stood / 12 * mean_s / 6 <= max(round_trip_s, 0.6 * mean_s)  # seconds that a request waits in the line


def test_the_depth_falls_again_when_requests_have_become_longer() -> None:
    world = World(slots=4, rules=Rules(round_trip_s=0.05), weights={1: 1})
    rng = random.Random(1)
    world.nodes[0].flood(1, exponential(rng, world, 1, 0.01))
    world.run_until(6)
    short = world.latest
    world.nodes[0].refill[1] = exponential(rng, world, 1, 0.5)
    world.run_until(60)
    assert world.latest < short / 3


def test_a_head_start_lets_who_has_just_come_go_at_once() -> None:
    latencies = []
    for head_start in (0, 2):
        rules = Rules(depth=20, round_trip_s=0.03, has_door=True, sync_s=0.05, head_start=head_start)
        world = World(slots=16, rules=rules, weights=dict.fromkeys(range(5), 1.0), nodes=4)
        rng = random.Random(1)
        for node in world.nodes:
            node.flood(0, exponential(rng, world, 0, 0.05))
        for tenant, node in enumerate(world.nodes, 1):
            poisson(rng, world, node, exponential(rng, world, tenant, 0.05, is_watched=True), per_s=4)
        world.run_until(8)
        latencies.append(sorted(world.workers.latencies)[len(world.workers.latencies) // 2])
    assert latencies[1] < latencies[0] / 1.3
