"""Requests, bounds, and what came of them, in a few words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairness.core.admission import Limiter, Refusal, Request
from fairness.core.terms import Bound, BoundKey

WHOLE: BoundKey = (7, "", "")
LANE: BoundKey = (7, "bulk", "")
TASK: BoundKey = (7, "", "send: ü")

Bounds = Sequence[tuple[BoundKey, Bound]]


def rate(per_s: float, burst: int = 1, *, key: BoundKey = WHOLE) -> Bounds:
    return [(key, Bound(rate_per_s=per_s, burst=burst))]


def cap(limit: int, *, key: BoundKey = WHOLE) -> Bounds:
    return [(key, Bound(max_in_flight=limit))]


def requests(members: Iterable[str | int], bounds: Bounds) -> list[Request]:
    return [Request(str(member), 7, "bulk", "send: ü", bounds) for member in members]


def admit(limiter: Limiter, members: Iterable[str | int], bounds: Bounds) -> list[str]:
    """Of each: empty if it may go, or why not."""
    return [why(answer) for answer in limiter.admit(requests(members, bounds))]


def why(answer: Refusal | None) -> str:
    return "" if answer is None else answer.reason


def count(limiter: Limiter, members: Iterable[str | int], bounds: Bounds) -> int:
    """How many of them may go."""
    return admit(limiter, members, bounds).count("")
