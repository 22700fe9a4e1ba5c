"""Limits over Redis: what several nodes have in common, and that its arithmetic is that of ``Rate``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count as numbers

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairness.core.admission import CAP, RATE
from fairness.core.leases import Wanted
from fairness.core.limits import LEASE_S, REBUILD_S
from fairness.core.rate import Rate
from fairness.core.terms import Bound
from fairness.limiting.redis_limiter import RedisLimiter
from tests.fairness.limiting.asked import TASK, WHOLE, admit, cap, count, rate, requests
from tests.fairness.limiting.conftest import LONG_S, Clock
from tests.processes import PATIENCE_S

Nodes = Callable[..., list[RedisLimiter]]


@pytest.fixture
def limiters(redis_url: str, unique: str) -> Iterator[Nodes]:
    """Makes those of so many nodes; with a clock, they go by it."""
    with ExitStack() as stack:

        def make(many: int, clock: Clock | None = None, *, are_rebuilt: bool = True) -> list[RedisLimiter]:
            names = [f"n{number}" for number in range(many)]
            made = [
                RedisLimiter(
                    redis_url,
                    prefix=unique,
                    node=name,
                    nodes=lambda: names,
                    timeout_s=LONG_S,
                    clock=clock or time.monotonic,
                    redis_clock=clock,
                )
                for name in names
            ]
            for limiter in made:
                stack.callback(limiter.close)
                if are_rebuilt:
                    limiter.hold([])
            return made

        yield make


def test_nodes_lease_of_one_bucket_and_none_has_more_than_its_part(limiters: Nodes, clock: Clock) -> None:
    nodes = limiters(8, clock)
    clock.sleep(100)
    ((key, bound),) = rate(100, 50)
    assert [node.lease([Wanted(key, bound, 0)]) for node in nodes] == [[5]] * 5 + [[0]] * 3
    assert count(nodes[0], range(50), rate(100, 50)) == 25


def test_a_limit_is_of_all_nodes_together(limiters: Nodes, clock: Clock) -> None:
    one, other = limiters(2, clock)
    clock.sleep(100)
    assert count(one, "abc", cap(4)) == 3
    assert admit(other, "de", cap(4)) == ["", CAP]
    one.leave(requests("a", cap(4)))
    assert admit(other, "ef", cap(4)) == ["", CAP]
    assert count(one, "xy", rate(1, 3, key=TASK)) == 2
    assert admit(other, "zw", rate(1, 3, key=TASK)) == ["", RATE]


def test_a_fire_that_another_node_takes_over_keeps_its_place_and_spends_nothing(limiters: Nodes, clock: Clock) -> None:
    one, other = limiters(2, clock)
    clock.sleep(100)
    both = [(WHOLE, Bound(rate_per_s=1.0, burst=1, max_in_flight=1))]
    assert admit(one, "a", both) == [""]
    assert admit(other, "ab", both) == ["", CAP]
    other.leave(requests("a", both))
    assert admit(one, "b", both) == [RATE]


def test_nothing_goes_under_a_cap_until_each_node_has_told_what_it_has_in_flight(limiters: Nodes, clock: Clock) -> None:
    one, other = limiters(2, clock, are_rebuilt=False)
    assert admit(one, "a", cap(2)) == [CAP]
    one.hold([])
    (refusal,) = one.admit(requests("a", cap(2)))
    assert refusal is not None
    assert refusal.after_s == REBUILD_S
    assert admit(other, "b", cap(2)) == [CAP]
    other.hold(requests("bc", cap(2)))
    assert admit(one, "a", cap(2)) == [CAP]
    other.leave(requests("b", cap(2)))
    assert admit(one, "a", cap(2)) == [""]


def test_a_node_that_tells_nothing_is_waited_for_no_longer_than_a_lease(limiters: Nodes, clock: Clock) -> None:
    one, _ = limiters(2, clock, are_rebuilt=False)
    one.hold([])
    clock.sleep(LEASE_S - 0.1)
    assert admit(one, "a", cap(2)) == [CAP]
    clock.sleep(0.2)
    assert admit(one, "a", cap(2)) == [""]


def test_a_bucket_counts_as_empty_until_it_could_not_be_another_burst(limiters: Nodes, clock: Clock) -> None:
    (limiter,) = limiters(1, clock)
    assert admit(limiter, "a", rate(10, 50)) == [RATE]
    clock.sleep(1.001)
    assert count(limiter, range(100), rate(10, 50)) == 10
    clock.sleep(5.0)
    assert count(limiter, range(100, 200), rate(10, 50)) == 50
    assert (
        count(limiter, range(200, 300), rate(10, 50, key=TASK)) == 50
    )  # nothing was known of it for longer than a burst


@settings(max_examples=40)
@given(
    st.floats(0.01, 1000),
    st.integers(1, 50),
    st.lists(st.tuples(st.floats(0, 20) | st.just(0.0), st.integers(1, 40)), min_size=1, max_size=12),
)
def test_redis_counts_as_rate_does(redis_url: str, per_s: float, burst: int, wishes: list[tuple[float, int]]) -> None:
    clock, member = Clock(), numbers()
    prefix = f"p{time.time_ns()}"
    limiter = RedisLimiter(
        redis_url, prefix=prefix, node="n", nodes=lambda: ["n"], timeout_s=LONG_S, clock=clock, redis_clock=clock
    )
    alike = Rate(per_s, burst)
    alike.empty(clock.now)
    limiter.hold([])
    for wait, wanted in wishes:
        clock.sleep(wait / per_s)
        admitted = count(limiter, [next(member) for _ in range(wanted)], rate(per_s, burst))
        taken = alike.take(clock.now, wanted)
        if admitted != taken:  # a token that is there but for rounding: seconds are floats
            assert abs(admitted - taken) == 1
            assert abs(alike.tokens(clock.now) + taken - round(alike.tokens(clock.now) + taken)) < 1e-3
            return
    limiter.close()


@pytest.mark.parametrize("nodes", [4, 16])
def test_nodes_that_all_ask_at_once_have_one_rate(limiters: Nodes, nodes: int) -> None:
    began = time.monotonic()
    made = limiters(nodes)
    total = [0] * nodes

    def ask(number: int) -> None:
        member = numbers()
        while sum(total) < 200 and time.monotonic() < began + PATIENCE_S:
            asked = [f"{number}-{next(member)}" for _ in range(20)]
            total[number] += count(made[number], asked, rate(1000, 50))

    _in_threads(ask, nodes)
    took_s = time.monotonic() - began
    assert 100 <= sum(total) <= 1000 * took_s * 1.01 + 1  # buckets were empty when it began


@pytest.mark.parametrize("nodes", [4, 16])
def test_nodes_that_all_ask_at_once_never_exceed_a_cap(limiters: Nodes, nodes: int) -> None:
    made, limit = limiters(nodes), 7
    lock = threading.Lock()
    inside, most, turns = 0, 0, 0
    ends = time.monotonic() + PATIENCE_S

    def ask(number: int) -> None:
        nonlocal inside, most, turns
        member = numbers()
        while turns <= 20 * limit and time.monotonic() < ends:
            asked = requests((f"{number}-{next(member)}" for _ in range(5)), cap(limit))
            entered = [r for r, refusal in zip(asked, made[number].admit(asked), strict=True) if refusal is None]
            with lock:
                inside += len(entered)
                most, turns = max(most, inside), turns + len(entered)
            with lock:
                inside -= len(entered)
            made[number].leave(entered)

    _in_threads(ask, nodes)
    assert most <= limit
    assert turns > 20 * limit
    assert count(made[0], range(20), cap(limit)) == limit  # none has leaked


def _in_threads(work: Callable[[int], None], many: int) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
