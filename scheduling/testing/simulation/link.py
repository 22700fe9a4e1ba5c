"""A session with the store, or with the coordinator: one call at a time, each of which may be slow, fail, or be carried
out unknown to its caller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, TypeVar

from scheduling.core.errors import FairbeatError
from scheduling.store.port import StoreUnavailable
from scheduling.testing.simulation.faults import Fault, Faults
from scheduling.testing.simulation.process import Process

T = TypeVar("T")

QUICK_S = 0.001, 0.004  # one way
SLOW_S = 0.05, 1.0
GIVEN_UP_S = 0.1, 1.0  # until a caller sees that there is no reply
LATE_S = 0.1, 3.0  # from then until the call is carried out


class Fate(Enum):
    """What becomes of a call."""

    ANSWERED = auto()
    FAILED = auto()  # nothing was done
    REPLY_LOST = auto()  # it was carried out, and its caller does not know
    LATE = auto()  # its caller has given up when it is carried out


STORE = {
    Fault.STORE_FAILS: Fate.FAILED,
    Fault.STORE_REPLY_LOST: Fate.REPLY_LOST,
    Fault.STORE_LATE: Fate.LATE,
}
COORDINATOR = {
    Fault.COORDINATOR_FAILS: Fate.FAILED,
    Fault.COORDINATOR_REPLY_LOST: Fate.REPLY_LOST,
    Fault.COORDINATOR_LATE: Fate.LATE,
}
NO_REPLY = StoreUnavailable("there is no reply")


class Link:
    """Of one process. Calls are carried out whole, in the order in which they were made (but for late ones)."""

    def __init__(self, process: Process, faults: Faults, fates: Mapping[Fault, Fate]) -> None:
        self._process, self._faults, self._random, self._fates = process, faults, process.world.random, fates
        self._is_cut = False
        self._calls: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._is_busy = False

    def call(self, do: Callable[[], T], then: Callable[[T | FairbeatError], None]) -> None:
        """``then`` gets what ``do`` returned or raised; ``NO_REPLY`` if nobody knows whether it was done."""
        self._calls.append((do, then))
        if not self._is_busy:
            self._next()

    def cut(self, for_s: float) -> None:
        """Nothing gets through, for so long."""
        self._is_cut = True
        self._process.world.after(for_s, self._mend)

    def _mend(self) -> None:
        self._is_cut = False

    def _next(self) -> None:
        self._is_busy = bool(self._calls)
        if self._calls:
            do, then = self._calls.popleft()
            fate = self._fate()
            self._process.world.after(self._one_way_s(), lambda: self._arrived(fate, do, then))

    def _fate(self) -> Fate:
        if self._is_cut:
            return Fate.FAILED
        return next((fate for fault, fate in self._fates.items() if self._faults.strikes(fault)), Fate.ANSWERED)

    def _arrived(self, fate: Fate, do: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """In the store. The process may be frozen, or have died since: what it has sent may count all the same."""
        if not self._process.is_alive:
            if self._random.random() < 0.5:
                _forgotten(do)
            return
        if fate is Fate.ANSWERED:
            reply = _done(do)
            self._process.after(self._one_way_s(), lambda: self._replied(reply, then))
            return
        self._process.world.note(self._process.name, f"call: {fate.name.lower()}")
        if fate is Fate.REPLY_LOST:
            _done(do)
        given_up_s = self._random.uniform(*GIVEN_UP_S)
        if fate is Fate.LATE:
            late_s = given_up_s + self._random.uniform(*LATE_S)
            self._process.world.after(late_s, lambda: _forgotten(do))
        self._process.after(given_up_s, lambda: self._replied(NO_REPLY, then))

    def _replied(self, reply: Any, then: Callable[[Any], None]) -> None:
        then(reply)
        self._next()

    def _one_way_s(self) -> float:
        return self._random.uniform(*(SLOW_S if self._faults.strikes(Fault.STORE_SLOW) else QUICK_S))


def _forgotten(do: Callable[[], object]) -> None:
    """Carried out for nobody."""
    _done(do)


def _done(do: Callable[[], T]) -> T | FairbeatError:
    try:
        return do()
    except FairbeatError as refusal:
        return refusal
