"""Why something of a tenant waits for its turn, and when it may start: one reason, in words and in figures.

Pure, and knows nothing of jobs: what is asked about has a tenant, a lane, a place in the tenant's line, and at most
one limit that holds it. Times are real ones.

The expected start goes by the pace at which the tenant's lane starts now: where that is not known yet, by what its
limit lets through, or by its part of the workers. It is an estimate, and never in the past.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import isfinite

from fairness.core.admission import BUDGET, CAP, RATE
from fairness.core.terms import Bound, BoundKey

SHARE = "share"
FARTHEST_S = 10 * 365 * 86_400.0  # an expected start beyond is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """``ahead``: of the tenant's lane so many go before it. Of the ``tenants`` that wait in the lane its own is the
    ``rank``-th, by when each was served last; None where no node has said how they stand.
    """

    ahead: int
    is_least: bool = False  # counting stopped there
    rank: int | None = None
    tenants: int = 0

    def __str__(self) -> str:
        if self.ahead:
            said = f"{'at least ' if self.is_least else ''}{self.ahead:,} of its tenant's go before it"
        else:
            said = "it is the next of its tenant's"
        return said if self.rank is None else f"{said}; its tenant is number {self.rank} of {self.tenants} in line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast the tenant's lane starts. ``slots``: of the workers', its part by weight among those that wait."""

    starts_per_s: float = 0.0  # seen lately; 0: nothing is known
    mean_s: float = 0.0  # slot-seconds of one
    slots: float = 0.0
    queued: int = 0  # of the tenant's lane these have had their turn, and do not run yet

    @property
    def per_s(self) -> float:
        """0: not known."""
        if self.starts_per_s > 0:
            return self.starts_per_s
        return self.slots / self.mean_s if self.mean_s > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The limit that holds it. ``until``: when it is asked again, as far as that is known."""

    reason: str  # rate, cap, budget
    until: datetime | None = None
    key: BoundKey | None = None  # whose limit: tenant, lane or empty, task or empty
    bound: Bound | None = None
    holders: int = 0  # cap: that many are in flight
    held_by: Sequence[str] = ()  # some of them
    daily: int = 0  # budget: fires a day
    day_s: float = 86_400.0  # a day of the budget, in real seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    reason: str
    words: str  # a sentence, without its full stop
    place: Place
    until: datetime | None = None
    holders: int | None = None
    expected_at: datetime | None = None  # None: nobody can tell


def explain(*, tenant: str, lane: str, place: Place, pace: Pace, now: datetime, gate: Gate | None = None) -> Wait:
    """Why it waits: for the limit that holds it, else for its share."""
    if gate is None:
        words = f"waits for {tenant}'s share of the workers in the {lane} lane: {place}"
        return Wait(reason=SHARE, words=words, place=place, expected_at=_starts(now, place, pace))
    until = None if gate.until is None else max(gate.until, now)
    match gate.reason:
        case "rate":
            words, until, expected_at = _rate(gate, tenant, place, pace, until or now)
        case "cap":
            words, expected_at = _cap(gate, tenant, place, pace, now)
        case "budget":
            words, expected_at = _budget(gate, tenant, place, pace, until)
        case _:
            raise ValueError(f"reason {gate.reason!r}: is none of {RATE}, {CAP}, {BUDGET}")
    holders = gate.holders if gate.reason == CAP else None
    return Wait(reason=gate.reason, words=words, place=place, until=until, holders=holders, expected_at=expected_at)


def _rate(
    gate: Gate, tenant: str, place: Place, pace: Pace, start: datetime
) -> tuple[str, datetime | None, datetime | None]:
    """``start``: when there is a token for the first; for this one there is once all before it have had theirs."""
    words = f"held by the rate of {_whose(tenant, gate.key)}"
    until: datetime | None = start if gate.until else None
    if gate.bound is not None and gate.bound.rate_per_s is not None:
        limit = gate.bound.rate_per_s
        words += f" ({limit:g} a second, burst {gate.bound.burst})"
        until = _later(start, place.ahead / limit)
        pace = replace(pace, starts_per_s=min(pace.per_s, limit) if pace.per_s > 0 else limit)
    if until is not None:
        words += f": tokens for it are back at {clock_time(until)}"
    return f"{words}; {place}", until, _starts(start, place, pace, head=0.0)


def _cap(gate: Gate, tenant: str, place: Place, pace: Pace, now: datetime) -> tuple[str, datetime | None]:
    cap = gate.bound.max_in_flight if gate.bound is not None else None
    most = "" if cap is None else f" of {cap}"
    words = f"held by the cap{most} on what {_whose(tenant, gate.key)} has in flight: {gate.holders} are; {place}"
    if cap == 0:
        return words, None  # until somebody changes it
    if pace.starts_per_s <= 0 and cap and pace.mean_s > 0:
        pace = replace(pace, starts_per_s=cap / pace.mean_s)
    return words, _starts(now, place, pace)


def _budget(gate: Gate, tenant: str, place: Place, pace: Pace, until: datetime | None) -> tuple[str, datetime | None]:
    words = f"held by the daily budget of {tenant}, {gate.daily:,} fires, which are spent"
    if gate.daily == 0:
        return f"held by the daily budget of {tenant}, which is 0; {place}", None  # until somebody changes it
    if until is None:
        return f"{words}; {place}", None
    days, ahead = divmod(place.ahead, gate.daily)
    opens = _starts(until, Place(ahead=ahead), pace) or until
    expected_at = _later(opens, days * gate.day_s)
    return f"{words}: the next day begins at {clock_time(until)}; {place}", expected_at


def _whose(tenant: str, key: BoundKey | None) -> str:
    parts = [part for part in (key[1:] if key else ()) if part]
    return f"{tenant} ({', '.join(parts)})" if parts else tenant


def _starts(start: datetime, place: Place, pace: Pace, *, head: float = 0.5) -> datetime | None:
    """When as many have started as are before it, those included that have had their turn. Of two starts of the head
    the next is half an interval away.
    """
    before = place.ahead + pace.queued + head
    if pace.per_s <= 0:
        return None if before else start
    return _later(start, before / pace.per_s)


def _later(start: datetime, seconds: float) -> datetime | None:
    return start + timedelta(seconds=seconds) if isfinite(seconds) and seconds < FARTHEST_S else None


def clock_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
