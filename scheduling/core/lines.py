"""Lines of those whom limits hold back, where no node keeps them in memory (stop 2): they wait in Postgres, parked far
ahead, and are brought back about as many at a time as may go.

::

    refused, or new behind those who wait    parked an hour ahead: behind them
    its turn                                 brought back, the longest parked first: by the rate, as places become free,
                                             and as a new day's budget begins
    brought back, and refused all the same   parked for a moment: it stays in front, and nobody comes back meanwhile

So each fire is written a few times, however many wait. Who is held by a limit of his lane or his task is in that line
alone: in the one of his whole tenant he would be first time and again, and in the way of those who may go. A line ends
when there is nobody to be brought back. One that another poller began, and did not live to end, is found by looking for
it once in a while; and should all of that fail, an hour passes. Pure: times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from fairness.core.admission import BUDGET, CAP, RATE, Refusal, Request
from fairness.core.terms import Bound, BoundKey

FAR_S = 3600.0
SOON_S = 0.05  # polls are not denser
PROBE_S = 1.0  # how often places of a cap are tried that nobody was seen to leave
MOST = 100  # brought back at once
WALK, FARTHEST = 100, 800  # of each shard's waiting fires are looked at, and at most where all of these are others'
FARTHER_S = 0.1  # for each hundred beyond, between two looks: with 64 shards one takes a third of that

LineKey = tuple[str, BoundKey]  # why they wait, and for what


@dataclass(frozen=True, slots=True)
class Pull:
    """So many of the longest parked are to come back, of those that wait in no narrower line: of none of the lanes and
    tasks that are ``apart``. ``walk``: so many others may be looked at.
    """

    reason: str
    key: BoundKey
    count: int
    apart: frozenset[tuple[str, str]] = frozenset()
    walk: int = WALK


@dataclass(slots=True)
class _Line:
    """``is_certain``: somebody was seen in it, so that others go behind him; else it is only looked for."""

    bound: Bound
    next_at: float
    pulled_at: float  # up to when the tokens of a rate were brought back for
    is_certain: bool
    step: int = 1  # how many are tried where nothing says how many may go
    freed: int = 0  # places that were left since
    refused: int = 0  # of those who had come back, since
    walk: int = WALK


class Lines:
    """One poller's view of them."""

    def __init__(self) -> None:
        self._lines: dict[LineKey, _Line] = {}

    def ahead_of(self, request: Request) -> LineKey | None:
        """The line that a newcomer with this request goes behind; None: he may ask."""
        certain = [key for key, _ in keys_of(request) if (line := self._lines.get(key)) is not None and line.is_certain]
        return max(certain, key=_narrowness, default=None)

    def refused(self, request: Request, refusal: Refusal, now: float, *, is_new: bool) -> float:
        """For how many real seconds it is parked."""
        bound = next((bound for key, bound in request.bounds if key == refusal.key), Bound())
        line = self._line((refusal.reason, refusal.key), bound, now)
        line.is_certain, line.bound, line.step = True, bound, 1
        after_s = PROBE_S if refusal.after_s is None else refusal.after_s
        line.next_at = max(line.next_at, now + after_s)
        if refusal.reason == BUDGET:
            return after_s
        if is_new:
            return FAR_S
        line.refused += 1
        spread_s = (line.refused - 1) / bound.rate_per_s if bound.rate_per_s and refusal.reason == RATE else 0.0
        return max(SOON_S, after_s + spread_s)

    def left(self, request: Request, now: float) -> None:
        """It is over: there is a place under its caps."""
        for key, _ in request.bounds:
            line = self._lines.get((CAP, key))
            if line is not None:
                line.freed += 1
                line.refused, line.next_at = 0, min(line.next_at, now)

    def look_for(self, keys: Collection[tuple[LineKey, Bound]], now: float, *, step: int = 1) -> None:
        """There may be lines of these that others have begun; or, with a greater ``step``, limits have changed, and
        those who wait are to ask anew.
        """
        for key, bound in keys:
            line = self._line(key, bound, now)
            if step > 1:
                line.bound, line.is_certain, line.step, line.next_at, line.refused = bound, False, step, now, 0

    def pulls(self, now: float) -> Iterator[Pull]:
        """Who is to come back now; each is followed by ``pulled``."""
        for (reason, key), line in list(self._lines.items()):
            if line.next_at > now:
                continue
            refused, line.refused = line.refused, 0  # they come back by themselves
            if line.is_certain and reason == RATE and line.bound.rate_per_s:
                count = _accrued(line, line.bound.rate_per_s, now) - refused
            elif refused:
                count = 0
            else:
                count = line.freed or line.step
            if count > 0:
                yield Pull(reason, key, min(MOST, count), self._apart(reason, key), line.walk)
            else:
                line.next_at = now + self._pause_s(reason, line)

    def _apart(self, reason: str, key: BoundKey) -> frozenset[tuple[str, str]]:
        """Lanes and tasks of narrower lines, whose fires this one may have as well."""
        width = _narrowness((reason, key))
        narrower = [
            other
            for (why, other), line in self._lines.items()
            if why == reason and other[0] == key[0] and line.is_certain and _narrowness((why, other)) > width
        ]
        return frozenset((lane, task) for _, lane, task in narrower)

    def pulled(self, pull: Pull, found: int, now: float, *, is_more: bool = False) -> None:
        """So many were there. ``is_more``: there may be others whom nobody has looked at."""
        line = self._lines[pull.reason, pull.key]
        if found < pull.count and not is_more:
            del self._lines[pull.reason, pull.key]
            return
        if found == 0:
            line.walk = min(2 * pull.walk, FARTHEST)  # those that were looked at wait for something else
        elif not is_more:
            line.walk = WALK
        line.is_certain = line.is_certain or line.step == 1
        if not line.freed:
            line.step = min(MOST, line.step * 2)
        line.freed = 0
        line.next_at = now + self._pause_s(pull.reason, line)

    def tenants(self) -> set[int]:
        """Those of whom somebody may wait."""
        return {key[0] for _, key in self._lines}

    def next_at(self) -> float | None:
        """When somebody is to come back; None: nobody waits."""
        return min((line.next_at for line in self._lines.values()), default=None)

    def _pause_s(self, reason: str, line: _Line) -> float:
        return max(self._usual_pause_s(reason, line), FARTHER_S * (line.walk // WALK - 1))

    def _usual_pause_s(self, reason: str, line: _Line) -> float:
        if not line.is_certain or reason == BUDGET:
            return SOON_S
        if reason == RATE and line.bound.rate_per_s:
            return max(SOON_S, 1 / line.bound.rate_per_s)
        return PROBE_S

    def _line(self, key: LineKey, bound: Bound, now: float) -> _Line:
        return self._lines.setdefault(key, _Line(bound, now, now, is_certain=False))


def _narrowness(key: LineKey) -> tuple[bool, bool, bool]:
    """Each fire is in one line for each reason, the narrowest. Of what a budget holds nothing goes today."""
    reason, (_, lane, task) = key
    return reason == BUDGET, bool(task), bool(lane)


def _accrued(line: _Line, rate_per_s: float, now: float) -> int:
    """How many tokens there are since it was asked last, as far as the burst goes; what is less than one stays."""
    tokens = rate_per_s * (now - line.pulled_at)
    line.pulled_at = now - (tokens % 1.0) / rate_per_s
    return max(1, min(int(tokens), line.bound.burst))


def keys_of(request: Request) -> Iterator[tuple[LineKey, Bound]]:
    """All lines that a fire with this request may have to wait in."""
    if request.daily_fires is not None:
        yield (BUDGET, (request.tenant_id, "", "")), Bound()
    for key, bound in request.bounds:
        if bound.max_in_flight is not None:
            yield (CAP, key), bound
        if bound.rate_per_s is not None:
            yield (RATE, key), bound
