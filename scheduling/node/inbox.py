"""The queue into a node's one engine thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue

from scheduling.core.effects import Effect

Event = Callable[[], Sequence[Effect] | None]  # runs in the engine's thread; what it returns is carried out


class Inbox:
    """Any thread puts, one thread takes."""

    def __init__(self) -> None:
        self._events: SimpleQueue[Event] = SimpleQueue()

    def put(self, event: Event) -> None:
        self._events.put(event)

    def take(self, timeout_s: float) -> Iterator[Event]:
        """The first event that comes within ``timeout_s``, and whatever else is there by then."""
        try:
            yield self._events.get(timeout=timeout_s) if timeout_s > 0 else self._events.get_nowait()
            while True:
                yield self._events.get_nowait()
        except Empty:
            return
