"""The figures that a model can show: each beside what is expected of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from benchmarks.fair_simulation.nodes import Node, Rules, World
from benchmarks.fair_simulation.workers import Request

Maker = Callable[[], Request]


@dataclass(frozen=True, slots=True)
class Scale:
    """How long it is simulated, as a part of a full run; and from which random numbers."""

    part: float = 1.0
    seed: int = 1

    def seconds(self, full: float, *, least: int = 5) -> int:
        return max(least, round(full * self.part))

    def rng(self, name: str) -> random.Random:
        return random.Random(f"{self.seed} {name}")


@dataclass(frozen=True, slots=True)
class Figure:
    """``is_kept``: within what is allowed."""

    name: str
    measured: float
    expected: str
    is_kept: bool


def near(name: str, measured: float, expected: float, within: float) -> Figure:
    return Figure(name, measured, f"{expected:g} ± {within:g}", abs(measured - expected) <= within)


def at_least(name: str, measured: float, least: float) -> Figure:
    return Figure(name, measured, f"≥ {least:g}", measured >= least)


def at_most(name: str, measured: float, most: float) -> Figure:
    return Figure(name, measured, f"≤ {most:g}", measured <= most)


def percentile(values: list[float], percent: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


def exponential(rng: random.Random, world: World, tenant: int, mean_s: float, *, is_watched: bool = False) -> Maker:
    """Requests of this tenant, whose durations are so distributed."""
    for node in world.nodes:
        node.mean_s[tenant] = mean_s

    def make() -> Request:
        return Request(tenant, rng.expovariate(1 / mean_s) + 1e-6, world.events.now, is_watched=is_watched)

    return make


def poisson(rng: random.Random, world: World, node: Node, make: Maker, *, per_s: float) -> None:
    """They come at any time, so many a second in the mean."""

    def come() -> None:
        node.offer(make())
        node.pump()
        world.events.after(rng.expovariate(per_s), come)

    world.events.after(rng.expovariate(per_s), come)


PLACED = {1: (20,), 4: (10, 5, 3, 2), 8: (20, 8, 4, 3, 2, 1, 1, 1)}  # tenants on each node, by the number of nodes


# -- what decides -----------------------------------------------------------------------------------------------------

FLOOD, LIGHT = 1, 2


def fifo_in_front(scale: Scale) -> list[Figure]:
    """1. What is released waits in a line: a light tenant beside a flood, by how much is released."""
    slots, mean_s = 50, 0.1
    figures = []
    for times, expected, within in ((1, 9, 3), (2, 134, 15), (5, 460, 40)):
        rng = scale.rng("fifo")
        world = World(slots=slots, rules=Rules(depth=times * slots), weights={FLOOD: 1, LIGHT: 1})
        node = world.nodes[0]
        node.flood(FLOOD, exponential(rng, world, FLOOD, mean_s))
        poisson(rng, world, node, exponential(rng, world, LIGHT, mean_s, is_watched=True), per_s=10)
        world.run_until(scale.seconds(200, least=120))
        p99 = percentile(world.workers.latencies, 99) * 1000
        figures.append(near(f"start p99 of a light tenant, ms, D = {times} C", p99, expected, within))
    return figures


def idle_slots(scale: Scale) -> list[Figure]:
    """2. Released and seen to be over 20 ms apart: what stands idle with D = C, and with what the workers report."""
    found = {}
    for name, depth in {"fixed": 50, "adaptive": None}.items():
        rng = scale.rng("idle")
        world = World(slots=50, rules=Rules(depth=depth, round_trip_s=0.02), weights={FLOOD: 1, LIGHT: 1})
        world.nodes[0].flood(FLOOD, exponential(rng, world, FLOOD, 0.1))
        world.nodes[0].flood(LIGHT, exponential(rng, world, LIGHT, 0.1))
        until = scale.seconds(60, least=20)
        world.run_until(until)
        found[name] = world.done().idle(10, until)
        if depth is None:
            stand_s = len(world.workers.line) * 0.1 / 50
    return [
        near("idle slots, D = C", found["fixed"], 0.17, 0.02),
        at_most("idle slots, adaptive D", found["adaptive"], 0.02),
        at_most("wait in the line, adaptive D, of a mean request", stand_s / 0.1, 0.3),
    ]


def shares_of_time(scale: Scale) -> list[Figure]:
    """3. Weights 1 : 2 : 5, the first tenant's requests ten times as long."""
    weights = {1: 1.0, 2: 2.0, 3: 5.0}
    cases: Mapping[str, tuple[Rules, Mapping[int, float], tuple[float, ...]]] = {
        "round robin": (Rules(depth=8, cost=1.0), dict.fromkeys(weights, 1.0), (0.84, 0.08, 0.08)),
        "every request costs 1": (Rules(depth=8, cost=1.0), weights, (0.59, 0.12, 0.30)),
        "estimated and settled": (Rules(depth=8, learns=True), weights, (0.127, 0.250, 0.624)),
    }
    figures = []
    for name, (rules, given, expected) in cases.items():
        rng = scale.rng("shares")
        world = World(slots=8, rules=rules, weights=given)
        for tenant in weights:
            world.nodes[0].flood(tenant, exponential(rng, world, tenant, 1.0 if tenant == 1 else 0.1))
        until = scale.seconds(600, least=120)
        world.run_until(until)
        shares = world.done().shares(20, until)
        within = 0.02 if name == "estimated and settled" else 0.04
        for tenant, share in zip(weights, expected, strict=True):
            figures.append(near(f"share of tenant {tenant}, {name}", shares[tenant], share, within))
    return figures


