from __future__ import annotations

from typing import Any

from scheduling.core.effects import Settlement
from scheduling.core.fire import Fire, MisfirePolicy, State
from scheduling.core.judging import judge_fires, late_s
from scheduling.testing.clock import NOON, ManualClock
from tests.claims import SECOND, make_fire, make_work


def minutes(policy: MisfirePolicy, count: int = 3, **values: Any) -> list[Fire]:
    """Fires of one job, a second apart, claimed as they became due."""
    work = make_work(misfire=policy)
    return [make_fire(work, NOON + SECOND * n, seq=n + 1, claimed_at=float(n), **values) for n in range(count)]


def judged(fires: list[Fire], *, at_s: float) -> tuple[list[int], list[Settlement]]:
    """The numbers of the fires that remain, and the skips."""
    clock = ManualClock()
    clock.advance(at_s)
    kept, skips = judge_fires(fires, clock)
    return [fire.seq for fire in kept], skips


def test_what_is_on_time_passes_untouched() -> None:
    assert judged(minutes(MisfirePolicy.SKIP), at_s=30.0) == ([1, 2, 3], [])


def test_what_is_late_is_divided_by_the_policy_of_its_job() -> None:
    for policy, kept, reason in (
        (MisfirePolicy.LATEST, [3], "coalesced"),
        (MisfirePolicy.EARLIEST, [1], "coalesced"),
        (MisfirePolicy.ALL, [1, 2, 3], None),
        (MisfirePolicy.SKIP, [], "missed"),
    ):
        found, skips = judged(minutes(policy), at_s=60.0)
        assert found == kept, policy
        assert {skip.reason for skip in skips} == ({reason} if reason else set()), policy
        assert {skip.state for skip in skips} <= {State.SKIPPED}


def test_a_job_that_is_late_does_not_drag_another_along() -> None:
    late = make_fire(make_work(1, misfire=MisfirePolicy.SKIP), seq=1)
    patient = make_fire(make_work(2, misfire=MisfirePolicy.SKIP, misfire_grace_s=300), seq=2)
    kept, skips = judged([late, patient], at_s=60.0)
    assert kept == [2]
    assert [skip.fire for skip in skips] == [late]


def test_lateness_counts_from_the_claim_where_that_came_after_fire_at() -> None:
    claimed_late = minutes(MisfirePolicy.SKIP, 1)
    claimed_late[0].claimed_at = 50.0
    assert judged(claimed_late, at_s=60.0) == ([1], [])
    assert judged(claimed_late, at_s=80.001)[0] == []


def test_lateness_is_real_time_however_fast_job_time_runs() -> None:
    clock = ManualClock(speed=1440)
    clock.advance(10)
    assert late_s(make_fire(at=NOON + SECOND * 1440), clock, clock.monotonic()) == 9.0


def test_once_handed_to_a_broker_a_fire_is_judged_no_more() -> None:
    assert judged(minutes(MisfirePolicy.SKIP, published=True), at_s=60.0) == ([1, 2, 3], [])


def test_retries_and_manual_fires_are_never_misfires() -> None:
    assert judged(minutes(MisfirePolicy.SKIP, attempt=1), at_s=60.0)[0] == [1, 2, 3]
    assert judged(minutes(MisfirePolicy.SKIP, origin="manual:7"), at_s=60.0)[0] == [1, 2, 3]
