"""How the end of a request is learnt of a pool of processes or threads, and what is handed to it ahead of its turn."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from fairness.core.prefetch import Inflows
from fairness.queues import QueuePlan
from fairness.worker import hearing
from fairness.worker.pool_door import PoolDoor
from fairness.worker.pools import Handing, Prefork, Threads
from fairness.worker.sources import Sources


class Given:
    """What a pool knows of a request that it was given."""

    def __init__(self, request: Request) -> None:
        self.on_success, self.on_failure, self.on_timeout = request.on_success, request.on_failure, request.on_timeout


class Request:
    """Celery's: it gives itself to the pool, which calls it back, and it acknowledges then."""

    def __init__(self, did: list[str]) -> None:
        self._did = did

    def execute_using_pool(self, pool: list[Given]) -> object:
        pool.append(Given(self))
        return object()

    def on_success(self, _: Any) -> None:
        self._did.append("acknowledged")

    def on_failure(self, _: Any) -> None:
        self._did.append("failed")

    def on_timeout(self, soft: bool, _: float) -> None:
        self._did.append("warned" if soft else "timed out")


@pytest.fixture
def did() -> list[str]:
    return []


@pytest.fixture
def given(did: list[str]) -> Given:
    """A request that a pool was given."""
    pool: list[Any] = []
    Prefork(pool)(Request(did), lambda: did.append("slot is free"))
    (found,) = pool
    assert isinstance(found, Given)
    return found


def test_a_slot_is_free_before_what_ran_in_it_is_accounted_for(given, did):
    given.on_success(None)

    assert did == ["slot is free", "acknowledged"]


def test_the_slot_of_a_task_that_failed_is_free_too(given, did):
    given.on_failure(None)

    assert did == ["slot is free", "failed"]


def test_what_a_process_has_begun_is_heard_before_its_pool_forgets_what_none_has():
    told, say = os.pipe()
    job = SimpleNamespace(_accepted=False, _write_to=SimpleNamespace(_is_alive=lambda: True))
    did: list[str] = []

    def read(fd: int, *_: Any) -> None:
        did.append(os.read(fd, 100).decode())
        job._accepted = True

    inner = SimpleNamespace(
        _cache={1: job}, _fileno_to_outq={told: "process"},
        _result_handler=SimpleNamespace(_flush_outqueue=read, on_state_change=None),
    )  # fmt: skip
    pool = SimpleNamespace(_pool=inner, flush=lambda: did.append("forgot"))
    handing = Prefork(pool)
    for _ in range(2):  # a worker may lose its connection more than once
        handing.connected(lambda: did.append("shut"))
    os.write(say, b"it begins")

    pool.flush()

    assert did == ["shut", "it begins", "forgot"]
    os.close(told)
    os.close(say)


def test_a_process_that_says_nothing_is_not_waited_for_for_long(monkeypatch):
    monkeypatch.setattr(hearing, "HEAR_S", 0.0)
    job = SimpleNamespace(_accepted=False, _write_to=SimpleNamespace(_is_alive=lambda: True))
    did: list[str] = []
    pool = SimpleNamespace(_pool=SimpleNamespace(_cache={1: job}), flush=lambda: did.append("forgot"))
    Prefork(pool).connected(lambda: None)

    pool.flush()

    assert did == ["forgot"]


def test_a_soft_limit_of_time_ends_nothing_and_a_hard_one_does(given, did):
    given.on_timeout(True, 1.0)
    given.on_timeout(False, 2.0)

    assert did == ["warned", "timed out", "slot is free"]


def test_what_ran_is_acknowledged_though_the_next_one_cannot_be_handed_on(did):
    def fail() -> None:
        raise OSError("the pool is broken")

    pool: list[Any] = []
    over: Callable[[], None] = fail
    Prefork(pool)(Request(did), over)

    with pytest.raises(OSError, match="broken"):
        pool[0].on_success(None)

    assert did == ["acknowledged"]


def test_a_request_that_the_pool_has_is_held_by_nothing_else(did):
    """What is called back holds the request; were it to hold that, both would stay until all memory is looked over."""
    request = Request(did)

    Prefork([])(request, lambda: None)

    assert vars(request) == {"_did": did}


def test_a_thread_does_not_begin_what_will_be_delivered_again():
    """What it was handed when the connection was lost, and has not begun."""
    began, release = threading.Event(), threading.Event()
    ran: list[str] = []
    over: list[str] = []

    def run(name: str) -> None:
        began.set()
        release.wait()
        ran.append(name)

    def request(name: str) -> Any:
        return SimpleNamespace(execute_using_pool=lambda pool: SimpleNamespace(f=pool.submit(run, name)))

    with ThreadPoolExecutor(1) as pool:
        hand = Threads(pool)
        for name in ("runs", "waits"):
            hand(request(name), partial(over.append, name))
        began.wait()
        hand.drop()
        told = [*over]
        release.set()

    assert told == ["waits"]
    assert (ran, over) == (["runs"], ["waits", "runs"])


class Pool(Handing):
    """A pool with a queue: it keeps what it was given, and tells an end when the test says so."""

    is_inline, can_queue, forgets = False, True, False

    def __init__(self, slots: int) -> None:
        self.num_processes, self.active = slots, True
        self.given: list[Callable[[], None]] = []

    def __call__(self, request: Any, over: Callable[[], None]) -> None:  # noqa: ARG002  (a pool's signature)
        self.given.append(over)

    def drop(self) -> None:
        self.given.clear()

    def end(self, count: int) -> None:
        for _ in range(count):
            self.given.pop(0)()


@pytest.fixture
def pool() -> Pool:
    return Pool(2)


@pytest.fixture
def door(pool: Pool) -> PoolDoor:
    """Of a worker whose tasks take no time."""
    sources, inflows = Sources(), Inflows()
    sources.connected(None, QueuePlan(prefix="mine"))
    worker = SimpleNamespace(pool=pool, hub=None, timer=None, connection=None)
    door = PoolDoor(worker, pool, sources, inflows, by_count=False)
    door.connected()
    offer(door, 200)
    while pool.given:
        pool.end(1)
    door.tick()
    return door


def offer(door: PoolDoor, count: int) -> None:
    message = SimpleNamespace(delivery_info={"routing_key": "mine.acme.bulk.v1"}, headers={})
    for _ in range(count):
        door.offer(SimpleNamespace(message=message, type="task"))


def test_the_pool_has_what_runs_and_up_to_two_more_for_each_slot(door, pool):
    offer(door, 20)
    door.pump()

    assert len(pool.given) == 6
    assert door.info() == {"slots": 2, "running": 2, "waiting": 18}


def test_it_is_given_more_once_half_of_what_is_ahead_has_begun(door, pool):
    offer(door, 20)
    door.pump()

    pool.end(1)
    assert len(pool.given) == 5
    pool.end(1)
    assert len(pool.given) == 6

    assert door.figures().ran == 202
    assert door.info()["waiting"] == 16


def test_what_has_ended_is_told_though_nothing_was_given_since(door, pool):
    offer(door, 20)
    door.pump()

    pool.end(1)

    assert door.info() == {"slots": 2, "running": 2, "waiting": 17}
