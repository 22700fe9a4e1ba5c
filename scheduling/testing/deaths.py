"""Processes that die at a named point, without a process: what runs there is unwound by an exception.

It is no ``Exception``, so that neither Celery nor the attempt takes it for a failure of the task. Unlike SIGKILL it
runs the ``finally`` blocks, and the ``except BaseException``, of the code on its way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from scheduling.core.errors import InvalidField
from scheduling.failpoints import Point, armed

REACHED = tuple(point for point in Point if not point.startswith("hand_over."))  # a node that dies hands nothing over
OF_LEDGER = tuple(point for point in Point if point.startswith(("acquire.", "complete.", "fail.", "step.")))


class Died(BaseException):
    """The process has died here."""

    def __init__(self, point: Point) -> None:
        super().__init__(f"died at {point}")
        self.point = point


class Death:
    """To come at the ``hit``-th time that the point is reached; once."""

    def __init__(self, point: Point, hit: int) -> None:
        self._point, self._hit = point, hit
        self.reached = 0

    def __call__(self) -> None:
        self.reached += 1
        if self.reached == self._hit:
            raise Died(self._point)

    @property
    def has_come(self) -> bool:
        return self.reached >= self._hit


@contextmanager
def dying_at(point: Point | str, *, hit: int = 1) -> Iterator[Death]:
    """Raises InvalidField for a point that is not reached here."""
    if point not in REACHED:
        raise InvalidField("point", point, f"is none of {', '.join(REACHED)}")
    if hit < 1:
        raise InvalidField("hit", hit, "is counted from 1")
    death = Death(Point(point), hit)
    with armed(death._point, death):
        yield death


@contextmanager
def counting(points: tuple[Point, ...]) -> Iterator[dict[Point, int]]:
    """How often each of these is reached."""
    counts = dict.fromkeys(points, 0)

    def reach(point: Point) -> None:
        counts[point] += 1

    with ExitStack() as stack:
        for point in points:
            stack.enter_context(armed(point, lambda point=point: reach(point)))  # type: ignore[misc]
        yield counts
