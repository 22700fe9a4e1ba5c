"""Whether limits were kept, as the log of runs has it. Pure.

A run counts as long as its holder's lease may last: what goes on behind that is a process that was frozen, whose place
another may have. Of one fire there is one, however often it is run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from tests.chaos.deeds import Limited
from tests.chaos.runlog import Run

LAG_S = 2.0  # from admission to the start of a run, while workers are well


def most_at_once(runs: Sequence[Run], lease_s: float) -> tuple[int, UUID]:
    """How many fires ran at once, at most, and the one with which it came to that. There is a run."""
    lease_ns = int(lease_s * 1e9)
    moments: list[tuple[int, int, UUID]] = []
    for run in runs:
        ends_ns = run.asked_ns + lease_ns
        if run.ended_ns is not None:
            ends_ns = min(ends_ns, run.ended_ns)
        moments += [(run.began_ns, 1, run.fire), (max(ends_ns, run.began_ns), -1, run.fire)]
    inside: Counter[UUID] = Counter()
    most, last = 0, runs[0].fire
    for _, change, fire in sorted(moments):
        inside[fire] += change
        if not inside[fire]:
            del inside[fire]
        if len(inside) > most:
            most, last = len(inside), fire
    return most, last


def excess(runs: Sequence[Run], limited: Limited) -> tuple[float, UUID]:
    """By how many starts the worst span exceeds the rate and its burst, beyond what starting late explains; and the
    last run of that span. There is a run.
    """
    assert limited.bound.rate_per_s is not None
    per_s, allowed = limited.bound.rate_per_s, limited.bound.burst + limited.bound.rate_per_s * LAG_S + 1
    starts = sorted((run.began_ns, run.fire) for run in runs)
    first = 0 if limited.since_ns is None else bisect_left(starts, limited.since_ns, key=lambda start: start[0])
    worst, last = 0.0, starts[0][1]
    reached = -1e18  # the most that a span which ends here has of starts, less what the rate gives it
    before_ns = 0
    for at_ns, fire in starts[first:]:
        if limited.until_ns is not None and at_ns > limited.until_ns:
            break
        reached = 1.0 + max(0.0, reached - per_s * (at_ns - before_ns) / 1e9)
        before_ns = at_ns
        if reached - allowed > worst:
            worst, last = reached - allowed, fire
    return worst, last
