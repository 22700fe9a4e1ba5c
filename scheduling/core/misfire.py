"""Misfires: what becomes of occurrences that were not published within their grace.

One function judges, at the claim and again before the first publication; per job, over all its unpublished fires and
unclaimed occurrences, in order. What is not late fires. Of the late ones the policy keeps some, and the others are
recorded::

    policy     fires                                                        the others
    latest     the newest                                                   coalesced
    earliest   the oldest                                                   coalesced
    all        those within ``catch_up_window``, the newest ``catch_up_limit``   missed
    skip       none                                                         missed

What is late only because its tenant had to wait (*throttled*) is one of the late ones under ``latest`` and
``earliest``, of which it makes no more than one; under ``all`` and ``skip`` it fires, as if it were not late.

**Bounded.** A job that was down for a week with an occurrence a second has 604,800 late ones. Only the newest
``catch_up_limit`` get a row each; those before them become one row (first, last, count), and need not even be listed.
A candidate that has a row already, a claimed fire, is never summed up: its row must be told its end. Nor is one that
may have a row of the schedule before an edit: the row of many would meet it, and be dropped.

Two clocks meet here: lateness and grace are real seconds, the window is job time. The caller measures; nothing here
reads a clock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice

from scheduling.core.errors import InvalidField
from scheduling.core.fire import Fire, MisfirePolicy
from scheduling.core.recurrence.backlog import Rest


class MisfireReason(StrEnum):
    """Why a late occurrence is skipped."""

    MISSED = "missed"
    COALESCED = "coalesced"
    THROTTLED = "throttled"  # coalesced, and late by the limits of its tenant alone


COALESCING = (MisfirePolicy.LATEST, MisfirePolicy.EARLIEST)

_REASONS = {
    MisfirePolicy.LATEST: MisfireReason.COALESCED,
    MisfirePolicy.EARLIEST: MisfireReason.COALESCED,
    MisfirePolicy.ALL: MisfireReason.MISSED,
    MisfirePolicy.SKIP: MisfireReason.MISSED,
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """An occurrence to be judged. ``late_s`` is in real seconds, counted from ``fire_at`` at the claim and, before
    the first publication, from the later of ``fire_at`` and the claim; time held by the tenant's own limits is not in
    it. Negative: not due yet. ``is_throttled``: with that time it is beyond its grace.
    """

    scheduled_for: datetime
    late_s: float
    fire: Fire | None = None  # its row, if it was claimed already
    may_have_row: bool = False
    is_throttled: bool = False


@dataclass(frozen=True, slots=True)
class MisfireRules:
    """A job's policy. ``grace_s`` is real time, ``catch_up_window`` job time; raises InvalidField for bounds that
    admit nothing.
    """

    policy: MisfirePolicy
    grace_s: float
    catch_up_limit: int
    catch_up_window: timedelta

    def __post_init__(self) -> None:
        if self.grace_s < 0:
            raise InvalidField("misfire_grace_s", self.grace_s, "is negative")
        if self.catch_up_limit < 1:
            raise InvalidField("catch_up_limit", self.catch_up_limit, "is under 1; to catch up with none, use `skip`")
        if self.catch_up_window < timedelta(0):
            raise InvalidField("catch_up_window", str(self.catch_up_window), "is negative")


@dataclass(frozen=True, slots=True)
class Judgement:
    """``fires`` and ``skips`` are in order of ``scheduled_for``; ``reason`` is that of the rest, and of what is skipped
    by itself (``reason_of``).
    """

    fires: tuple[Candidate, ...]
    skips: tuple[Candidate, ...]
    rest: Rest | None
    reason: MisfireReason

    def reason_of(self, skip: Candidate) -> MisfireReason:
        return MisfireReason.THROTTLED if skip.is_throttled else self.reason


def judge(
    candidates: Iterable[Candidate], rules: MisfireRules, *, now: datetime, counted: Rest | None = None
) -> Judgement:
    """Divide one job's candidates, given in order of ``scheduled_for``. ``now`` is job time: ``catch_up_window``
    reaches back from it.

    Of a large backlog not all need be given: ``counted`` are late ones between the first candidate and the second, of
    which at least ``catch_up_limit`` late ones follow (see ``recurrence.backlog``). Reads the candidates once and
    holds no more than those on time, ``catch_up_limit`` late ones and the late ones that have rows.
    """
    on_time: list[Candidate] = []
    newest: deque[Candidate] = deque()
    with_rows: list[Candidate] = []  # late, too old to be among the newest, and not to be summed up
    oldest: Candidate | None = None
    rest = counted
    for candidate in candidates:
        is_late = candidate.late_s > rules.grace_s or (candidate.is_throttled and rules.policy in COALESCING)
        if not is_late:
            on_time.append(candidate)
            continue
        if oldest is None and rules.policy is MisfirePolicy.EARLIEST:
            oldest = candidate
            continue
        newest.append(candidate)
        if len(newest) > rules.catch_up_limit:
            passed = newest.popleft()
            if passed.fire is None and not passed.may_have_row:
                rest = _added(rest, passed)
            else:
                with_rows.append(passed)
    cut = _kept_from(rules, newest, now=now)
    kept = [*([oldest] if oldest else []), *islice(newest, cut, None)]
    skips = (*with_rows, *islice(newest, cut))
    return Judgement(tuple(sorted((*kept, *on_time), key=_nominal)), skips, rest, _REASONS[rules.policy])


def _kept_from(rules: MisfireRules, newest: Sequence[Candidate], *, now: datetime) -> int:
    """From which of the newest late ones on they fire."""
    if rules.policy is MisfirePolicy.LATEST:
        return max(len(newest) - 1, 0)
    if rules.policy is MisfirePolicy.ALL:
        return bisect_left(newest, -rules.catch_up_window, key=lambda one: one.scheduled_for - now)  # may exceed a date
    return len(newest)


def _nominal(candidate: Candidate) -> datetime:
    return candidate.scheduled_for


def _added(rest: Rest | None, candidate: Candidate) -> Rest:
    at = candidate.scheduled_for
    return Rest(at, at, 1) if rest is None else Rest(min(rest.first, at), max(rest.last, at), rest.count + 1)
