"""A node that does nothing, built as the settings build one: `SCHEDULING["NODE"] = "tests.beat.stub_node.build"`."""

from __future__ import annotations

import threading
from typing import Any

from scheduling.core.errors import FairbeatError
from tests.processes import PATIENCE_S


class StubNode:
    """It runs until it is told to stop, or to fail."""

    last: StubNode

    def __init__(self) -> None:
        self.stops = 0
        self.failure: FairbeatError | None = None
        self.running, self._end = threading.Event(), threading.Event()

    def run(self) -> None:
        self.running.set()
        self._end.wait(PATIENCE_S)
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        self.stops += 1
        self._end.set()

    def fail(self, why: str) -> None:
        self.failure = FairbeatError(why)
        self._end.set()


def build(_: Any, *, node: str, region: str) -> StubNode:
    StubNode.last = StubNode()
    return StubNode.last
