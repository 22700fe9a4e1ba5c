"""What was served to whom, of the history of runs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fairness.core.shares import jain


class Ran(NamedTuple):
    """A run, in seconds of one clock."""

    tenant: str
    began: float
    ended: float


def slot_time(runs: Iterable[Ran], since: float, until: float) -> dict[str, float]:
    """Slot-seconds of each tenant between the two instants.

    >>> slot_time([Ran("a", 0, 3), Ran("b", 1, 9)], 2, 4)
    {'a': 1.0, 'b': 2.0}
    """
    served: dict[str, float] = defaultdict(float)
    for run in runs:
        if (inside := min(run.ended, until) - max(run.began, since)) > 0:
            served[run.tenant] += inside
    return dict(served)


def index(runs: Sequence[Ran], weights: Mapping[str, float], since: float, until: float) -> float:
    """Jain's index of slot-time over weight; 1 is ideal."""
    served = slot_time(runs, since, until)
    return jain(served.get(tenant, 0.0) / weight for tenant, weight in weights.items())


def worst_second(runs: Sequence[Ran], weights: Mapping[str, float], since: float, until: float) -> float:
    seconds = int(until - since)
    return min(index(runs, weights, since + n, since + n + 1) for n in range(seconds))


def share_error(runs: Sequence[Ran], weights: Mapping[str, float], since: float, until: float) -> float:
    """The largest relative distance of a tenant's share from that of its weight.

    >>> share_error([Ran("a", 0, 3), Ran("b", 0, 2)], {"a": 1, "b": 1}, 0, 5)
    0.2
    """
    served, total = slot_time(runs, since, until), sum(weights.values())
    of_all = sum(served.values())
    if not of_all:
        return 1.0
    shares = {tenant: weight / total for tenant, weight in weights.items()}
    return round(max(abs(served.get(tenant, 0.0) / of_all - share) / share for tenant, share in shares.items()), 6)


def shares_of(runs: Sequence[Ran], weights: Mapping[str, float], since: float, until: float) -> dict[str, float]:
    """Of the slot-time that was served to all of these."""
    served = slot_time(runs, since, until)
    of_all = sum(served.get(tenant, 0.0) for tenant in weights) or 1.0
    return {tenant: round(served.get(tenant, 0.0) / of_all, 4) for tenant in weights}


def worst_window(
    runs: Sequence[Ran], weights: Mapping[str, float], since: float, until: float, *, window_s: float
) -> float:
    """The most that a share was away from its weight's in any such window, in percentage points; each second begins
    one.
    """
    total, worst, begin = sum(weights.values()), 0.0, since
    while begin + window_s <= until:
        found = shares_of(runs, weights, begin, begin + window_s)
        worst = max(worst, *(abs(found[tenant] - weight / total) for tenant, weight in weights.items()))
        begin += 1.0
    return round(100 * worst, 2)


def settles_after(
    runs: Sequence[Ran], weights: Mapping[str, float], changed: float, until: float, *, within: float, window_s: float
) -> float | None:
    """Seconds from the change to the first window, behind it, from which on the shares are as near as ``within``."""
    step = 0.25
    begin = changed
    while begin + window_s <= until:
        if share_error(runs, weights, begin, begin + window_s) <= within:
            return begin - changed
        begin += step
    return None


def most_beyond(instants: Sequence[float], per_s: float, burst: int) -> float:
    """By how many the instants exceed a rate with a burst, in whatever span; negative: they keep it.

    >>> most_beyond([0, 0, 0, 1], per_s=1, burst=2)
    1
    """
    ordered, worst, least = sorted(instants), float("-inf"), float("inf")
    for number, at in enumerate(ordered):
        least = min(least, number - per_s * at)  # of those that begin a span
        worst = max(worst, number + 1 - per_s * at - least - burst)
    return worst


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
