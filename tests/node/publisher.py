"""A publisher that a test can watch from another thread, and that confirms at once, a while later, or when it is told
to.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Condition, Timer

from scheduling.broker.memory import MemoryPublisher
from scheduling.core.fire import Fire
from tests.processes import PATIENCE_S


class WatchedPublisher(MemoryPublisher):
    """With ``after_s`` a confirm takes so long, as a broker's does."""

    def __init__(self, *, confirms: bool, after_s: float = 0.0) -> None:
        super().__init__()
        self._changed = Condition()
        self._confirms, self._after_s = confirms, after_s

    def publish(self, fires: Sequence[Fire]) -> None:
        with self._changed:
            super().publish(fires)
            if self._confirms and self._after_s:
                Timer(self._after_s, self._confirm_open, [fires]).start()
            elif self._confirms:
                self.confirm(*fires)  # only an entry in the node's inbox
            self._changed.notify_all()

    def _confirm_open(self, fires: Sequence[Fire]) -> None:
        with self._changed:
            if still_open := [fire for fire in fires if fire in self.open]:
                self.confirm(*still_open)

    def stop(self, *, timeout_s: float) -> None:
        with self._changed:
            super().stop(timeout_s=timeout_s)

    def wait_for(self, count: int, *, timeout_s: float = PATIENCE_S) -> list[Fire]:
        """Wait until so many were published; all of them."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.published) >= count, timeout_s)
            assert len(self.published) >= count, f"{len(self.published)} of {count} were published"
            return list(self.published)

    def confirm_all(self) -> None:
        """Confirm what is open, and from now on what is published."""
        with self._changed:
            self._confirms = True
            self.confirm()

    def refuse_all(self) -> None:
        """There is no connection for what is open."""
        with self._changed:
            self.refuse()
