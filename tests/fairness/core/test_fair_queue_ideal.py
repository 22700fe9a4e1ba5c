"""The fair queue beside the ideal, generalised processor sharing: how far a tenant may fall behind."""

from __future__ import annotations

import random
from functools import partial
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairness.core.fair_queue import FairQueue
from fairness.core.tree import FlowPath, Path
from tests.fairness.core.fluid import Fluid
from tests.fairness.core.pool import Pool, Run

SLACK = 1e-6
BEHIND = 6  # jobs of mean size: the most that a tenant may be behind the ideal

weights = st.floats(1, 50) | st.sampled_from([0.01, 1.0, 1000.0])
sizes = st.floats(0.01, 10)


def flow(tenant: int) -> FlowPath:
    return "bulk", f"t{tenant}", ""


def behind_ideal(pool: Pool, fluid: Fluid) -> dict[FlowPath, float]:
    """How far each is behind the ideal now, in slot-seconds; what was granted counts as served."""
    real = pool.granted(until=fluid.now)
    return {path: served - real.get(path, 0.0) for path, served in fluid.served.items()}


@st.composite
def backlogs(draw: st.DrawFn) -> tuple[list[float], list[list[float]], list[float]]:
    """Weights, the sizes of each tenant's jobs, and how wrong the estimate of each tenant is."""
    count = draw(st.integers(2, 6))
    return (
        [draw(weights) for _ in range(count)],
        [draw(st.lists(sizes, min_size=1, max_size=12)) for _ in range(count)],
        [draw(st.floats(0.2, 5)) for _ in range(count)],
    )


@settings(max_examples=60, deadline=None)
@given(backlogs())
def test_one_slot_is_never_further_behind_the_ideal_than_a_job_of_each(
    case: tuple[list[float], list[list[float]], list[float]],
) -> None:
    """The bound of start-time fair queueing: one's own largest job, and one's part of a largest job of everybody."""
    tenant_weights, jobs, wrong = case
    queue: FairQueue[Run] = FairQueue(capacity=1000.0)
    fluid = Fluid(1.0, {("bulk", f"t{n}"): weight for n, weight in enumerate(tenant_weights)})
    pool = Pool(queue, slots=1)
    for tenant, weight in enumerate(tenant_weights):
        queue.set_weight(("bulk", f"t{tenant}"), weight)
        for seconds in jobs[tenant]:
            pool.offer(flow(tenant), seconds, estimate=seconds * wrong[tenant])
            fluid.arrive(flow(tenant), seconds)
    pool.run_until(sum(map(sum, jobs)) + 1)
    one_of_each = sum(max(of_tenant) for of_tenant in jobs)
    for moment in [served.ended for served in pool.log]:
        fluid.advance_to(moment)
        if len(fluid.rates()) < len(jobs):
            return  # from here on others share
        for path, behind in behind_ideal(pool, fluid).items():
            tenant = int(str(path[1])[1:])
            part = tenant_weights[tenant] / sum(tenant_weights)
            assert behind <= max(jobs[tenant]) + part * one_of_each + SLACK


@settings(max_examples=40, deadline=None)
@given(backlogs(), st.integers(1, 5))
def test_two_who_both_have_work_are_served_alike(
    case: tuple[list[float], list[list[float]], list[float]], slots: int
) -> None:
    """The bound of SFQ(D): over any span in which both have work, by weight, within D + 1 of a largest job of each."""
    tenant_weights, jobs, _ = case
    queue: FairQueue[Run] = FairQueue(capacity=1000.0)
    pool = Pool(queue, slots=slots)
    for tenant, weight in enumerate(tenant_weights):
        queue.set_weight(("bulk", f"t{tenant}"), weight)
        for seconds in jobs[tenant]:
            pool.offer(flow(tenant), seconds)
    pool.run_until(1e5)
    dry = {tenant: max(s.began for s in pool.log if s.path == flow(tenant)) for tenant in range(len(jobs))}
    for one, other in combinations(range(len(jobs)), 2):
        until = min(dry[one], dry[other])
        allowed = (slots + 1) * sum(max(jobs[tenant]) / tenant_weights[tenant] for tenant in (one, other))
        moments = sorted({0.0, *(s.began for s in pool.log if s.began <= until), until})
        ahead = []
        for moment in moments:
            served = pool.granted(until=moment)
            each = [served.get(flow(tenant), 0.0) / tenant_weights[tenant] for tenant in (one, other)]
            ahead.append(each[0] - each[1])
        assert max(ahead) - min(ahead) <= allowed + SLACK


@pytest.mark.parametrize("seed", range(6))
def test_tenants_that_come_and_go_are_at_most_six_mean_jobs_behind_the_ideal(seed: int) -> None:
    """Weights 1 to 50, exponential sizes; estimates are right in the mean only."""
    rng = random.Random(seed)
    slots, count = 8, rng.choice([2, 5, 20])
    tenant_weights: dict[Path, float] = {("bulk", f"t{n}"): rng.uniform(1, 50) for n in range(count)}
    queue: FairQueue[Run] = FairQueue(capacity=slots)
    fluid, pool = Fluid(slots, tenant_weights), Pool(queue, slots)
    for path, weight in tenant_weights.items():
        queue.set_weight(path, weight)

    def burst(tenant: int) -> None:
        for _ in range(rng.randint(20, 80)):
            seconds = rng.expovariate(1.0) + 1e-3
            pool.offer(flow(tenant), seconds, estimate=1.0)
            arrivals.append((pool.now, flow(tenant), seconds))

    arrivals: list[tuple[float, FlowPath, float]] = []
    for tenant in range(count):
        for _ in range(3):
            pool.at(rng.uniform(0, 30 * count / slots), partial(burst, tenant))
    pool.run_until(1e4)
    worst = 0.0
    ends = sorted({served.ended for served in pool.log})
    for moment in sorted({*ends[:: max(1, len(ends) // 200)], *(when for when, _, _ in arrivals)}):
        fluid.advance_to(moment)
        worst = max(worst, *behind_ideal(pool, fluid).values(), 0.0)
        while arrivals and arrivals[0][0] <= moment:
            _, path, seconds = arrivals.pop(0)
            fluid.arrive(path, seconds)
    assert worst <= BEHIND


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_lanes_tenants_and_keys_are_shared_as_the_ideal_shares_them(data: st.DataObject) -> None:
    paths: list[FlowPath] = [(lane, tenant, key) for lane in "xy" for tenant in "ab" for key in "12"]
    node_weights: dict[Path, float] = {
        path[:depth]: data.draw(st.floats(0.5, 8)) for path in paths for depth in (1, 2, 3)
    }
    busy = data.draw(st.lists(st.sampled_from(paths), min_size=2, unique=True))
    queue: FairQueue[Run] = FairQueue(capacity=4.0)
    fluid, pool = Fluid(4.0, node_weights), Pool(queue, 4)
    for path, weight in node_weights.items():
        queue.set_weight(path, weight)
    for path in busy:
        pool.offer(path, 0.5, times=230)
        fluid.arrive(path, 1e9)
    pool.run_until(25.0)
    fluid.advance_to(25.0)
    served = pool.served()
    assert {path: served.get(path, 0.0) for path in busy} == pytest.approx(fluid.served, abs=0.5 * (4 + 1) * 3)
