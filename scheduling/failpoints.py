"""Named points at which a test, or a chaos run, makes this process die, freeze, fail or wait.

They are no-ops unless ``FAIRBEAT_FAILPOINTS`` names some of them::

    FAIRBEAT_FAILPOINTS="claim.committed=kill#20; publish.sent=sleep:0.3@0.05"

``point=action[:argument][@probability][#hit]``: ``kill`` (SIGKILL), ``freeze`` (SIGSTOP), ``fail`` (raises
FailpointReached) or ``sleep:seconds``; each time with this probability (1 without one), or only the so many-th time
(counted from 1). Within a process a test arms a point with a function of its own: ``with failpoints.armed(point, do)``.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum

from scheduling.core.errors import FairbeatError, InvalidField

VARIABLE = "FAIRBEAT_FAILPOINTS"


class Point(StrEnum):
    """Steps of a fire's life and of a shard's: before each write, and after what cannot be taken back."""

    TAKE_OVER_BEFORE = "take_over.before"
    TAKE_OVER_COMMITTED = "take_over.committed"
    CLAIM_BEFORE = "claim.before"
    CLAIM_COMMITTED = "claim.committed"
    PUBLISH_BEFORE = "publish.before"
    PUBLISH_SENT = "publish.sent"  # handed to the socket; no confirm was read
    PUBLISH_CONFIRMED = "publish.confirmed"  # confirms were read; no watermark was written
    RECORD_BEFORE = "record.before"
    RECORD_COMMITTED = "record.committed"
    HAND_OVER_DRAINED = "hand_over.drained"  # nothing is in flight; the shards are not yet free
    HAND_OVER_RELEASED = "hand_over.released"
    ACQUIRE_BEFORE = "acquire.before"
    ACQUIRE_COMMITTED = "acquire.committed"
    COMPLETE_BEFORE = "complete.before"
    COMPLETE_COMMITTED = "complete.committed"


class FailpointReached(FairbeatError):
    """What ``fail`` raises."""


_armed: dict[str, Callable[[], None]] = {}


def failpoint(point: Point) -> None:
    """Marks the point in the code."""
    if _armed and (do := _armed.get(point)) is not None:
        do()


@contextmanager
def armed(point: Point, do: Callable[[], None]) -> Iterator[None]:
    """Within it ``do`` is called wherever this process reaches the point, in whatever thread."""
    before = dict(_armed)
    _armed[point] = do
    try:
        yield
    finally:
        _armed.clear()
        _armed.update(before)


def arm_from_environment(environ: Mapping[str, str] = os.environ) -> None:
    """Every process does it once, at its start. Raises InvalidField for what names no point or no action."""
    for text in filter(None, (part.strip() for part in environ.get(VARIABLE, "").split(";"))):
        point, _, what = text.partition("=")
        if point.strip() not in list(Point):
            raise InvalidField(VARIABLE, text, f"there is no point {point.strip()!r}; there are {', '.join(Point)}")
        _armed[point.strip()] = _action(text, point.strip(), what.strip())


def _action(text: str, point: str, what: str) -> Callable[[], None]:
    what, _, hit = what.partition("#")
    what, _, probability = what.partition("@")
    action, _, argument = what.partition(":")
    try:
        only, chance = int(hit or 0), float(probability or 1)
        do = {
            "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
            "freeze": lambda: os.kill(os.getpid(), signal.SIGSTOP),
            "fail": lambda: _fail(point),
            "sleep": _sleeper(float(argument or 0)),
        }[action]
    except (ValueError, KeyError):
        raise InvalidField(
            VARIABLE, text, "is not point=action[:argument][@probability][#hit] with kill, freeze, fail or sleep"
        ) from None
    hits = 0

    def reached() -> None:
        nonlocal hits
        hits += 1
        if (not only or hits == only) and random.random() < chance:
            do()

    return reached


def _sleeper(seconds: float) -> Callable[[], None]:
    return lambda: time.sleep(seconds)


def _fail(point: str) -> None:
    raise FailpointReached(f"failpoint {point}")
