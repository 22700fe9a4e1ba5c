"""Redis is emptied, killed, hangs, or refuses: limits degrade as they should, and no call raises."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count as numbers

import pytest

from fairness.core.admission import CAP, RATE
from fairness.core.terms import Bound
from fairness.limiting.redis_limiter import RedisLimiter
from fairness.limiting.wire import TIMEOUT_S
from project.environment.process import free_port
from tests.fairness.limiting.asked import TASK, WHOLE, admit, cap, count, rate, requests
from tests.fairness.limiting.conftest import LONG_S, Clock
from tests.own_redis import OwnRedis

Nodes = Callable[..., list[RedisLimiter]]


@pytest.fixture
def limiters(clock: Clock) -> Iterator[Nodes]:
    """Makes those of so many nodes, on the clock of the test, which have told that nothing is in flight."""
    with ExitStack() as stack:

        def make(url: str, many: int, *, timeout_s: float = LONG_S) -> list[RedisLimiter]:
            names = [f"n{number}" for number in range(many)]
            made = []
            for name in names:
                limiter = RedisLimiter(
                    url,
                    prefix="fairbeat",
                    node=name,
                    nodes=lambda: names,
                    timeout_s=timeout_s,
                    clock=clock,
                    wall_clock=clock,
                    redis_clock=clock,
                )
                stack.callback(limiter.close)
                limiter.hold([])
                made.append(limiter)
            return made

        yield make


def is_degraded(limiter: RedisLimiter) -> bool:
    return limiter.is_degraded


def test_a_redis_that_was_emptied_lets_no_second_burst_out(own_redis: OwnRedis, limiters: Nodes, clock: Clock) -> None:
    one, other = limiters(own_redis.url, 2)
    clock.sleep(1000)
    assert count(one, range(80), rate(100, 50)) == 50
    own_redis.flush()
    assert count(other, range(80), rate(100, 50)) == 0
    clock.sleep(0.201)
    assert count(other, range(80, 200), rate(100, 50)) + count(one, range(200, 300), rate(100, 50)) == 20
    clock.sleep(1000)
    assert count(one, range(300, 400), rate(100, 50)) == 50


def test_caps_are_built_anew_in_a_redis_that_was_emptied_before_anybody_enters(
    own_redis: OwnRedis, limiters: Nodes, clock: Clock
) -> None:
    one, other = limiters(own_redis.url, 2)
    assert count(one, "ab", cap(4)) == 2
    assert count(other, "cd", cap(4)) == 2
    own_redis.flush()
    clock.sleep(0.1)
    assert admit(one, "x", cap(5)) == [CAP]  # it has told what it holds, with this call, but the other has not
    assert admit(one, "x", cap(5)) == [CAP]
    assert admit(other, "y", cap(5)) == [CAP]
    assert admit(other, "yz", cap(5)) == ["", CAP]


def test_in_no_span_more_go_than_the_rate_allows_while_redis_is_killed_and_comes_back(
    own_redis: OwnRedis, limiters: Nodes, clock: Clock
) -> None:
    per_s, burst, step_s = 200, 50, 0.025
    made = limiters(own_redis.url, 4)
    clock.sleep(1000)
    member, log, degraded = numbers(), [], 0
    for step in range(160):
        if step == 40:
            own_redis.kill()
        elif step == 100:
            own_redis.start()
        clock.sleep(step_s)
        for limiter in made:
            asked = [next(member) for _ in range(15)]
            log.append((clock.now, count(limiter, asked, rate(per_s, burst))))
        degraded += sum(limiter.is_degraded for limiter in made)
    assert degraded >= 4 * 55
    assert not any(limiter.is_degraded for limiter in made)
    assert sum(n for _, n in log) >= 0.9 * per_s * 160 * step_s
    assert _worst_excess(log, per_s, burst) <= 1


def _worst_excess(log: Sequence[tuple[float, int]], per_s: float, burst: int) -> float:
    """By how many the worst of all spans has exceeded the rate and its burst."""
    worst = 0.0
    for first in range(len(log)):
        total = 0
        for at, n in log[first:]:
            total += n
            worst = max(worst, total - burst - (at - log[first][0]) * per_s)
    return worst


def test_whoever_is_in_flight_when_redis_is_killed_is_held_in_the_new_one(
    own_redis: OwnRedis, limiters: Nodes, clock: Clock
) -> None:
    made = limiters(own_redis.url, 2)
    assert [count(limiter, [f"{n}a", f"{n}b"], cap(5)) for n, limiter in enumerate(made)] == [2, 2]
    own_redis.kill()
    for n, limiter in enumerate(made):
        admit(limiter, [f"{n}x"], cap(4))  # the connection is lost
        assert admit(limiter, [f"{n}x"], cap(4)) == [CAP]
        assert limiter.is_degraded
    made[0].leave(requests(["0a"], cap(4)))
    own_redis.start()
    clock.sleep(1.0)
    assert [admit(limiter, [f"{n}x"], cap(4)) for n, limiter in enumerate(made)] == [[CAP], [""]]
    assert [admit(limiter, [f"{n}y"], cap(4)) for n, limiter in enumerate(made)] == [[CAP], [CAP]]


def test_without_redis_the_parts_of_all_nodes_are_the_whole_limit(limiters: Nodes, clock: Clock) -> None:
    made = limiters(f"redis://127.0.0.1:{free_port()}/0", 4)
    assert all(limiter.is_degraded for limiter in made)
    assert sorted(count(limiter, "abcdef", cap(1)) for limiter in made) == [0, 0, 0, 1]
    assert sorted(count(limiter, "ghijkl", cap(6, key=(8, "", ""))) for limiter in made) == [1, 1, 2, 2]
    assert (
        sum(count(limiter, range(99), rate(10, 6, key=TASK)) for limiter in made) == 0
    )  # it is not known what is left
    clock.sleep(0.601)
    assert sum(count(limiter, range(99), rate(10, 6, key=TASK)) for limiter in made) == 6


def test_a_limiter_without_redis_goes_by_the_nodes_that_are_alive(clock: Clock) -> None:
    alive = ["n", "m"]
    limiter = RedisLimiter(f"redis://127.0.0.1:{free_port()}/0", prefix="p", node="n", nodes=lambda: alive, clock=clock)
    limiter.hold([])
    assert count(limiter, "abcd", cap(4)) == 2
    alive.remove("m")
    assert count(limiter, "abcd", cap(4)) == 4
    assert count(limiter, range(9), rate(10, 6, key=TASK)) == 0
    clock.sleep(9)
    alive.append("m")
    assert count(limiter, range(9), rate(10, 6, key=TASK)) == 3
    alive.remove("m")
    assert count(limiter, range(10, 19), rate(10, 6, key=TASK)) == 0  # the other one may have spent its own
    clock.sleep(9)
    assert count(limiter, range(10, 19), rate(10, 6, key=TASK)) == 6
    alive += ["m", "l", "k"]
    assert admit(limiter, "ae", cap(4)) == ["", CAP]  # nobody is thrown out


def test_a_redis_that_hangs_is_given_up_after_three_short_waits(
    own_redis: OwnRedis, limiters: Nodes, clock: Clock
) -> None:
    (limiter,) = limiters(own_redis.url, 1, timeout_s=TIMEOUT_S)
    both = [(WHOLE, Bound(rate_per_s=1000.0, burst=10, max_in_flight=3))]
    clock.sleep(100)
    assert admit(limiter, "a", both) == [""]
    own_redis.hang()
    began = time.monotonic()
    answers = [limiter.admit(requests("b", both))[0] for _ in range(2)]
    assert [answer and answer.after_s for answer in answers] == [TIMEOUT_S, TIMEOUT_S]
    assert not is_degraded(limiter)
    assert admit(limiter, "b", both) == [RATE]  # of the part, whose bucket begins empty
    assert is_degraded(limiter)
    assert time.monotonic() - began < 10 * TIMEOUT_S
    began = time.monotonic()
    clock.sleep(0.5)
    assert admit(limiter, "bcd", both) == ["", "", CAP]
    assert time.monotonic() - began < TIMEOUT_S
    limiter.leave(requests("a", both))
    own_redis.go_on()
    clock.sleep(0.5)
    assert admit(limiter, "de", both) == ["", CAP]
    assert not is_degraded(limiter)


def test_whoever_left_while_nobody_answered_has_left_once_redis_answers(own_redis: OwnRedis, limiters: Nodes) -> None:
    (limiter,) = limiters(own_redis.url, 1, timeout_s=TIMEOUT_S)
    assert admit(limiter, "ab", cap(2)) == ["", ""]
    own_redis.hang()
    limiter.leave(requests("ab", cap(2)))
    own_redis.go_on()
    assert not limiter.is_degraded
    assert admit(limiter, "bcd", cap(2)) == ["", "", CAP]
    assert admit(limiter, "d", cap(2)) == [CAP]  # b, which had left, is in again


def test_whoever_left_and_came_again_while_nobody_answered_is_in(
    own_redis: OwnRedis, limiters: Nodes, clock: Clock
) -> None:
    (limiter,) = limiters(own_redis.url, 1, timeout_s=TIMEOUT_S)
    assert admit(limiter, "a", cap(1)) == [""]
    own_redis.hang()
    limiter.leave(requests("a", cap(1)))
    assert admit(limiter, "a", cap(1)) == [""]
    assert limiter.is_degraded
    own_redis.go_on()
    clock.sleep(1.0)
    assert [admit(limiter, member, cap(1)) for member in "bcd"] == [[CAP], [CAP], [CAP]]
    assert not is_degraded(limiter)


def test_a_burst_that_went_by_parts_is_gone_when_redis_answers_again(
    own_redis: OwnRedis, limiters: Nodes, clock: Clock
) -> None:
    made = limiters(own_redis.url, 2, timeout_s=TIMEOUT_S / 2)
    clock.sleep(1000)
    own_redis.hang()
    for limiter in made:
        while not limiter.is_degraded:
            admit(limiter, "x", rate(10, 20))
    clock.sleep(100.5)
    by_parts = sum(count(limiter, range(99), rate(10, 20)) for limiter in made)
    assert by_parts >= 18  # of 20: seconds are floats
    own_redis.go_on()
    clock.sleep(0.5)  # its bucket has been full all the while
    after = sum(count(limiter, range(100, 199), rate(10, 20)) for limiter in made)
    assert by_parts + after <= 25
    assert not any(limiter.is_degraded for limiter in made)


def test_a_redis_that_refuses_to_write_is_as_good_as_none(
    own_redis: OwnRedis, limiters: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    (limiter,) = limiters(own_redis.url, 1)
    with own_redis.client() as client:
        client.replicaof("127.0.0.1", 1)  # as the old primary is after a failover
    with caplog.at_level(logging.WARNING):
        answers = [admit(limiter, "a", cap(1)) for _ in range(3)]
    assert answers == [[CAP], [CAP], [""]]
    assert limiter.is_degraded
    assert "Redis at" in caplog.text


def test_no_log_shows_the_password_of_redis(caplog: pytest.LogCaptureFixture) -> None:
    url = f"redis://somebody:s3cret@127.0.0.1:{free_port()}/0"
    with caplog.at_level(logging.WARNING):
        limiter = RedisLimiter(url, prefix="p", node="n", nodes=lambda: ["n"])
        limiter.hold([])
    assert "does not answer" in caplog.text
    assert "s3cret" not in caplog.text
