"""The gates of a node's fair queue: the room of a lane, and how many of a limited tenant are asked for at once."""

from __future__ import annotations

from collections.abc import Hashable
from math import inf

WIDEST = 1024


class Room:
    """How many fires of a lane may be in flight. ``limit`` None: any number. ``head_start``: so many more may go of
    tenants that are not ahead of the others; set while those are looked for.
    """

    reason = "share"

    def __init__(self) -> None:
        self.limit: int | None = None
        self.in_flight = 0
        self.waiting = 0  # of this lane, in the queue
        self.head_start = 0

    @property
    def left(self) -> float:
        return inf if self.limit is None else self.limit + self.head_start - self.in_flight

    def opens_at(self, now: float) -> float:
        return now if self.left > 0 else inf

    def enter(self, _member: Hashable, _now: float) -> None:
        self.in_flight += 1

    def leave(self, _member: Hashable) -> bool:
        self.in_flight -= 1
        return self.left > 0

    def undo(self, member: Hashable) -> None:
        self.leave(member)


class Asking:
    """Of one limited tenant no more have their turn at once than are likely to be admitted: whoever is refused has been
    claimed, perhaps read again, for nothing. Twice as many after all were admitted; after a refusal as many as were.
    """

    reason = "share"

    def __init__(self) -> None:
        self.width = 16
        self.asking = 0
        self.unanswered = 0  # of these: limits are being asked

    def opens_at(self, now: float) -> float:
        return now if self.asking < self.width else inf

    def enter(self, _member: Hashable, _now: float) -> None:
        self.asking += 1

    def leave(self, _member: Hashable) -> bool:
        return False  # it is over: it was answered long ago

    def undo(self, _member: Hashable) -> None: ...

    def answered(self, admitted: int, refused: int) -> None:
        """So many were asked for together, and this is what came of it."""
        if refused:
            self.width = max(1, admitted)
        elif admitted * 2 >= self.width:
            self.width = min(self.width * 2, WIDEST)
