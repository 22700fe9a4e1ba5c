"""Limiters and exchanges of each kind, on clocks that a test moves; and a Redis that it may end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest

from fairness.core.admission import Limiter
from fairness.core.board import Board
from fairness.core.exchange import Exchange
from fairness.core.limits import LocalLimiter
from fairness.core.local_exchange import LocalExchange
from fairness.limiting.redis_exchange import RedisExchange
from fairness.limiting.redis_limiter import RedisLimiter
from tests.own_redis import OwnRedis

LONG_S = 5.0  # a time-out that a busy machine does not reach


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0  # as Redis's, so that nothing is more exact here than there

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def limiter(kind: str, clock: Clock, request: pytest.FixtureRequest, unique: str) -> Iterator[Limiter]:
    """Of the only node. It was told long ago that nothing is in flight, so buckets are full."""
    limiter: Limiter
    if kind == "memory":
        limiter = LocalLimiter(node="n", nodes=lambda: ["n"], clock=clock)
    else:
        url = request.getfixturevalue("redis_url")
        limiter = RedisLimiter(
            url, prefix=unique, node="n", nodes=lambda: ["n"], timeout_s=LONG_S, clock=clock, redis_clock=clock
        )
    limiter.hold([])
    clock.sleep(100_000)
    yield limiter
    limiter.close()


class Exchanges(Protocol):
    def __call__(self, node: str) -> Exchange: ...


@pytest.fixture
def exchanges(kind: str, clock: Clock, request: pytest.FixtureRequest, unique: str) -> Iterator[Exchanges]:
    """Makes that of a node; all of one test have their lanes in common."""
    board = Board()
    with ExitStack() as stack:

        def make(node: str) -> Exchange:
            exchange: Exchange
            if kind == "memory":
                exchange = LocalExchange(board, node=node, clock=clock)
            else:
                url = request.getfixturevalue("redis_url")
                exchange = RedisExchange(
                    url, prefix=unique, node=node, nodes=lambda: [node], timeout_s=LONG_S, redis_clock=clock
                )
            stack.callback(exchange.close)
            return exchange

        yield make


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    server = OwnRedis(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.close()


@pytest.fixture
def own_redis(redis_server: OwnRedis) -> Iterator[OwnRedis]:
    """A server of the test's own; the test may leave it as it likes."""
    yield redis_server
    redis_server.kill()
    redis_server.start()