def over_nodes(scale: Scale) -> list[Figure]:
    """4. Eight nodes; each tenant lies on one of them: on the first half of all, on the last one.

    What nodes by themselves give depends on where tenants lie. Each serves an eighth; so of n tenants, of weight W in
    all, on each node Jain's index is (Σ n/W)² ÷ (Σ n × Σ n/W²). As these lie that is 0.376 where all weigh the same,
    and 0.28 to 0.5 where weights are drawn.
    """
    equal, until = spread(scale, PLACED[8], sync_s=None, weights=(1.0,))
    index = equal.done().jain(equal.weights, 5, until)
    figures = [near("Jain's index, 8 nodes, each by itself, equal weights", index, 0.38, 0.02)]
    for name, sync_s, worst in (("local", None, 0.0), ("sync 250 ms", 0.25, 0.97), ("sync 50 ms", 0.05, 0.99)):
        world, until = spread(scale, PLACED[8], sync_s=sync_s)
        workers = world.done()
        index = workers.jain(world.weights, 5, until)
        if sync_s is None:
            figures.append(at_most("Jain's index, 8 nodes, each by itself", index, 0.5))
            continue
        figures.append(at_least(f"Jain's index, 8 nodes, {name}", index, 0.9995))
        figures.append(at_least(f"worst second, 8 nodes, {name}", workers.worst_second(world.weights, 5, until), worst))
        if sync_s < 0.1:
            figures.append(at_most(f"idle slots, 8 nodes, {name}", workers.idle(5, until), 0.02))
    return figures


def spread(
    scale: Scale,
    placed: Sequence[int],
    *,
    sync_s: float | None,
    slots: int = 150,
    weights: Sequence[float] = (1.0, 2.0, 3.0),
) -> tuple[World, int]:
    """Run so many tenants on each node, each of one of these weights; all of them have work all the while."""
    rng = scale.rng("nodes")
    drawn = {tenant: rng.choice(weights) for tenant in range(sum(placed))}
    world = World(slots=slots, rules=Rules(round_trip_s=0.004, sync_s=sync_s), weights=drawn, nodes=len(placed))
    tenants = iter(drawn)
    for node, count in zip(world.nodes, placed, strict=True):
        for tenant in islice(tenants, count):
            node.flood(tenant, exponential(rng, world, tenant, 0.05))
    until = scale.seconds(60, least=10)
    world.run_until(until)
    return world, until


# -- targets ----------------------------------------------------------------------------------------------------------


