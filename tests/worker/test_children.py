"""Dead children are looked for often, where nobody else does it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from project.celery import app
from scheduling.worker.children import LOOK_S, Children


class Timer:
    """That of a worker: what it calls, and how often."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, Any]] = []

    def call_repeatedly(self, every_s: float, function: Any) -> tuple[float, Any]:
        self.calls.append((every_s, function))
        return self.calls[-1]

    def cancel(self, call: tuple[float, Any]) -> None:
        self.calls.remove(call)


def consumer(*, hub: object) -> Any:
    return SimpleNamespace(hub=hub, timer=Timer(), pool=SimpleNamespace(maintain_pool=lambda: None))


def test_each_half_second_while_it_consumes():
    c = consumer(hub=object())
    step = Children(c)

    for _ in range(2):  # it begins anew with each connection
        step.start(c)
        assert c.timer.calls == [(LOOK_S, c.pool.maintain_pool)]
        step.stop(c)
        assert c.timer.calls == []


def test_a_pool_without_an_event_loop_looks_itself_in_a_thread_of_its_own():
    c = consumer(hub=None)
    step = Children(c)

    step.start(c)
    assert c.timer.calls == []
    step.stop(c)


def test_the_projects_workers_do():
    assert Children in app.steps["consumer"]
