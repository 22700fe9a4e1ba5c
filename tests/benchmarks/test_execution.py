"""What the benchmarks of execution say of what they have seen."""

from __future__ import annotations

from uuid import UUID, uuid4

from benchmarks.deliveries import account
from benchmarks.meters import Reading
from benchmarks.redrive import latencies
from scheduling.core.latency import LatencyHistogram
from tests.chaos.runlog import Run

SECOND = 10**9
LEASE_S = 5.0


def run(fire: UUID, *, fence: int = 1, at_s: float = 0.0, ended_s: float | None = None) -> Run:
    ended_ns = None if ended_s is None else int(ended_s * SECOND)
    return Run(fire, fence, uuid4(), int(at_s * SECOND), int(at_s * SECOND), ended_ns)


def test_rows_too_many_and_too_few_are_told_apart():
    fires = [uuid4() for _ in range(4)]
    found = account([*fires[:3], fires[0], fires[0]], fires, [], LEASE_S)
    assert (found["rows"], found["doubled"], found["missing"]) == (5, 2, 1)


def test_holders_overlap_where_a_run_begins_within_the_lease_of_one_that_goes_on():
    fires = [uuid4() for _ in range(3)]
    runs = [
        *(run(fires[0]), run(fires[0], fence=2, at_s=LEASE_S - 1)),
        *(run(fires[1]), run(fires[1], fence=2, at_s=LEASE_S + 1)),
        *(run(fires[2], ended_s=1), run(fires[2], fence=2, at_s=2)),
    ]
    assert account(fires, fires, runs, LEASE_S)["overlapping_holders"] == 1


def reading(*seconds: float) -> Reading:
    histogram = LatencyHistogram()
    for value in seconds:
        histogram.record(value)
    return Reading(0.0, 0, 0, histogram, {})


def test_a_redrive_is_compared_with_both_times_without_it_taken_together():
    before = reading(), reading(*[0.010] * 99)
    during = reading(*[0.010] * 99), reading(*[0.010] * 99, *[0.060] * 99)
    after = reading(*[0.010] * 99, *[0.060] * 99), reading(*[0.010] * 99, *[0.060] * 99, *[0.030] * 99)
    found = latencies([before, after], during)
    assert round(found["p99_ratio"]) == 2


def test_without_fires_there_is_no_ratio():
    nothing = reading(), reading()
    assert latencies([nothing], nothing)["p99_ratio"] is None
