"""The exchange over Redis: it does what its twin does, counts once what was told twice, and degrades as it should."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairness.core.board import Board
from fairness.core.exchange import Charge, Row, Settled, Told
from fairness.core.local_exchange import DividedExchange, LocalExchange
from fairness.limiting.redis_exchange import RedisExchange
from fairness.limiting.wire import TIMEOUT_S
from project.environment.process import free_port
from tests.fairness.limiting.conftest import LONG_S, Clock
from tests.fairness.limiting.test_exchange_conformance import row, tell
from tests.own_redis import OwnRedis

TENANTS = st.integers(1, 6)
ROWS = st.lists(
    st.tuples(TENANTS, st.floats(0, 9), st.integers(1, 40)),
    max_size=6,
    unique_by=lambda words: words[0],
)
CHARGES = st.dictionaries(TENANTS, st.tuples(st.floats(-2, 9), st.booleans()), max_size=4)
LOOK = st.tuples(st.integers(0, 3), ROWS, CHARGES, st.integers(0, 12), st.integers(1, 20), st.floats(0, 1.5))


@settings(max_examples=25)
@given(st.lists(LOOK, min_size=1, max_size=12))
def test_redis_answers_as_its_twin_does(
    redis_url: str, looks: list[tuple[int, list[tuple[int, float, int]], dict, int, int, float]]
) -> None:
    clock, board, prefix = Clock(), Board(), f"p{time.time_ns()}"
    names = [f"n{number}" for number in range(4)]
    twins = [LocalExchange(board, node=name, clock=clock) for name in names]
    with ExitStack() as stack:
        nodes = [
            RedisExchange(redis_url, prefix=prefix, node=name, nodes=lambda: names, timeout_s=LONG_S, redis_clock=clock)
            for name in names
        ]
        for node in nodes:
            stack.callback(node.close)
        for number, rows, charges, in_flight, depth, wait_s in looks:
            clock.sleep(wait_s)
            told = Told(
                lane="bulk",
                charges={tenant: Charge(amount, came) for tenant, (amount, came) in charges.items()},
                rows=[
                    Row(tenant, tag, (0.5, 1.0, 4.0)[tenant % 3], 0.1 * tenant, waiting, in_flight // len(rows), 0.25)
                    for tenant, tag, waiting in rows
                ],
                virtual_time=3.0,
                in_flight=in_flight,
                wants=sum(waiting for _, _, waiting in rows),
                depth=depth,
            )
            _assert_alike(nodes[number].exchange([told])[0], twins[number].exchange([told])[0])


def _assert_alike(one: Settled, other: Settled) -> None:
    assert one.tags == pytest.approx(other.tags, abs=1e-6)
    assert one.virtual_time == pytest.approx(other.virtual_time, abs=1e-6)
    assert (one.in_flight, one.wants) == (other.in_flight, other.wants)
    assert abs(one.places - other.places) <= 1  # a target that is whole but for rounding


@pytest.fixture
def nodes(own_redis: OwnRedis, clock: Clock) -> Iterator[list[RedisExchange]]:
    names = ["one", "other"]
    with ExitStack() as stack:
        made = [
            RedisExchange(own_redis.url, prefix="p", node=name, nodes=lambda: names, wall_clock=clock) for name in names
        ]
        for node in made:
            stack.callback(node.close)
        yield made


def test_a_charge_whose_answer_was_lost_counts_once(own_redis: OwnRedis, nodes: list[RedisExchange]) -> None:
    one, other = nodes
    tell(one, row(1, 0), row(2, 0))
    own_redis.hang()
    answer = tell(one, row(1, 3), row(2, 0), charges={1: Charge(3)}, in_flight=3)
    assert (answer.places, answer.tags) == (3, {})  # it keeps what it has
    own_redis.go_on()
    answer = tell(one, row(1, 5), row(2, 0), charges={1: Charge(2)}, in_flight=5)
    assert answer.tags == {1: 5, 2: 0}
    assert tell(other, row(1, 0), row(2, 0)).tags == {1: 5, 2: 0}


def test_without_redis_each_node_has_its_part_of_the_depth(own_redis: OwnRedis, nodes: list[RedisExchange]) -> None:
    own_redis.kill()
    answers = [tell(node, row(1, 3), at=3, depth=9) for node in nodes]
    assert sorted(answer.places for answer in answers) == [4, 5]
    assert all(node.is_degraded for node in nodes)
    assert not any(answer.is_shared for answer in answers)
    assert [(answer.tags, answer.virtual_time) for answer in answers] == [({}, 3)] * 2


def test_a_redis_that_was_emptied_or_away_moves_nobody(
    own_redis: OwnRedis, nodes: list[RedisExchange], clock: Clock
) -> None:
    one, other = nodes
    tell(one, row(1, 50), row(2, 52), at=50)
    own_redis.flush()
    answer = tell(one, row(1, 51), row(2, 52), at=51, charges={1: Charge(1)})
    assert (answer.tags, answer.virtual_time) == ({1: 51, 2: 52}, 51)
    own_redis.kill()
    while not one.is_degraded:
        tell(one, row(1, 60), row(2, 61), at=60, charges={1: Charge(9), 2: Charge(9)})
    tell(one, row(1, 60), row(2, 61), at=60, charges={1: Charge(7)})
    own_redis.start()
    clock.sleep(1.0)
    answer = tell(one, row(1, 67), row(2, 61), at=61)
    assert (answer.tags, answer.virtual_time) == ({1: 67, 2: 61}, 61)
    assert tell(other, row(1, 0), row(2, 0)).tags == {1: 6, 2: 0}


def test_a_redis_that_hangs_costs_three_short_waits(own_redis: OwnRedis, nodes: list[RedisExchange]) -> None:
    tell(nodes[0], row(1, 0))
    own_redis.hang()
    began = time.monotonic()
    answers = [tell(nodes[0], row(1, 0), in_flight=2, depth=8) for _ in range(9)]
    assert [answer.places for answer in answers] == [2, 2, *[4] * 7]
    assert time.monotonic() - began < 10 * TIMEOUT_S
    own_redis.go_on()


def test_a_node_that_leaves_a_redis_that_is_away_says_nothing() -> None:
    exchange = RedisExchange(f"redis://127.0.0.1:{free_port()}/0", prefix="p", node="n", nodes=lambda: ["n"])
    exchange.leave()
    assert tell(exchange, row(1, 0), depth=7).places == 7
    exchange.leave()
    exchange.close()


def test_nodes_without_a_redis_divide_the_depth() -> None:
    alive = ["a", "b", "c"]
    parts = [tell(DividedExchange(node=name, nodes=lambda: alive), depth=10) for name in alive]
    assert sorted(part.places for part in parts) == [3, 3, 4]
    assert not any(part.is_shared for part in parts)