def any_number_of_tenants(scale: Scale) -> list[Figure]:
    """All have work all the while: weights from 1 to 50, requests of 10 ms to 10 s."""
    figures = []
    for count in (2, 100, 1000) if scale.part == 1 else (2, 50):
        rng = scale.rng(f"tenants {count}")
        weights = {tenant: rng.uniform(1, 50) for tenant in range(count)}
        slots = max(64, count // 4)
        world = World(slots=slots, rules=Rules(depth=slots, learns=True), weights=weights)
        for tenant in weights:
            mean_s = 10 ** rng.uniform(-2, -1 if count > 2 else 1)
            world.nodes[0].flood(tenant, exponential(rng, world, tenant, mean_s))
        until = 70
        world.run_until(until)
        figures.append(at_least(f"Jain's index, {count} tenants", world.done().jain(weights, 10, until), 0.999))
    return figures


def four_nodes(scale: Scale) -> list[Figure]:
    """The same shares with one node and with four, and after a weight has changed."""
    figures = []
    for nodes in (1, 4):
        world, until = spread(scale, PLACED[nodes], sync_s=0.1)
        before = dict(world.weights)
        world.set_weight(0, world.weights[0] * 8)
        world.run_until(until + 6)
        workers = world.done()
        figures.append(at_least(f"Jain's index, nodes: {nodes}", workers.jain(before, 5, until), 0.999))
        figures.append(at_least(f"worst second, nodes: {nodes}", workers.worst_second(before, 5, until), 0.95))
        due = world.weights[0] / sum(world.weights.values())
        share = workers.shares(until + 2, until + 5)[0]
        figures.append(near(f"2 s after its weight has changed, nodes: {nodes}: share over due", share / due, 1, 0.05))
    return figures


def alone(scale: Scale) -> list[Figure]:
    """One tenant of little weight has the pool to itself."""
    rng = scale.rng("alone")
    rules = Rules(round_trip_s=0.02, sync_s=0.1)
    world = World(slots=16, rules=rules, weights={1: 0.01, 2: 1000.0}, nodes=4)
    world.nodes[2].flood(1, exponential(rng, world, 1, 0.1))
    until = scale.seconds(60, least=20)
    world.run_until(until)
    return [at_least("a lone tenant of little weight: part of the slots", 1 - world.done().idle(10, until), 0.98)]


def back_after_an_hour(scale: Scale) -> list[Figure]:
    """Idle for an hour, it floods: its first five seconds are as its weight, and not what it did not use."""
    rng = scale.rng("hour")
    hour = scale.seconds(3600, least=300)
    world = World(slots=16, rules=Rules(depth=16), weights={1: 1, 2: 1})
    world.nodes[0].flood(1, exponential(rng, world, 1, 0.5))
    world.run_until(hour)
    world.nodes[0].flood(2, exponential(rng, world, 2, 0.02))
    world.run_until(hour + 10)
    share = world.done().shares(hour, hour + 5)[2]
    return [near("share in the first 5 s after an idle hour", share, 0.5, 0.05)]


def beside_a_flood(scale: Scale) -> list[Figure]:
    """Start p99 of 20 light tenants, a request a second each, beside a flood that is on all nodes, as they are."""
    figures = []
    slots, mean_s, round_trip_s = 16, 0.05, 0.03
    for nodes in (1, 4):
        p99 = {}
        for has_flood in (False, True):
            rng = scale.rng("light")
            sync_s = 0.05 if nodes > 1 else None
            rules = Rules(round_trip_s=round_trip_s, has_door=True, sync_s=sync_s, head_start=2)
            world = World(slots=slots, rules=rules, weights=dict.fromkeys(range(21), 1.0), nodes=nodes)
            for node in world.nodes if has_flood else ():
                node.flood(0, exponential(rng, world, 0, mean_s))
            for tenant in range(1, 21):
                make = exponential(rng, world, tenant, mean_s, is_watched=True)
                poisson(rng, world, world.nodes[tenant % nodes], make, per_s=1.0)
            world.run_until(scale.seconds(120, least=30))
            p99[has_flood] = percentile(world.workers.latencies, 99) * 1000
        figures.append(Figure(f"start p99 of light tenants alone, ms, nodes: {nodes}", p99[False], "-", True))
        allowed = round(1.5 * p99[False] + (world.latest - slots) / slots * mean_s * 1000, 1)
        figures.append(at_most(f"start p99 of light tenants beside a flood, ms, nodes: {nodes}", p99[True], allowed))
    return figures


EXPERIMENTS: Mapping[str, Callable[[Scale], list[Figure]]] = {
    "fifo_in_front": fifo_in_front,
    "idle_slots": idle_slots,
    "shares_of_time": shares_of_time,
    "over_nodes": over_nodes,
    "any_number_of_tenants": any_number_of_tenants,
    "four_nodes": four_nodes,
    "alone": alone,
    "back_after_an_hour": back_after_an_hour,
    "beside_a_flood": beside_a_flood,
}


def as_record(figures: list[Figure]) -> dict[str, Any]:
    return {
        figure.name: {"measured": round(figure.measured, 4), "expected": figure.expected, "kept": figure.is_kept}
        for figure in figures
    }
