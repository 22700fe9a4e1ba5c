"""Named points at which a test, or a chaos run, makes this process die, freeze, fail or wait.

They are no-ops unless ``FAIRBEAT_FAILPOINTS`` names some of them::

    FAIRBEAT_FAILPOINTS="claim.committed=kill#20; publish.sent=sleep:0.3@0.05"

``point=action[:seconds][@probability][#hit]``: ``kill`` (SIGKILL), ``freeze`` (SIGSTOP), ``fail`` (raises
FailpointReached) or ``sleep:seconds``; each time with this probability (1 without one), or only the so many-th time
that this process gets there (counted from 1). What is done is a line in the log. Within a process a test arms a point
with a function of its own: ``with failpoints.armed(point, do)``.
"""

from __future__ import annotations

import logging
import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from itertools import count

from scheduling.core.errors import FairbeatError, InvalidField

logger = logging.getLogger(__name__)
VARIABLE = "FAIRBEAT_FAILPOINTS"
_FORM = "action[:seconds][@probability][#hit], where action is kill, freeze, fail or sleep"
_WHAT = re.compile(
    r"(?P<action>kill|freeze|fail|sleep)(:(?P<seconds>\d+(\.\d+)?))?(@(?P<probability>\d+(\.\d+)?))?(#(?P<hit>\d+))?"
)


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
    STEP_BEGUN = "step.begun"  # it is noted that a step begins; its function is not yet called
    STEP_CALLED = "step.called"  # its function has returned; that is not yet noted
    STEP_DONE = "step.done"


class FailpointReached(FairbeatError):
    """What ``fail`` raises."""


_armed: dict[str, Callable[[], object]] = {}  # replaced as a whole: other threads read it meanwhile


def failpoint(point: Point) -> None:
    """Marks the point in the code."""
    if _armed and (do := _armed.get(point)) is not None:
        do()


@contextmanager
def armed(point: Point, do: Callable[[], object]) -> Iterator[None]:
    """Within it ``do`` is called wherever this process reaches the point, in whatever thread."""
    global _armed
    before, _armed = _armed, {**_armed, point: do}
    try:
        yield
    finally:
        _armed = before


def arm_from_environment(environ: Mapping[str, str] = os.environ) -> None:
    """Every process does it at its start; a forked one goes on with what its parent has armed. A point that is armed
    already stays as it is.

    Raises InvalidField for what names no point or no action.
    """
    global _armed
    texts = filter(None, (part.strip() for part in environ.get(VARIABLE, "").split(";")))
    _armed = dict(_parsed(text) for text in texts) | _armed


def _parsed(text: str) -> tuple[str, Callable[[], None]]:
    name, _, what = (part.strip() for part in text.partition("="))
    if name not in list(Point):
        raise InvalidField(VARIABLE, text, f"there is no point {name!r}; there are {', '.join(Point)}")
    found = _WHAT.fullmatch(what)
    if found is None or not 0 < float(found["probability"] or 1) <= 1 or int(found["hit"] or 1) < 1:
        raise InvalidField(VARIABLE, text, f"is not point={_FORM}, with a probability above 0 and up to 1")
    action = found["action"]
    if (found["seconds"] is not None) != (action == "sleep"):
        raise InvalidField(VARIABLE, text, "it is sleep, and nothing else, that has an argument: the seconds")
    do = {
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "freeze": lambda: os.kill(os.getpid(), signal.SIGSTOP),
        "fail": lambda: _fail(name),
        "sleep": lambda: time.sleep(float(found["seconds"])),
    }[action]
    return name, _now_and_then(f"{name}={what}", do, float(found["probability"] or 1), int(found["hit"] or 0))


def _now_and_then(text: str, do: Callable[[], None], probability: float, only: int) -> Callable[[], None]:
    """``only``: at that hit alone; 0: at each."""
    hits = count(1)  # of this process, by any of its threads

    def reached() -> None:
        if only in (0, next(hits)) and random.random() < probability:
            logger.warning("failpoint %s", text)
            do()

    return reached


def _fail(point: str) -> None:
    raise FailpointReached(f"failpoint {point}")
