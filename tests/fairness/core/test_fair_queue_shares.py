"""Who gets how much of a pool, in simulated time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pytest

from fairness.core.estimates import Estimates
from fairness.core.fair_queue import FairQueue
from fairness.core.rate import Rate
from fairness.core.shares import jain
from fairness.core.tree import FlowPath
from tests.fairness.core.pool import Pool, Run


def flow(tenant: str, lane: str = "bulk") -> FlowPath:
    return lane, tenant, ""


def pool_of(slots: int, weights: Mapping[str, float]) -> Pool:
    queue: FairQueue[Run] = FairQueue(capacity=slots)
    for tenant, weight in weights.items():
        queue.set_weight(("bulk", tenant), weight)
    return Pool(queue, slots)


def keep_flooding(pool: Pool, tenant: str, seconds: Callable[[], float], *, estimate: float | None = None) -> None:
    """It always has more to do than the pool has slots."""

    def offer() -> None:
        pool.offer(flow(tenant), seconds(), estimate=estimate)

    pool.refill[flow(tenant)] = offer
    for _ in range(2 * pool.slots):
        offer()


def exponential(rng: random.Random, mean: float) -> Callable[[], float]:
    return lambda: rng.expovariate(1 / mean) + 1e-4


def test_shares_of_time_follow_weights_where_one_tenants_tasks_are_ten_times_as_long() -> None:
    pool = pool_of(8, {"a": 1, "b": 2, "c": 5})
    rng = random.Random(1)
    for tenant, mean in {"a": 1.0, "b": 0.1, "c": 0.1}.items():
        keep_flooding(pool, tenant, exponential(rng, mean), estimate=mean)
    pool.run_until(300)
    assert pool.shares() == pytest.approx({"a": 0.125, "b": 0.25, "c": 0.625}, abs=0.01)


def test_counted_alike_long_tasks_take_more_than_their_weight() -> None:
    """Why costs are estimated and settled: the same tenants, where every request costs 1."""
    pool = pool_of(8, {"a": 1, "b": 2, "c": 5})
    rng = random.Random(1)
    for tenant, mean in {"a": 1.0, "b": 0.1, "c": 0.1}.items():
        keep_flooding(pool, tenant, exponential(rng, mean), estimate=1.0)
    pool.cost_of = lambda _: 1.0
    pool.run_until(300)
    assert pool.shares() == pytest.approx({"a": 0.59, "b": 0.12, "c": 0.30}, abs=0.03)


def test_wrong_estimates_are_settled() -> None:
    """a is thought to be twice as long as it is, c to be half as long."""
    pool = pool_of(8, {"a": 1, "b": 2, "c": 5})
    rng = random.Random(2)
    for tenant, estimate in {"a": 0.2, "b": 0.1, "c": 0.05}.items():
        keep_flooding(pool, tenant, exponential(rng, 0.1), estimate=estimate)
    pool.run_until(120)
    assert pool.shares() == pytest.approx({"a": 0.125, "b": 0.25, "c": 0.625}, abs=0.01)


@pytest.mark.parametrize("count", [2, 20, 100])
def test_jains_index_of_weighted_time_is_high_for_any_number_of_tenants(count: int) -> None:
    rng = random.Random(count)
    weights = {f"t{n}": rng.uniform(1, 50) if count < 100 else rng.uniform(1, 5) for n in range(count)}
    pool = pool_of(32, weights)
    for tenant in weights:
        mean = rng.uniform(0.02, 0.2)
        keep_flooding(pool, tenant, exponential(rng, mean), estimate=mean)
    pool.run_until(60)
    shares = pool.shares()
    assert jain(shares[tenant] / weight for tenant, weight in weights.items()) >= 0.999


def test_a_changed_weight_holds_within_two_seconds() -> None:
    pool = pool_of(8, {"a": 1, "b": 1})
    rng = random.Random(3)
    for tenant in "ab":
        keep_flooding(pool, tenant, exponential(rng, 0.05), estimate=0.05)
    pool.run_until(30)
    pool.queue.set_weight(("bulk", "b"), 4)
    pool.run_until(40)
    assert pool.shares(since=31, until=33)["b"] == pytest.approx(0.8, abs=0.05)


def test_who_was_idle_for_an_hour_gets_its_weight_and_no_more() -> None:
    pool = pool_of(8, {"a": 1, "b": 1})
    rng = random.Random(4)
    keep_flooding(pool, "a", exponential(rng, 1.0), estimate=1.0)
    pool.run_until(3600)
    keep_flooding(pool, "b", exponential(rng, 0.05), estimate=0.05)
    pool.run_until(3615)
    assert pool.shares(since=3605, until=3610)["b"] == pytest.approx(0.5, abs=0.1)
    assert pool.shares(since=3602)["b"] == pytest.approx(0.5, abs=0.05)


def test_a_lone_tenant_of_little_weight_has_the_whole_pool() -> None:
    pool = pool_of(8, {"a": 0.001, "b": 1000})
    keep_flooding(pool, "a", lambda: 0.1)
    pool.run_until(60)
    assert sum(pool.served().values()) >= 0.98 * 60 * 8


def test_a_light_tenant_starts_as_soon_as_a_slot_is_free_beside_a_flood() -> None:
    pool = pool_of(4, {})
    pool.offer(flow("flood"), 0.1, times=20_000)
    starts: list[float] = []
    for second in range(1, 40):
        pool.at(second + 0.013, lambda: pool.offer(flow("light"), 0.1))
    pool.run_until(45)
    for second in range(1, 40):
        began = min(s.began for s in pool.log if s.path == flow("light") and s.began > second)
        starts.append(began - second - 0.013)
    assert len(starts) == 39
    assert max(starts) <= 0.1 + 1e-6  # never a second task of the flood before it


def test_shares_of_time_follow_weights_where_estimates_are_learned_and_tasks_are_fifty_times_as_long() -> None:
    pool = pool_of(8, {"long": 1, "short": 1})
    rng = random.Random(5)
    estimates = Estimates(first=0.1)
    pool.estimate = estimates.of
    pool.learn = estimates.learn
    keep_flooding(pool, "long", exponential(rng, 2.5))
    keep_flooding(pool, "short", exponential(rng, 0.05))
    pool.run_until(300)
    assert pool.shares(since=30)["long"] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(("told_every_s", "share"), [(0.0, 0.87), (0.25, 0.67)])
def test_minutes_that_are_thought_to_be_seconds_take_less_where_they_are_charged_as_they_run(
    told_every_s: float, share: float
) -> None:
    """Half would be the weight. No more than ten seconds of a share are held against it: the rest is forgiven."""
    pool = pool_of(8, {"long": 1, "short": 1})
    pool.told_every_s = told_every_s
    keep_flooding(pool, "long", lambda: 60.0, estimate=1.0)
    keep_flooding(pool, "short", lambda: 1.1, estimate=1.0)
    pool.run_until(1200)
    assert pool.shares()["long"] == pytest.approx(share, abs=0.03)


def test_a_request_that_costs_far_more_than_thought_is_held_against_its_tenant_for_ten_seconds_of_its_share() -> None:
    pool = pool_of(8, {"a": 1, "b": 1})
    pool.offer(flow("a"), 36_000.0, estimate=0.1)
    pool.run_until(36_000.0 + 1)
    pool.offer(flow("other"), 0.05, times=10)
    keep_flooding(pool, "a", lambda: 0.1)
    keep_flooding(pool, "b", lambda: 0.1)
    pool.run_until(pool.now + 60)
    assert pool.shares(since=pool.now - 30)["a"] == pytest.approx(0.5, abs=0.02)


def test_a_rate_limited_tenant_leaves_what_it_may_not_use_to_the_others() -> None:
    pool = pool_of(4, {"a": 9, "b": 1})
    pool.queue.set_gates(("bulk", "a"), [Rate(10.0)])
    keep_flooding(pool, "a", lambda: 0.1)
    keep_flooding(pool, "b", lambda: 0.1)
    pool.run_until(60)
    assert sum(pool.served().values()) >= 0.98 * 60 * 4
    assert pool.shares()["a"] == pytest.approx(0.25, abs=0.01)  # 10 a second of 0.1 s, in 4 slots
