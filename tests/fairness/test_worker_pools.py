"""How the end of a request is learnt of a pool of processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairness.worker.pools import Prefork


class Request:
    """Celery's, as far as a pool knows it: it is called back by name, and acknowledges then."""

    def __init__(self, did: list[str]) -> None:
        self._did = did

    def execute_using_pool(self, pool: list[Request]) -> object:
        pool.append(self)
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
def given(did: list[str]) -> Request:
    """A request that a pool was given."""
    pool: list[Any] = []
    Prefork(pool)(Request(did), lambda: did.append("slot is free"))
    (request,) = pool
    assert isinstance(request, Request)
    return request


def test_a_slot_is_free_before_what_ran_in_it_is_accounted_for(given, did):
    given.on_success(None)

    assert did == ["slot is free", "acknowledged"]


def test_the_slot_of_a_task_that_failed_is_free_too(given, did):
    given.on_failure(None)

    assert did == ["slot is free", "failed"]


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
